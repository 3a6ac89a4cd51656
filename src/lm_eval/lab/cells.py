"""Cells (format × item) of one task → scores, asked of a model as they are wanted.

In: the task under every format of a list, and which docs are its items. Out: ``CellScores``. A cell is
asked once; answers stay in a file, so that later commands take them from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from lm_eval.errors import ComparisonError
from lm_eval.lab.swept_task import SweptTask, one_warning_for_all
from lm_eval.models.base import LM
from lm_eval.reports.items import ItemColumns, RunItems
from lm_eval.runs import Outcome, Run, backend_arguments, execute, opened_model
from lm_eval.scoring.results import TaskResult
from lm_eval.scoring.score import task_metrics
from lm_eval.stats.numeric import Array, numpy
from lm_eval.usage import Usage

Cell = tuple[int, int]
"""Number of a format and number of an item, both from 0."""


@dataclass
class CellScores:
    """What is known of each cell that was asked."""

    metric: str = ""
    higher_is_better: bool = True
    scores: dict[Cell, float] = field(default_factory=dict)
    is_read: dict[Cell, bool] = field(default_factory=dict)
    """Empty where nothing is read from text."""
    clusters: dict[int, str] = field(default_factory=dict)
    """Item → what it belongs to, where the task says so."""
    missing: int = 0
    """Cells whose request failed for good."""
    reused: int = 0
    """Answers that were kept from before."""
    asked: int = 0
    """Answers that the model gave for this command."""
    usage: Usage = field(default_factory=Usage)

    def matrix(self, formats: Sequence[int], items: Sequence[int]) -> Array:
        """Scores, formats × items; NaN where a cell was not asked or got no answer."""
        nan = float("nan")
        rows = [[self.scores.get((row, item), nan) for item in items] for row in formats]
        return numpy().array(rows, dtype=float).reshape(len(formats), len(items))

    def share_read(self, row: int, items: Iterable[int]) -> float | None:
        """Of a format's answers to these items, how many could be read; None where nothing is read."""
        known = [self.is_read[row, item] for item in items if (row, item) in self.is_read]
        return sum(known) / len(known) if known else None


class Asker:
    """Asks cells of one task, each once. The model is opened at the first and stays open."""

    def __init__(
        self, run: Run, tasks: Sequence[SweptTask], doc_ids: Sequence[int], opened: OpenedModel
    ) -> None:
        self.run = run
        self.tasks = tasks
        self.doc_ids = doc_ids
        self.known = CellScores()
        self._opened = opened
        self._number = {task.name: place for place, task in enumerate(tasks)}
        self._item = {doc_id: place for place, doc_id in enumerate(doc_ids)}

    def scores(self, formats: Sequence[int], items: Sequence[int]) -> Array:
        """The scores of these formats on these items, asked where they are not known."""
        self.ask((row, item) for row in formats for item in items)
        return self.known.matrix(formats, items)

    def ask(self, cells: Iterable[Cell]) -> None:
        """Have the scores of these cells."""
        new = [cell for cell in cells if cell not in self.known.scores]
        if new:
            self._execute(new, None)

    def write(self, cells: Iterable[Cell], output_path: str | None) -> Path | None:
        """Have the scores of these cells, and the files of a run that asked exactly them."""
        return self._execute(list(cells), output_path).path

    def rewrite(self, output_path: str) -> Path | None:
        """The files of a run that asked all cells known so far; nothing is counted again."""
        before = self.known
        self.known = CellScores()
        try:
            return self._execute(list(before.scores), output_path).path
        finally:
            self.known = before

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better, of the metric that is shown as the score."""
        return bool(task_metrics(self.tasks[0])[0].higher_is_better)

    def tasks_of(self, cells: Iterable[Cell]) -> tuple[list[SweptTask], Run]:
        """What a run of these cells asks: the tasks, and the run with the docs of each."""
        chosen: dict[str, list[int]] = {}
        for row, item in cells:
            chosen.setdefault(self.tasks[row].name, []).append(self.doc_ids[item])
        tasks = [task for task in self.tasks if task.name in chosen]
        options = replace(self.run.options, limit=None, samples=chosen)
        return tasks, replace(self.run, options=options, output_path=None)

    def _execute(self, cells: Sequence[Cell], output_path: str | None) -> Outcome:
        tasks, run = self.tasks_of(cells)
        items = RunItems()
        with one_warning_for_all([task.name for task in tasks]):
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
        columns = {one.name: one for one in items.columns()}
        for result in outcome.results:
            known.metric = known.metric or result.primary
            known.higher_is_better = result.higher_is_better.get(result.primary, True)
            known.missing += result.missing
            if result.usage is not None:
                known.usage.add(result.usage)
            if result.name in columns:
                self._take_columns(result, columns[result.name])

    def _take_columns(self, result: TaskResult, columns: ItemColumns) -> None:
        row, known = self._number[result.name], self.known
        for place, doc_id in enumerate(columns.doc_ids):
            item = self._item[doc_id]
            known.scores[row, item] = _number_of(result, columns, place)
            if columns.read is not None:
                known.is_read[row, item] = columns.read[place]
            if columns.clusters is not None:
                known.clusters[item] = columns.clusters[place]


class OpenedModel:
    """A run's model, made when it is first needed and closed at the end."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._stack = ExitStack()
        self._model: LM | None = None

    def model(self) -> LM:
        """The model, ready to answer."""
        if self._model is None:
            opening = opened_model(self._run.model, backend_arguments(self._run))
            self._model = self._stack.enter_context(opening)
        return self._model

    def __enter__(self) -> OpenedModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def _number_of(result: TaskResult, columns: ItemColumns, place: int) -> float:
    values: Mapping[str, Any] = columns.metrics
    value = values.get(result.primary, [None] * len(columns))[place]
    if value is None:
        raise ComparisonError(
            f"{result.name}: metric {result.primary!r} is no number (NaN or none) on doc "
            f"{columns.doc_ids[place]}. A sweep needs a metric that gives a number for every doc."
        )
    return float(value)
