"""The runs below a folder, finished or not: what the list of runs shows, and where their samples are.

In: a folder or results files. Out: ``ViewedRun``s. A file that cannot be read becomes a
``Problem`` and hides none of the others. Runs of other packages come through the entry points
``lm_eval.runs``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from lm_eval.errors import ComparisonError, LmEvalError, UsageError, listing
from lm_eval.lab.stored.measurement import primary_metric
from lm_eval.lab.stored.run import (
    STAMP,
    StoredRun,
    is_results,
    is_skipped,
    no_such_run,
    open_runs,
    runs_near,
)
from lm_eval.lab.stored.samples import SampleLines
from lm_eval.lab.stored.view import mapping
from lm_eval.registry import RUN_READERS
from lm_eval.reports.items import ItemColumns, columns_of_samples
from lm_eval.support.encode import text_hash
from lm_eval.support.files import PARTIAL, is_held

_SAMPLES_NAME = re.compile(rf"^samples_(.+){STAMP}\.jsonl({re.escape(PARTIAL)})?$")
_RUN_NAME = re.compile(rf"{STAMP}\.jsonl?({re.escape(PARTIAL)})?$")


class ListedSamples:
    """Samples of a run that another package reads: made once, and kept."""

    def __init__(self, samples: Sequence[dict[str, Any]]) -> None:
        self._samples = samples

    def count(self, at_least: int | None = None) -> int:  # noqa: ARG002
        return len(self._samples)

    def samples(self, first: int, count: int) -> Iterator[dict[str, Any]]:
        return islice(self._samples, first, first + count)


SampleSource = SampleLines | ListedSamples
"""Samples by number."""


@dataclass(frozen=True)
class Problem:
    """A file that could not be opened as a run."""

    path: str
    message: str


@contextmanager
def undamaged(path: Path | str) -> Iterator[None]:
    """Turn what values of the wrong shape cause into an error about the file that holds them."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as e:
        raise ComparisonError(
            f"{path} is damaged: it does not hold what a run writes there ({type(e).__name__}: "
            f"{str(e)[:200]}). Run it again, or leave the file out."
        ) from e


@dataclass(eq=False)
class _Viewed:
    """What a finished run and an unfinished one have in common."""

    id: str
    """A few digits that stay the same from a run's first line to its results file, and later."""
    path: Path
    """The results file, or the file that another package reads; of an unfinished run its folder."""
    names: Sequence[str] = field(init=False)

    is_live = False
    is_foreign = False

    def name_of(self, key: str) -> str:
        """The result with this key."""
        for name in self.names:
            if result_key(name) == key:
                return name
        raise ComparisonError(f"{self.path} has no result {key!r}: {listing(self.names)}.")

    def delimiter(self, name: str) -> str:  # noqa: ARG002
        """What separates few-shot examples in a prompt."""
        return "\n\n"


@dataclass(eq=False)
class ViewedRun(_Viewed):
    """A finished run: its results file, with whatever is left of the files beside it."""

    stored: StoredRun
    _sources: dict[str, SampleSource] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.names = self.stored.names
        self.is_foreign = type(self.stored) is not StoredRun  # another package reads its files

    @property
    def model(self) -> str:
        return self.stored.model

    def metric(self, name: str) -> tuple[str, str]:
        """The metric shown as the score of a result, and its filter."""
        return primary_metric(self.stored.results, name, str(self.path))

    def is_higher_better(self, name: str, metric: str) -> bool:
        known = self.stored.results.get("higher_is_better", {}).get(name, {})
        return bool(known.get(metric, True))

    def source(self, name: str) -> SampleSource:
        """The samples of a result; an error if they are gone."""
        if name not in self._sources:
            path = self.stored.samples_path(name)
            self._sources[name] = (
                ListedSamples(list(self.stored.samples(name)))
                if self.is_foreign
                else SampleLines(path)
            )
        return self._sources[name]

    def columns(self, name: str) -> ItemColumns:
        """The scores of a result item by item."""
        _, filter_name = self.metric(name)
        return self.stored.items(name, filter_name)

    def delimiter(self, name: str) -> str:
        known = mapping(self.stored.results["configs"].get(name)).get("fewshot_delimiter")
        return known if isinstance(known, str) and known else super().delimiter(name)


@dataclass(eq=False)
class UnfinishedRun(_Viewed):
    """A run without a results file: running, or ended too early. Its samples files are all there is."""

    files: Mapping[str, Path]
    """Result → its samples file."""
    _sources: dict[str, SampleLines] = field(default_factory=dict, init=False)
    _first: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)

    is_live = True

    def __post_init__(self) -> None:
        self.names = list(self.files)

    @property
    def model(self) -> str:
        return self.path.name

    @property
    def is_running(self) -> bool:
        """Whether a process is still writing it."""
        return any(is_held(file) for file in self.files.values())

    def metric(self, name: str) -> tuple[str, str]:
        """The first metric of its samples, and its filter; empty until there is a sample."""
        known = self._first.get(name)
        if known is None:
            known = next(self.source(name).samples(0, 1), None) or {}
            if known:
                self._first[name] = known
        metrics = known.get("metrics")
        metric = str(metrics[0]) if isinstance(metrics, list) and metrics else ""
        return metric, str(known.get("filter", "none"))

    def is_higher_better(self, name: str, metric: str) -> bool:  # noqa: ARG002
        return "perplexity" not in metric

    def source(self, name: str) -> SampleLines:
        """The lines that are complete so far."""
        if name not in self._sources:
            self._sources[name] = SampleLines(self.files[name])
        return self._sources[name]

    def columns(self, name: str) -> ItemColumns:
        """The scores so far."""
        _, filter_name = self.metric(name)
        source = self.source(name)
        by_filter = columns_of_samples(name, source.samples(0, source.count()))
        matches = (columns for columns in by_filter if columns.filter == filter_name)
        return next(matches, ItemColumns(name))


AnyRun = ViewedRun | UnfinishedRun


def result_key(name: str) -> str:
    """A few digits for a result's name, for addresses and file names."""
    return text_hash(name)[:8]


class Catalogue:
    """The runs at some paths. ``refresh`` finds what is new and opens only that."""

    def __init__(self, paths: Sequence[str | Path]) -> None:
        self.paths = [Path(path).expanduser() for path in paths]
        for path in self.paths:
            if not path.exists():
                raise UsageError(no_such_run(path, _is_run_file))
        self.runs: dict[str, AnyRun] = {}
        self.problems: list[Problem] = []
        self._opened: dict[Path, tuple[Any, list[StoredRun] | str]] = {}
        self.refresh()

    @property
    def near(self) -> str:
        """Folders near the first path that have runs, in words; empty if there are none."""
        return runs_near(self.paths[0], _is_run_file)

    @property
    def root(self) -> Path:
        """The folder that all paths are in."""
        parents = [path if path.is_dir() else path.parent for path in self.paths]
        return Path(os.path.commonpath([parent.resolve() for parent in parents]))

    def refresh(self) -> None:
        """Look at the folders again."""
        runs: dict[str, AnyRun] = {}
        problems: list[Problem] = []
        for path in self.paths:
            for run in self._runs_below(path, problems):
                known = self.runs.get(run.id)
                is_same = _sign(known) == _sign(run) if known is not None else False
                runs[run.id] = known if known is not None and is_same else run
        self.runs, self.problems = runs, problems

    def _runs_below(self, path: Path, problems: list[Problem]) -> Iterator[AnyRun]:
        if path.is_file():
            yield from self._runs_at(path, problems)
            return

        def unlisted(error: OSError) -> None:
            text = f"{error.filename} cannot be read: {error.strerror}."
            problems.append(Problem(str(error.filename), text))

        for parent, folders, names in os.walk(path, onerror=unlisted):
            folders[:] = sorted(name for name in folders if not is_skipped(parent, name))
            folder = Path(parent)
            if any(not _RUN_NAME.search(name) for name in names) and self._reader(folder):
                folders.clear()  # what is below belongs to it
                yield from self._runs_at(folder, problems)
                continue
            results = sorted(name for name in names if is_results(folder / name))
            for name in results:
                yield from self._runs_at(folder / name, problems)
            yield from self._unfinished(folder, names, results)

    def _reader(self, folder: Path) -> Any:
        """What reads the runs of another package in this folder; None if nothing does."""
        for name in RUN_READERS:
            reader = RUN_READERS.get(name)
            if reader.reads(folder):
                return reader
        return None

    def _runs_at(self, path: Path, problems: list[Problem]) -> Iterator[AnyRun]:
        state = _file_state(path)
        known = self._opened.get(path)
        if known is None or known[0] != state:
            try:
                with undamaged(path):
                    opened: list[StoredRun] | str = open_runs([path])
            except LmEvalError as error:
                opened = str(error)
            known = self._opened[path] = (state, opened)
        if isinstance(known[1], str):
            problems.append(Problem(str(path), known[1]))
            return
        for run in known[1]:
            yield ViewedRun(self._id(run.path.parent, run.path.name), run.path, run)

    def _unfinished(
        self, folder: Path, names: Sequence[str], results: Sequence[str]
    ) -> Iterator[UnfinishedRun]:
        """The runs that have samples and no results file."""
        finished = {match[1] for name in results if (match := re.search(STAMP, name))}
        by_stamp: dict[str, dict[str, Path]] = {}
        for name in sorted(names):
            match = _SAMPLES_NAME.match(name)
            if match is not None and match[2] not in finished:
                by_stamp.setdefault(match[2], {})[match[1]] = folder / name
        for stamp, files in by_stamp.items():
            yield UnfinishedRun(self._id(folder, stamp), folder, files)

    def _id(self, folder: Path, name: str) -> str:
        stamp = re.search(STAMP.lstrip("_"), name)
        relative = os.path.relpath(folder.resolve(), self.root)
        return text_hash(f"{relative}/{stamp[1] if stamp else name}")[:8]

    def run(self, run_id: str) -> AnyRun:
        """The run with this id."""
        if run_id not in self.runs:
            self.refresh()
        if run_id not in self.runs:
            raise ComparisonError(
                f"There is no run {run_id!r} here now: its files were moved or deleted."
            )
        return self.runs[run_id]


def _is_run_file(path: Path) -> bool:
    return is_results(path) or _SAMPLES_NAME.match(path.name) is not None


def _sign(run: AnyRun) -> Any:
    """A value that changes when another run has replaced this one."""
    if isinstance(run, UnfinishedRun):
        return tuple(run.files.items())
    return id(run.stored)


def _file_state(path: Path) -> tuple[int, int] | None:
    """Size and time of a file, which change when its content does; None if there is no such file."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
