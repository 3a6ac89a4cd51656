"""A task's ``dataset_path`` on the hub → its splits: by this package, or by the ``datasets`` library.

``HubData`` is a task's data set: which files make up each split, fetched when it is read, and which of
them were read, for the results file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lm_eval.data.files import CANONICAL, READERS, file_type
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
from lm_eval.data.splits import HUB_ONLY, FileLoader, Splits
from lm_eval.data.table import Table
from lm_eval.errors import DataError, MissingExtraError, did_you_mean, listing

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


# Its splits


def splits_on_hub(
    path: str, name: str | None, kwargs: dict[str, Any], *, has_media: bool
) -> Splits:
    """The splits of a data set of the hub; its data is fetched when a split is read."""
    if _needs_library(kwargs, has_media=has_media):
        return _from_library(path, name, kwargs)

    say_that_code_is_not_run(path, kwargs)
    options = {key: value for key, value in kwargs.items() if key not in HUB_ONLY}
    data_files, folder = options.pop("data_files", None), options.pop("data_dir", None)
    type_name = None
    if path in READERS:
        data, type_name = _data_at(data_files), path
        if data is None:
            return _from_library(path, name, kwargs)
    else:
        revision = kwargs.get("revision")
        data = open_data(path, name, revision=revision, files=data_files, folder=folder)
    _check_hub_options(data, options, type_name)
    loaders = {
        split: FileLoader(partial(data.fetch, split), _options_of(data, options), type_name)
        for split in data.splits
    }
    if isinstance(data_files, (str, list)):  # whichever split the task names
        splits = Splits({}, data.source, any_name=next(iter(loaders.values())))
    else:
        splits = Splits(loaders, data.source, synonyms=not data.config.is_stated)
    splits.origin = data
    return splits


def is_cached(
    path: str,
    name: str | None,
    kwargs: Mapping[str, Any] | None,
    *,
    revision: str | None,
    files: Any,
    split: str | None,
) -> bool:
    """Whether a split of a data set of the hub is on this machine; the network is not used."""

    options = dict(kwargs or {})
    if path in READERS or split is None or _needs_library(options, has_media=False):
        return False
    settings = replace(hub_settings(), offline="it is not asked")
    try:
        data = open_data(
            path,
            name,
            revision=revision or options.get("revision"),
            files=files or options.get("data_files"),
            folder=options.get("data_dir"),
            settings=settings,
        )
        name_there = split if split in data.config.splits else CANONICAL.get(split, split)
        return all(map(data.repo.is_here, data.files_of(name_there)))
    except DataError:
        return False


LOADERS = ("hub", "datasets")
_LIBRARY_ONLY = frozenset(("split", "streaming"))
"""Options that only the ``datasets`` library supports."""


def _needs_library(kwargs: dict[str, Any], *, has_media: bool) -> bool:
    """Whether the ``datasets`` library must read a data set: on request, or because only it can."""
    loader = kwargs.pop("loader", None)
    if loader is not None and loader not in LOADERS:
        raise DataError(
            f"dataset_kwargs: loader cannot be {loader!r}.{did_you_mean(str(loader), LOADERS)} It is "
            f"hub (the default) or datasets, the library of that name."
        )
    known = {"data_files", "data_dir", *HUB_ONLY}
    known |= {option for reader in READERS.values() for option in reader.options}
    others = [key for key in kwargs if key not in known]
    if loader is None:
        return has_media or bool(others) or bool(_LIBRARY_ONLY & kwargs.keys())
    if loader == "hub" and others:
        raise DataError(
            f"dataset_kwargs has {others[0]!r}, which only the `datasets` library takes. Leave it out, "
            f"or write `loader: datasets` beside it."
        )
    return bool(loader == "datasets")


def _check_hub_options(data: HubData, options: Mapping[str, Any], type_name: str | None) -> None:
    if options:
        kinds = (
            {type_name}
            if type_name
            else {file_type(path) for paths in data.config.splits.values() for path in paths}
        )
        for kind in sorted(kind for kind in kinds if kind):
            READERS[kind].check_options(options, kind)


def _options_of(data: HubData, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a task, and those of the data set's README that fit its files."""
    paths = [path for paths in data.config.splits.values() for path in paths]
    takes = READERS[file_type(paths[0]) or "json"].options if paths else ()
    stated = {key: value for key, value in data.config.options.items() if key in takes}
    return {**stated, **options}


def _from_library(path: str, name: str | None, kwargs: dict[str, Any]) -> Splits:
    if path == "tsv":  # a spelling of ours; the library knows csv with another separator
        kwargs = {"sep": "\t", **kwargs}
    loaded = load_from_hub({"jsonl": "json", "tsv": "csv"}.get(path, path), name, kwargs)
    source = f"The dataset {path!r}" + (f" ({name})" if name else "")
    if isinstance(loaded, Mapping):
        return Splits(loaded, source)
    return Splits({}, source, any_name=loaded)


# ``data_files`` that are addresses of the hub


def _data_at(data_files: Any) -> HubData | None:
    """The data behind ``hf://`` addresses, all of one data set; None for any other ``data_files``."""

    patterns = data_file_patterns(data_files)
    files: dict[str, list[str]] = {split: [] for split in patterns}
    sources = set()
    for split, addresses in patterns.items():
        for address in addresses:
            parsed = _parse_address(address)
            if parsed is None:
                return None
            repo_id, revision, path = parsed
            sources.add((repo_id, revision))
            files[split].append(path)
    if len(sources) != 1:
        return None
    ((repo_id, revision),) = sources
    return open_data(repo_id, revision=revision, files=files)


def _parse_address(address: str) -> tuple[str, str | None, str] | None:
    """``hf://datasets/owner/name@revision/path`` → name, revision and path; None for others."""
    if not address.startswith("hf://datasets/"):
        return None
    owner, _, inside = address.removeprefix("hf://datasets/").partition("/")
    name, _, path = inside.partition("/")
    name, _, revision = name.partition("@")
    if not (owner and name and path):
        return None
    return f"{owner}/{name}", revision.replace("%2F", "/") or None, path


# The optional ``datasets`` library, for data that only it can read


def load_from_hub(
    path: str, name: str | None, kwargs: Mapping[str, Any]
) -> dict[str, Callable[[], Table]] | Callable[[], Table]:
    """Split name → a function that makes its table; a bare function where there is one split.

    Rows become plain Python values only when a split is read.
    """
    datasets = _import_datasets(path)
    options = {key: value for key, value in kwargs.items() if key != "trust_remote_code"}
    say_that_code_is_not_run(path, kwargs)
    try:
        loaded = datasets.load_dataset(path, name, **options)
    except Exception as error:
        raise DataError(_failed(path, name, error)) from error
    if isinstance(loaded, Mapping):
        return {str(split): _maker(rows) for split, rows in loaded.items()}
    return _maker(loaded)


def say_that_code_is_not_run(path: str, kwargs: Mapping[str, Any]) -> None:
    """Warn that a data set's own code is not run, if the task would allow it."""
    if "trust_remote_code" in kwargs:
        import logging

        logging.getLogger(__name__).warning(
            "%s: trust_remote_code is ignored; loading scripts are not run, and `datasets` no longer "
            "runs them either.",
            path,
        )


def _maker(rows: Any) -> Callable[[], Table]:
    def make() -> Table:
        return Table.owning([dict(row) for row in rows], getattr(rows, "column_names", None) or ())

    return make


def _import_datasets(path: str) -> Any:
    try:
        import datasets

        if getattr(datasets, "IS_STAND_IN", False):  # ours, for the helpers of tasks
            raise ImportError
    except ImportError:
        raise MissingExtraError(
            f"dataset_path {path!r} is not a local file or folder, so it is a name on the Hugging "
            f"Face hub. For local data write `dataset_path: ./file.jsonl`, or `dataset_path: json` "
            f"with `dataset_kwargs: {{data_files: {{test: file.jsonl}}}}`. The hub needs the "
            f"`datasets` library, which is not installed.",
            install="pip install 'lm-eval-formats[datasets]'",
        ) from None
    return datasets


def _failed(path: str, name: str | None, error: Exception) -> str:
    what = f"{path!r}" + (f" (dataset_name {name!r})" if name else "")
    hint = "Check the name and the network, or save the data locally and name the file."
    if "script" in str(error).lower():
        hint = (
            "This dataset needs a loading script, which `datasets` no longer runs. Use a copy of "
            "it in Parquet or JSON."
        )
    return f"The dataset {what} cannot be loaded: {type(error).__name__}: {error}. {hint}"
