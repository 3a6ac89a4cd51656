"""Docs with their answers → scores and samples, one doc after the other as they are complete.

In: the docs of one task, in any order. Out: the task's results. Of a doc that is scored only its values
stay, unless a filter of the task's own wants to see all replies at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lm_eval.answers.exchange import DocSink
from lm_eval.formats.assemble import Chat, Context
from lm_eval.models.base import LM
from lm_eval.reports.samples import Show, format_sample, missing_sample
from lm_eval.requests import DocRequests
from lm_eval.run.plan import Prepared, RunOptions
from lm_eval.scoring.results import TaskResult
from lm_eval.scoring.score import FormatScores, ScoredDoc, score_doc, task_metrics

SampleSink = Callable[[str, dict[str, Any]], None]


def shown_by(model: LM) -> Show:
    """How a context looks to the model: text, or messages where the server renders them."""

    def show(context: Context) -> Any:
        if isinstance(context, Chat) and not model.capabilities.chat_template:
            return context.as_dicts()
        return model.render(context)

    return show


class TaskScorer(DocSink):
    """Scores one task's docs as they complete; call ``results()`` last."""

    def __init__(self, prepared: Prepared, show: Show, on_sample: SampleSink | None) -> None:
        self.prepared = prepared
        self.task = prepared.task
        self.missing = 0
        self._show = show
        self._on_sample = on_sample

    def take(self, place: int, doc: DocRequests, answers: Sequence[Any]) -> None:
        """Score a doc, or put it aside until others have come."""
        raise NotImplementedError

    def miss(self, place: int, doc: DocRequests, answers: Sequence[Any], why: str) -> None:  # noqa: ARG002
        """Count a doc without all its answers; it is in no denominator."""
        self.missing += 1
        if self._on_sample is not None:
            sample = missing_sample(self.task, doc, answers, why, self._show)
            self._on_sample(self.task.name, sample)

    def results(self) -> list[TaskResult]:
        raise NotImplementedError


class FormatTaskScorer(TaskScorer):
    """A task under a format."""

    def __init__(
        self, prepared: Prepared, options: RunOptions, show: Show, on_sample: SampleSink | None
    ) -> None:
        super().__init__(prepared, show, on_sample)
        self._metrics = [] if options.predict_only else task_metrics(self.task)
        self._is_prefilled = not options.prompt.as_chat or options.prompt.can_prefill
        self._scores = FormatScores(self.task, self._metrics)

    def take(self, place: int, doc: DocRequests, answers: Sequence[Any]) -> None:
        self._keep(place, self._scored(doc, answers))

    def _scored(self, doc: DocRequests, answers: Sequence[Any]) -> ScoredDoc:
        return score_doc(self.task, doc, answers, self._metrics, is_prefilled=self._is_prefilled)

    def _keep(self, place: int, scored: ScoredDoc) -> None:
        self._scores.add(place, scored)
        if self._on_sample is not None:
            self._on_sample(self.task.name, format_sample(self.task, scored, self._show))

    def results(self) -> list[TaskResult]:
        fmt = self.task.format
        notes = list(self.prepared.notes)
        if fmt and fmt.gen_prefix is not None and not self._is_prefilled:
            notes.append("asked without gen_prefix: the model cannot continue a started answer")
        return [
            self._scores.result(
                num_fewshot=self.prepared.num_fewshot,
                is_prefilled=self._is_prefilled,
                notes=notes,
                missing=self.missing,
                skipped=self.prepared.skipped.counts(),
            )
        ]
