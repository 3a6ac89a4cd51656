"""Runs on disk: a results file or a folder of them → ``StoredRun``s.

A run is its results file, with the samples files and the items file beside it. Files of EleutherAI's
harness are read too. Runs of other packages are read by entry points of the group ``lm_eval.runs``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from lm_eval.errors import ComparisonError, did_you_mean, listing
from lm_eval.lab.stored.samples import parsed_samples
from lm_eval.models.loading import answering
from lm_eval.registry import RUN_READERS
from lm_eval.reports.items import ItemColumns, columns_of_samples
from lm_eval.reports.writer import is_results_file
from lm_eval.support.files import safe_task_name

STAMP = r"_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)"
"""The time in the names of a run's files."""
_RESULTS_NAME = re.compile(rf"{STAMP}\.json$")
_RUN_FILE = re.compile(rf"{STAMP}\.jsonl?$")
PLAIN = "plain"
"""The format name of a task that was asked without a format."""
_SKIPPED = {".git", "node_modules", "__pycache__", "site-packages", ".mypy_cache", ".ruff_cache"}
NEAR_FOLDERS = 2000
"""How many folders are searched for runs to suggest, if there are none where they were expected."""
_NOT_RESULTS = ("items_", "sweep_")
_SECTIONS = (
    *("formats", "samples_files", "primary_metrics", "higher_is_better", "n-shot", "versions"),
    *("fingerprints", "notes", "accounting", "n-samples", "groups", "shows_choices"),
    "group_subtasks",
)
"""Optional sections of a results file, each of which is a mapping."""
_BY_RESULT = (
    *("results", "configs", "formats", "primary_metrics", "higher_is_better"),
    *("fingerprints", "n-samples", "groups"),
)
"""Sections that hold a mapping for each result."""


def sweep_path(results: Path) -> Path:
    """Where a sweep writes its summary: beside its results."""
    return results.with_name(f"sweep_{results.stem.rpartition('_')[2]}.json")


class RunReader(Protocol):
    """Reads the runs of another package; registered under ``lm_eval.runs``."""

    def reads(self, path: Path) -> bool:
        """Whether a file or folder is one of these runs."""
        ...

    def open(self, path: Path) -> list[StoredRun]:
        """The runs there."""
        ...


@dataclass(frozen=True)
class StoredRun:
    """One run, read from its files."""

    path: Path
    """The results file."""
    results: Mapping[str, Any]
    """The content of that file."""

    @property
    def model(self) -> str:
        """The model's name."""
        config = self.results.get("config")
        known = config.get("model") if isinstance(config, Mapping) else None
        name = self.results.get("model_name") or known
        return str(name or self.path.parent.name)

    @cached_property
    def arguments(self) -> dict[str, str]:
        """The model's arguments as text; for replicas on Ray, those of one replica."""
        config = self.results.get("config")
        config = config if isinstance(config, Mapping) else {}
        arguments = config.get("model_args")
        if isinstance(arguments, str):
            parts = (part.partition("=") for part in arguments.split(",") if part.strip())
            arguments = {name.strip(): value.strip() for name, _, value in parts}
        if not isinstance(arguments, Mapping):
            return {}
        _, arguments = answering(config.get("model"), arguments)
        return {str(name): str(value) for name, value in arguments.items()}

    @property
    def names(self) -> list[str]:
        """The results in it, ``task@format`` or plain task names, without groups."""
        return [name for name in self.results.get("configs", {}) if name in self.results["results"]]

    def format_of(self, name: str) -> str | None:
        """The format of a result; None for a plain task."""
        facts = self.results.get("formats", {}).get(name)
        return None if facts is None else str(facts["format"])

    def task_of(self, name: str) -> str:
        """The task of a result."""
        return name.rpartition("@")[0] if self.format_of(name) is not None and "@" in name else name

    def samples_path(self, name: str) -> Path:
        """The samples file of a result; an error if there is none."""
        known = self.results.get("samples_files", {}).get(name)
        stamp = _RESULTS_NAME.search(self.path.name)
        if known is None and stamp is not None:
            known = f"samples_{safe_task_name(name)}_{stamp[1]}.jsonl"
        path = self.path.parent / Path(str(known)).name  # beside it, whatever the file says
        if known is None or not path.is_file():
            raise ComparisonError(
                f"{self.path} has no samples of {name!r}, which are needed item by item. Run it again "
                "with --output_path; EleutherAI's harness writes them with --log_samples."
            )
        return path

    def samples(self, name: str) -> Iterator[dict[str, Any]]:
        """The samples of a result, one after the other."""
        path = self.samples_path(name)
        try:
            file = path.open("rb")
        except OSError as error:
            raise _unreadable(error, path) from None
        with file:
            yield from parsed_samples(file, path)

    def items(self, name: str, filter_name: str = "none") -> ItemColumns:
        """The scores of a result item by item; from its samples if there is no items file."""
        by_filter = self._columns.get(name) or self._columns_of_samples(name)
        for columns in by_filter:
            if columns.filter == filter_name:
                return columns
        raise ComparisonError(
            f"{self.path} has no items of {name!r} under filter {filter_name!r}. Filters: "
            f"{listing([columns.filter for columns in by_filter])}."
        )

    def _columns_of_samples(self, name: str) -> list[ItemColumns]:
        try:
            return [_checked(columns) for columns in columns_of_samples(name, self.samples(name))]
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            raise ComparisonError(
                f"{self.samples_path(name)} is damaged: its samples do not hold what a run writes. Run "
                "again, or delete the run."
            ) from None

    @cached_property
    def _columns(self) -> dict[str, list[ItemColumns]]:
        path = self.path.parent / Path(str(self.results.get("items_file", ""))).name
        if not path.is_file():
            return {}
        by_name: dict[str, list[ItemColumns]] = {}
        content = _bytes(path)
        try:
            for values in json.loads(content).get("items", ()):
                columns = _checked(ItemColumns.from_dict(values))
                by_name.setdefault(columns.name, []).append(columns)
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            raise ComparisonError(
                f"{path} is damaged: it does not hold what a run writes there. Delete it, and the "
                "samples beside it are read instead."
            ) from None
        return by_name


@dataclass(frozen=True)
class StoredResult:
    """One result of a stored run; its items are not read yet."""

    run: StoredRun
    name: str
    """``task@format``, or the name of a plain task."""

    @property
    def task(self) -> str:
        return self.run.task_of(self.name)

    @property
    def format(self) -> str:
        """The format's name; ``plain`` if the task was asked without one."""
        return self.run.format_of(self.name) or PLAIN

    @property
    def config(self) -> Mapping[str, Any]:
        """The task's config as it was stored."""
        return self.fact("configs") or {}

    def fact(self, section: str) -> Any:
        """What a section of the results file says about this result; None if nothing."""
        facts = self.run.results.get(section)
        return facts.get(self.name) if isinstance(facts, Mapping) else None


def _checked(columns: ItemColumns) -> ItemColumns:
    """The columns, if all are equally long and ``read`` holds shares."""
    others: list[Sequence[Any]] = [columns.docs, columns.shots, *columns.metrics.values()]
    others += [column for column in (columns.read, columns.clusters) if column is not None]
    if not isinstance(columns.name, str) or any(len(other) != len(columns) for other in others):
        raise ValueError(columns.name)
    if columns.read is not None and not all(0 <= share <= 1 for share in columns.read):
        raise ValueError(columns.name)
    return columns


def open_runs(paths: Sequence[str | Path]) -> list[StoredRun]:
    """The runs at these paths: results files, or folders with results files at any depth."""
    runs: dict[Path, StoredRun] = {}
    for path in paths:
        try:
            for run in _open(Path(path).expanduser()):
                runs.setdefault(run.path.resolve(), run)
        except OSError as error:
            raise _unreadable(error, Path(path)) from None
    return list(runs.values())


def _open(path: Path) -> list[StoredRun]:
    if not path.exists():
        raise ComparisonError(no_such_run(path))
    if _may_be_foreign(path):
        for name in RUN_READERS:
            reader = RUN_READERS.get(name)
            if reader.reads(path):
                return list(reader.open(path))
    if path.is_file():
        return [_run(path)]
    runs = [_run(file) for file in sorted(_results_files(path))]
    if not runs:
        raise ComparisonError(
            f"{str(path)!r} holds no results files (results_….json). Run something with "
            f"--output_path {path} first.{runs_near(path)}"
        )
    return runs


def _may_be_foreign(path: Path) -> bool:
    """Whether another package may have written this; if not, its reader is not imported.

    A folder is ours if there are results files in it, at any depth, and every file directly in it has
    the time of a run in its name.
    """
    if path.is_file():
        return not _RESULTS_NAME.search(path.name)
    if any(not _RUN_FILE.search(entry.name) and entry.is_file() for entry in path.iterdir()):
        return True
    return next(_results_files(path), None) is None


def is_results_name(name: str) -> bool:
    """Whether a file of this name holds the results of a run."""
    return bool(_RESULTS_NAME.search(name)) and not name.startswith(_NOT_RESULTS)


def is_results(path: Path) -> bool:
    """Whether it is a results file: by its name, or by how it begins if the user chose the name."""
    if is_results_name(path.name):
        return True
    is_json = path.name.endswith(".json") and not path.name.startswith(_NOT_RESULTS)
    return is_json and is_results_file(path)  # such as from ``--output_path mine.json``


def no_such_run(path: Path, is_run: Callable[[Path], bool] = is_results) -> str:
    """The message about a path that is not there."""
    parent = path.parent
    names = [entry.name for entry in parent.iterdir()] if parent.is_dir() else []
    return (
        f"There is no {str(path)!r}.{did_you_mean(path.name, names)} Give the folder named by "
        f"--output_path, or a results file in it.{runs_near(parent, is_run)}"
    )


def runs_near(path: Path, is_run: Callable[[Path], bool] = is_results) -> str:
    """``" Folders near it with runs: a, b."``; empty if there are none.

    ``is_run`` tells whether a file belongs to a run; by default, results files do.
    """
    start = (path if path.is_dir() else path.parent).resolve()
    folders = folders_with_runs(start, is_run) or folders_with_runs(start.parent, is_run)
    if not folders:
        return ""
    named = listing([os.path.relpath(folder) for folder in folders], 6)
    return f" Folders near it with runs: {named}."


def folders_with_runs(start: Path, is_run: Callable[[Path], bool] = is_results) -> list[Path]:
    """The folders below, at most three deep, that hold a run or whose subfolders do."""
    holders: dict[Path, None] = {}
    for parent, folders, names in islice(os.walk(start), NEAR_FOLDERS):
        folder = Path(parent)
        depth = len(folder.relative_to(start).parts)
        folders[:] = [] if depth >= 3 else sorted(n for n in folders if not is_skipped(parent, n))
        if any(is_run(folder / name) for name in names):
            holders[folder.parent if depth > 1 else folder] = None  # DIR/<model>/results_….json
    return list(holders)


def is_skipped(parent: str, name: str) -> bool:
    """Whether a folder is not searched: it has many files, and no runs among them."""
    return name in _SKIPPED or os.path.exists(os.path.join(parent, name, "pyvenv.cfg"))


def _results_files(folder: Path) -> Iterator[Path]:
    """The results files below a folder; one that cannot be listed is an error."""

    def stop(error: OSError) -> None:
        raise error

    for parent, _, names in os.walk(folder, onerror=stop):
        for name in names:
            if is_results(Path(parent, name)):
                yield Path(parent, name)


def _run(path: Path) -> StoredRun:
    if path.suffix == ".jsonl":
        raise ComparisonError(
            f"{path} is not a results file. Give one (results_….json), or the folder of a run."
        )
    content = _json(path)
    if not isinstance(content.get("results"), dict) or not isinstance(content.get("configs"), dict):
        raise ComparisonError(
            f"{path} is not a results file: it has no `results` and `configs`. Results files are called "
            "results_….json."
        )
    if flaw := _flaw(content):
        raise ComparisonError(f"{path} is damaged: {flaw}. Run it again, or leave the file out.")
    return StoredRun(path, content)


def _flaw(content: Mapping[str, Any]) -> str | None:
    """What is wrong with a results file; None if nothing is."""
    for name in _SECTIONS:
        if not isinstance(content.get(name, {}), dict):
            return f"`{name}` is not a mapping"
    if not isinstance(content.get("config") or {}, dict):
        return "`config` is not a mapping"
    for name in _BY_RESULT:
        for key, value in content.get(name, {}).items():
            if not isinstance(value, dict):
                return f"`{name}` of {key!r} is not a mapping"
    for key, value in content.get("group_subtasks", {}).items():
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            return f"`group_subtasks` of {key!r} is not a list of names"
    for key, value in content.get("formats", {}).items():
        if "format" not in value:
            return f"`formats` of {key!r} does not name the format"
    return None


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(_bytes(path))
    except (ValueError, RecursionError) as error:
        raise ComparisonError(
            f"{path} is not JSON: {error}. It may be half written: run it again, or leave the file out."
        ) from None
    if not isinstance(content, dict):
        raise ComparisonError(f"{path} is not a results file: it holds no object.")
    return content


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(error, path) from None


def _unreadable(error: OSError, path: Path) -> ComparisonError:
    return ComparisonError(f"{error.filename or path} cannot be read: {error.strerror}.")
