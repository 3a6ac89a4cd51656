"""A name on the hub, a configuration and a revision → the files of each split, fetched when it is read.

``HubData`` is a task's data set: which files make up each split, and which of them were read, for the
results file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lm_eval.data.files import file_type
from lm_eval.data.hub.layout import (
    CONVERTED,
    DEFAULT,
    ConfigFiles,
    check_shards,
    chosen_config,
    converted_configs,
    data_file_patterns,
    has_script,
    inferred_config,
    inferred_splits,
    matching,
    stated_configs,
    within,
)
from lm_eval.data.hub.repository import (
    FetchedFile,
    HubRepo,
    MissingRevisionError,
    RepoFile,
    hub_run,
)
from lm_eval.data.hub.settings import HubSettings, hub_settings
from lm_eval.errors import DataError, MissingExtraError, listing

MAIN = "main"
_PARTIAL = "partial-"


@dataclass
class HubData:
    """A data set of the hub as one task uses it."""

    repo: HubRepo
    config: ConfigFiles
    fetched: dict[str, list[FetchedFile]] = field(default_factory=dict)
    """What was read, by split."""

    @property
    def source(self) -> str:
        shown = "" if self.config.name == DEFAULT else f" ({self.config.name})"
        return f"{self.repo}{shown}"

    @property
    def splits(self) -> list[str]:
        return [split.removeprefix(_PARTIAL) for split in self.config.splits]

    def files_of(self, split: str) -> list[RepoFile]:
        """The files of a split, fetched or not."""
        if split not in self.config.splits:
            raise DataError(
                f"{self.source}: the hub has converted only the first 5 GB of the split {split!r}, so "
                "that rows would be missing. Name the files to use in dataset_files."
            )
        paths = self.config.splits[split]
        if not paths:
            raise DataError(
                f"{self.source}: its README names files for the split {split!r}, and there are none of "
                f"these names. Name them in dataset_files. Files: {listing(self.repo.paths, 8)}."
            )
        check_shards(paths, self.source)
        return [self.repo.files[path] for path in paths]

    def fetch(self, split: str) -> list[Path]:
        """The paths of a split's files on this machine; missing files are fetched, and no others."""
        files = self.files_of(split)
        needs_arrow = any(file_type(file.path) in ("parquet", "arrow") for file in files)
        if needs_arrow and find_spec("pyarrow") is None:
            raise MissingExtraError(
                f"{self.source} is stored as Parquet, which needs pyarrow; it is not installed.",
                install="pip install 'lm-eval-formats[hub]'",
            )
        self.fetched[split] = self.repo.fetch(files, split)
        return [fetched.path for fetched in self.fetched[split]]

    def record(self) -> dict[str, Any]:
        """What the results say about the data: enough to fetch the same data again."""
        files = [
            {
                "split": split,
                "path": fetched.file.path,
                "sha256": fetched.sha256,
                "size": fetched.path.stat().st_size,
            }
            for split, files_of_split in self.fetched.items()
            for fetched in files_of_split
        ]
        return {
            "dataset": self.repo.id,
            "config": self.config.name,
            "revision": self.repo.revision,
            "commit": self.repo.commit,
            "files": files,
        }


def open_data(
    repo_id: str,
    name: str | None = None,
    *,
    revision: str | None = None,
    files: Any = None,
    folder: str | None = None,
    settings: HubSettings | None = None,
) -> HubData:
    """The data set; its data is not fetched yet. ``files`` overrides the splits that the data set
    states, and ``folder`` is the part of it to use."""
    run = hub_run(settings or hub_settings())
    repo = run.repo(repo_id, revision or MAIN)
    if files is not None:
        return HubData(repo, _named(repo, files, folder))
    if folder is not None:
        below = within(repo.paths, folder.strip("/"))
        splits = inferred_splits(below, folder.strip("/"))
        if not splits:
            raise DataError(f"{repo} has no data files in {folder!r}. {_what_is_there(repo)}")
        return HubData(repo, ConfigFiles(name or DEFAULT, splits, is_stated=False))
    config = _on_main(repo, name)
    if config is not None:
        return HubData(repo, config)
    return _converted(repo, name)


def _named(repo: HubRepo, files: Any, folder: str | None) -> ConfigFiles:
    """The files that a task names."""
    splits = {}
    for split, patterns in data_file_patterns(files).items():
        splits[split] = matching(patterns, repo.paths, (folder or "").strip("/"))
        if not splits[split]:
            raise DataError(
                f"{repo} has no file {listing(patterns)} (split {split!r}). {_what_is_there(repo)}"
            )
    return ConfigFiles(DEFAULT, splits)


def _on_main(repo: HubRepo, name: str | None) -> ConfigFiles | None:
    """The configuration in the files of the data set itself; None if they do not have it."""
    stated = stated_configs(repo.readme(), repo.paths)
    if stated:
        config = chosen_config(stated, name, str(repo))
        return config if _is_readable(config) else None
    if _is_converted(repo):
        return chosen_config(converted_configs(repo.paths), name, str(repo))
    if has_script(repo.paths, repo.id):
        return None
    return inferred_config(repo.paths, name)


def _is_converted(repo: HubRepo) -> bool:
    """Whether the commit is from the converted branch."""
    if "README.md" in repo.files:
        return False
    configs = converted_configs(repo.paths).values()
    converted = sum(len(paths) for config in configs for paths in config.splits.values())
    return 0 < converted == sum(file_type(path) is not None for path in repo.paths)


def _is_readable(config: ConfigFiles) -> bool:
    paths = [path for files in config.splits.values() for path in files]
    return bool(paths) and all(file_type(path) for path in paths)


def _converted(repo: HubRepo, name: str | None) -> HubData:
    """The Parquet copy that the hub makes of most data sets."""
    try:
        copy = repo.run.repo(repo.id, CONVERTED)
    except MissingRevisionError:
        raise DataError(_no_data(repo, name)) from None
    if repo.revision not in (MAIN, CONVERTED):
        raise DataError(
            f"{repo} can be read only from the hub's copy in Parquet, which is of its latest commit, "
            f"and the task asks for {repo.revision!r}. Write `dataset_revision: {copy.commit}` for the "
            "copy as it is now."
        )
    return HubData(copy, chosen_config(converted_configs(copy.paths), name, str(copy)))


def _no_data(repo: HubRepo, name: str | None) -> str:
    page = f"{repo.run.settings.endpoint}/datasets"
    word = repo.id.rpartition("/")[2]
    if has_script(repo.paths, repo.id):
        return (
            f"{repo} is made by a loading script ({word}.py), which is not run here or by `datasets`, "
            f"and the hub has no copy of it in Parquet ({CONVERTED}). For a copy with data files, "
            f"search for {word!r} at {page}."
        )
    shown = "" if name is None else f" of the configuration {name!r}"
    return f"{repo} has no data files{shown} that can be read. {_what_is_there(repo)}"


def _what_is_there(repo: HubRepo) -> str:
    folders = sorted({path.split("/")[0] + "/" for path in repo.paths if "/" in path})
    files = sorted(path for path in repo.paths if "/" not in path and not path.startswith("."))
    return f"It has: {listing([*folders, *files], 10)}. Name files in dataset_files."
