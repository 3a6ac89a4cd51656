"""Scores of the cells (format × item) of one task, asked of a model on demand.

In: the task under every format of a list, and which docs are its items. Out: ``CellScores``. A cell is
asked once; answers are kept in a file, so that later commands can reuse them.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lm_eval.data.splits import Splits
from lm_eval.errors import ComparisonError, LmEvalWarning
from lm_eval.evaluator import execute
from lm_eval.formats.list_file import ListedFormat
from lm_eval.lab.stored.measurement import Measurement, readings
from lm_eval.models.base import LM
from lm_eval.models.loading import opened_model
from lm_eval.reports.items import ItemColumns, RunItems
from lm_eval.requests.values import Usage
from lm_eval.run.plan import Outcome, Run
from lm_eval.run.prepare import prepare
from lm_eval.scoring.results import TaskResult
from lm_eval.stats.numeric import Bools, Floats
from lm_eval.tasks.task import ConfigurableTask, Doc

Cell = tuple[int, int]
"""The index of a format and the index of an item."""
UNKNOWN = -1


class CellScores:
    """What is known about each cell of ``num_formats`` × ``num_items``."""

    def __init__(self, num_formats: int, num_items: int) -> None:
        self.scores: Floats = np.full((num_formats, num_items), np.nan)
        """NaN for cells that were not asked or got no answer."""
        self.read: Floats = np.full((num_formats, num_items), UNKNOWN, dtype=float)
        """The share of replies that could be read; ``UNKNOWN`` also if nothing is read from text."""
        self.clusters: dict[int, str] = {}
        """Item → its cluster, if the task has clusters."""
        self.metric = ""
        self.higher_is_better = True
        self.missing = 0
        """Cells whose request failed for good."""
        self.reused = 0
        """Answers reused from earlier commands."""
        self.asked = 0
        """Answers that the model gave for this command, if answers are kept."""
        self.usage = Usage()

    @property
    def is_known(self) -> Bools:
        """Formats × items: which cells have a score."""
        return ~np.isnan(self.scores)

    def cells(self) -> list[Cell]:
        """The cells that have a score, format by format."""
        return [(row, item) for row, item in np.argwhere(self.is_known).tolist()]

    def share_read(self, row: int) -> float | None:
        """The share of a format's answers that could be read; None if nothing is read from text."""
        known = self.read[row][self.read[row] != UNKNOWN]
        return float(known.mean()) if len(known) else None


class Asker:
    """Asks cells of one task, each once. The model is opened for the first cell and stays open."""

    def __init__(
        self, run: Run, tasks: Sequence[SweptTask], doc_ids: Sequence[int], opened: OpenedModel
    ) -> None:
        self.run = run
        self.tasks = tasks
        self.doc_ids = doc_ids
        self.known = CellScores(len(tasks), len(doc_ids))
        self._opened = opened
        self._row = {task.name: row for row, task in enumerate(tasks)}
        self._item = {doc_id: item for item, doc_id in enumerate(doc_ids)}

    def check(self) -> None:
        """Build all docs under the first format, so that errors in them come before a model is asked."""
        first = self.tasks[0]
        options = replace(self.run.options, limit=None, samples={first.name: self.doc_ids})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are shown when the docs are asked
            prepare(first, options, held_docs=0)

    def write(self, cells: Iterable[Cell] | None, output_path: str | None) -> Path | None:
        """Ask these cells (None: all) as one run; return the path of its results, if written."""
        return self._execute(self._docs_of(cells), output_path).path

    def measurements(self, items: Sequence[int]) -> list[Measurement]:
        """Each format on these items, ready to be compared; all of these cells must be known."""
        cluster_of = self.known.clusters
        clusters = tuple(cluster_of[item] for item in items) if cluster_of else None
        return [self._measurement(row, items, clusters) for row in range(len(self.tasks))]

    def _measurement(
        self, row: int, items: Sequence[int], clusters: tuple[str, ...] | None
    ) -> Measurement:
        task, known = self.tasks[row], self.known
        read = known.read[row, items]
        is_read, shares_read = readings(known.metric, None if (read == UNKNOWN).any() else read)
        name, _, format_name = task.name.rpartition("@")
        return Measurement(
            run="",
            model=self.run.model_name,
            task=name,
            format=format_name,
            name=task.name,
            metric=known.metric,
            higher_is_better=known.higher_is_better,
            items=tuple(str(self.doc_ids[item]) for item in items),
            scores=known.scores[row, items],
            is_read=is_read,
            shares_read=shares_read,
            clusters=clusters,
            missing=len(self.doc_ids) - int(known.is_known[row].sum()),
        )

    def tasks_of(self, cells: Iterable[Cell] | None) -> tuple[list[SweptTask], Run]:
        """The tasks of a run that asks these cells, and the run with the docs of each."""
        return self._asking(self._docs_of(cells))

    def _docs_of(self, cells: Iterable[Cell] | None) -> dict[str, Sequence[int]]:
        """Task name → ids of the docs to ask."""
        if cells is None:
            return {task.name: self.doc_ids for task in self.tasks}
        chosen: dict[int, list[int]] = {}
        for row, item in cells:
            chosen.setdefault(row, []).append(self.doc_ids[item])
        return {self.tasks[row].name: docs for row, docs in chosen.items()}

    def _asking(self, docs: Mapping[str, Sequence[int]]) -> tuple[list[SweptTask], Run]:
        tasks = [task for task in self.tasks if task.name in docs]
        options = replace(self.run.options, limit=None, samples=docs)
        return tasks, replace(self.run, options=options, output_path=None)

    def _execute(self, docs: Mapping[str, Sequence[int]], output_path: str | None) -> Outcome:
        tasks, run = self._asking(docs)
        items = RunItems()
        with one_warning_for_all([task.name for task in self.tasks]):
            outcome = execute(
                replace(run, output_path=output_path),
                tasks,
                on_sample=items.add,
                opened=self._opened.model,
            )
        self._take(outcome, items)
        return outcome

    def _take(self, outcome: Outcome, items: RunItems) -> None:
        known = self.known
        known.reused += outcome.reused
        known.asked += outcome.asked
        columns = {column.name: column for column in items.columns()}
        for result in outcome.results:
            known.metric = known.metric or result.primary
            known.higher_is_better = result.higher_is_better.get(result.primary, True)
            known.missing += result.missing
            if result.usage is not None:
                known.usage.add(result.usage)
            if result.name in columns:
                self._take_columns(result, columns[result.name])

    def _take_columns(self, result: TaskResult, columns: ItemColumns) -> None:
        row, known = self._row[result.name], self.known
        for at, doc_id in enumerate(columns.doc_ids):
            item = self._item[doc_id]
            known.scores[row, item] = _number_of(result, columns, at)
            if columns.read is not None:
                known.read[row, item] = columns.read[at]
            if columns.clusters is not None:
                known.clusters[item] = columns.clusters[at]


class OpenedModel(ExitStack):
    """The model of a run, opened when it is first needed and closed at the end."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._model: LM | None = None

    def model(self) -> LM:
        """The model, ready to answer."""
        if self._model is None:
            opening = opened_model(self._run.model, self._run.backend_arguments())
            self._model = self.enter_context(opening)
        return self._model


def _number_of(result: TaskResult, columns: ItemColumns, at: int) -> float:
    values: Mapping[str, Any] = columns.metrics
    value = values.get(result.primary, [None] * len(columns))[at]
    if value is None:
        raise ComparisonError(
            f"{result.name}: metric {result.primary!r} is not a number (NaN or None) on doc "
            f"{columns.doc_ids[at]}. A sweep needs a metric that gives a number for every doc."
        )
    return float(value)


class SweptTask(ConfigurableTask):
    """A task under one format of a list."""

    def __init__(self, base: ConfigurableTask, sample: ListedFormat) -> None:
        config = copy.copy(base.config)
        config.own_formats = {**config.own_formats, sample.name: sample.format}
        if "num_fewshot" in sample.options:
            config.num_fewshot = sample.options["num_fewshot"]
        super().__init__(config, format_name=sample.name, parity=base.parity)
        self._base = base
        self._own_seed = sample.options.get("fewshot_seed")
        self._drawn: list[tuple[int, ...]] = []

    @cached_property
    def splits(self) -> Splits:
        return self._base.splits

    @cached_property
    def eval_docs(self) -> Sequence[Doc]:
        return self._base.eval_docs

    @cached_property
    def shot_pool(self) -> Sequence[Doc]:
        return self._base.shot_pool

    def shots(self, doc_id: int, count: int) -> tuple[int, ...]:
        """The examples of the doc in a run of all docs, whichever docs are asked now."""
        if not count:
            return ()
        while len(self._drawn) <= doc_id:
            self._drawn.append(super().shots(len(self._drawn), count))
        return self._drawn[doc_id]

    def set_fewshot_seed(self, seed: int) -> None:
        """Restart the stream of examples, from the format's own seed if it has one."""
        super().set_fewshot_seed(seed if self._own_seed is None else self._own_seed)
        self._drawn = []


@contextmanager
def one_warning_for_all(names: Sequence[str]) -> Iterator[None]:
    """Give each kind of warning once, for the first format, with the number of others it holds for."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    named = re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)))
    by_text: dict[str, list[Any]] = {}
    for warning in caught:
        by_text.setdefault(named.sub("", str(warning.message)), []).append(warning)
    kinds: dict[str, list[Any]] = {}
    for text, alike in by_text.items():
        names_format = any(named.search(str(warning.message)) for warning in alike)
        kinds.setdefault(text[:_SAME] if names_format else text, []).extend(alike)
    for alike in kinds.values():
        others = len({str(warning.message) for warning in alike}) - 1
        have = "format has" if others == 1 else "formats have"
        more = f" ({others} other {have} the like; see `notes` in the results.)"
        category = alike[0].category
        text = str(alike[0].message) + (more if others else "")
        warnings.warn(text, category or LmEvalWarning, stacklevel=3)


_SAME = 40
"""Warnings about formats are of one kind if their first characters, without the names, are equal."""
