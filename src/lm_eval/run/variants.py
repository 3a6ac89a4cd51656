"""The scorers of tasks that are asked in several orders of their choices, or that have no format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lm_eval.harness.scorer import FilterScores, HarnessScorer
from lm_eval.orders.scoring import (
    Debiased,
    OrderTally,
    Priors,
    debiased,
    debiased_by,
    in_orders,
    order_metrics,
    order_values,
)
from lm_eval.reports.samples import Show, harness_sample
from lm_eval.requests import DocRequests
from lm_eval.run.plan import Prepared, RunOptions
from lm_eval.run.scorers import FormatTaskScorer, SampleSink, TaskScorer
from lm_eval.scoring.results import TaskResult
from lm_eval.scoring.score import FormatScores, ScoredDoc

AT_ONCE = 16
"""Docs of a harness task that go through its filters together."""


class OrderedTaskScorer(FormatTaskScorer):
    """A task under a format, whose docs are asked in several orders of their choices.

    A doc that was asked once waits for those from which the prior of the positions is learnt.
    """

    def __init__(
        self, prepared: Prepared, options: RunOptions, show: Show, on_sample: SampleSink | None
    ) -> None:
        super().__init__(prepared, options, show, on_sample)
        assert options.prompt.permute is not None
        self._permutation = options.prompt.permute
        self._is_scored = not options.predict_only
        if self._is_scored:
            more = order_metrics(self._permutation)
            self._scores = FormatScores(self.task, [*self._metrics, *more])
        self._tally = OrderTally(self._permutation)
        self._priors = Priors()
        self._waiting: list[tuple[int, ScoredDoc]] = []

    def take(self, place: int, doc: DocRequests, answers: Sequence[Any]) -> None:
        views = in_orders(self.task, doc, answers, is_prefilled=self._is_prefilled)
        scored = replace(self._scored(doc.own, views[0].answers), orders=views)
        self._priors.add(views)
        if self._permutation.mode == "pride" and len(views) == 1:
            self._waiting.append((place, scored))
        else:
            self._keep_debiased(place, scored, debiased(views))

    def results(self) -> list[TaskResult]:
        priors = self._priors.mean()
        for place, scored in self._waiting:
            view = scored.orders[0]
            prior = priors.get(len(view.order))
            answer = None if prior is None else debiased_by(view, prior)
            self._keep_debiased(place, scored, answer)
        self._waiting = []
        choice_order = self._tally.result(priors)
        return [
            replace(
                result,
                choice_order=choice_order,
                fingerprints={**result.fingerprints, "choice_order": choice_order.mode},
                notes=[*result.notes, *choice_order.notes()],
            )
            for result in super().results()
        ]

    def _keep_debiased(self, place: int, scored: ScoredDoc, answer: Debiased | None) -> None:
        views = scored.orders
        self._tally.add(views, answer, self._labels(scored.requests))
        values = order_values(views, answer, self._permutation) if self._is_scored else {}
        self._keep(place, replace(scored, values={**scored.values, **values}, answer=answer))

    def _labels(self, doc: DocRequests) -> Sequence[str]:
        """What the positions of a doc's choices are called; numbers where choices name themselves."""
        fmt, item = self.task.format, doc.asked.item
        if fmt is None or item is None or fmt.choice_labels in (None, "choices"):
            return [str(number) for number in range(1, len(doc.asked.choices) + 1)]
        return fmt.labels(item)


class HarnessTaskScorer(TaskScorer):
    """A task without a format: filters and metrics are those of the harness."""

    def __init__(
        self, prepared: Prepared, options: RunOptions, show: Show, on_sample: SampleSink | None
    ) -> None:
        super().__init__(prepared, show, on_sample)
        self._iters = options.bootstrap_iters
        self._scorer = HarnessScorer(self.task, only_predicts=options.predict_only)
        self._at_once = AT_ONCE if self._scorer.is_local else None
        self._scores = [
            FilterScores(pipeline.name, self.task) for pipeline in self._scorer.pipelines
        ]
        self._waiting: list[tuple[int, DocRequests, Sequence[Any]]] = []

    def take(self, place: int, doc: DocRequests, answers: Sequence[Any]) -> None:
        self._waiting.append((place, doc, answers))
        if self._at_once is not None and len(self._waiting) >= self._at_once:
            self._score()

    def results(self) -> list[TaskResult]:
        self._score()
        return [
            self._scorer.result(
                scores,
                num_fewshot=self.prepared.num_fewshot,
                bootstrap_iters=self._iters,
                notes=self.prepared.notes,
                missing=self.missing,
            )
            for scores in self._scores
        ]

    def _score(self) -> None:
        waiting = sorted(self._waiting, key=lambda one: one[0])
        self._waiting = []
        docs, answers = [doc for _, doc, _ in waiting], [given for *_, given in waiting]
        for scores, filtered in zip(self._scores, self._scorer.score(docs, answers), strict=True):
            for (place, _, _), doc in zip(waiting, filtered, strict=True):
                scores.add(place, doc)
                if self._on_sample is not None:
                    sample = harness_sample(self.task, doc, self._show)
                    self._on_sample(self.task.name, sample)
