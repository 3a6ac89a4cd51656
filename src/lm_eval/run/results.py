"""Answers → scores, samples and results: each doc as soon as it is complete, then the whole run.

In: the docs of a task with their answers, in any order. Out: the task's results. Only the values of a
scored doc are held, unless the task has a filter that must see all replies at once. The rules for
tasks without a format, and for several orders of the choices, are imported by their scorers.
"""

from __future__ import annotations

import os
import time
import warnings
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lm_eval.answers.ask import AnswerCache, DocSink
from lm_eval.config.arguments import plain_arguments
from lm_eval.errors import LmEvalWarning
from lm_eval.formats.assemble import Chat, Context
from lm_eval.models.base import LM
from lm_eval.reports.items import RunItems
from lm_eval.reports.results_file import RunInfo
from lm_eval.reports.samples import (
    Show,
    format_sample,
    harness_sample,
    missing_sample,
    written_sample,
)
from lm_eval.reports.writer import ResultWriter
from lm_eval.requests import DocRequests
from lm_eval.run.plan import Outcome, Prepared, Run, RunOptions
from lm_eval.run.resume import RunStore
from lm_eval.scoring.metrics import TextOutcome
from lm_eval.scoring.results import TaskResult
from lm_eval.scoring.score import FormatScores, ScoredDoc, outcome_of, score_doc, task_metrics
from lm_eval.support.secrets import known_secrets
from lm_eval.tasks.task import ConfigurableTask

if TYPE_CHECKING:
    from concurrent.futures import Future

SampleSink = Callable[[str, dict[str, Any]], None]

AT_ONCE = 16
"""Docs of a harness task that go through its filters together."""


def shown_by(model: LM) -> Show:
    """How a context looks to the model: text, or messages if the server renders them."""

    def show(context: Context) -> Any:
        if isinstance(context, Chat) and not model.capabilities.chat_template:
            return context.as_dicts()
        return model.render(context)

    return show


def task_scorer(
    prepared: Prepared,
    options: RunOptions,
    show: Show,
    on_sample: SampleSink | None,
    kept: AnswerCache | None = None,
) -> TaskScorer:
    """The scorer of a task: under its format, in one or several orders, or by the harness's rules."""
    fmt = prepared.task.format
    if fmt is not None and fmt.program is not None and not options.predict_only:
        return ProgramTaskScorer(prepared, options, show, on_sample, kept)
    if fmt is not None and options.prompt.permute is None:
        return FormatTaskScorer(prepared, options, show, on_sample)
    kind = HarnessTaskScorer if prepared.task.format is None else OrderedTaskScorer
    return kind(prepared, options, show, on_sample)


class TaskScorer(DocSink):
    """Scores one task's docs as they complete; call ``results()`` last."""

    def __init__(self, prepared: Prepared, show: Show, on_sample: SampleSink | None) -> None:
        self.prepared = prepared
        self.task = prepared.task
        self.missing = 0
        self._show = show
        self._on_sample = on_sample

    @abstractmethod
    def take(self, place: int, doc: DocRequests, answers: Sequence[Any]) -> None:
        """Score a doc, or put it aside until others have come."""

    def miss(self, place: int, doc: DocRequests, answers: Sequence[Any], why: str) -> None:  # noqa: ARG002
        """Count a doc without all its answers; no denominator includes it."""
        self.missing += 1
        if self._on_sample is not None:
            sample = missing_sample(self.task, doc, answers, why, self._show)
            self._on_sample(self.task.name, sample)

    @abstractmethod
    def results(self) -> list[TaskResult]:
        """What the task scored, once every doc has come."""


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
                shows_choices=self.prepared.shows_choices,
            )
        ]


class ProgramTaskScorer(FormatTaskScorer):
    """A task under a format whose answers are programs: as many run at a time as there are cores."""

    def __init__(
        self,
        prepared: Prepared,
        options: RunOptions,
        show: Show,
        on_sample: SampleSink | None,
        kept: AnswerCache | None,
    ) -> None:
        from concurrent.futures import ThreadPoolExecutor

        from lm_eval.scoring.programs import VERDICTS

        super().__init__(prepared, options, show, on_sample)
        self._verdicts = VERDICTS
        self._store = None if kept is None else kept.store
        if self._store is not None:
            VERDICTS.recall(self._store.notes())
        self._pool = ThreadPoolExecutor(os.cpu_count())
        self._running: deque[tuple[Future[dict[str, str]], int, DocRequests, Sequence[Any]]] = (
            deque()
        )

    def take(self, place: int, doc: DocRequests, answers: Sequence[Any]) -> None:
        replies = [[answer] for answer in answers]
        outcomes = [outcome_of(self.task, doc, r, is_prefilled=self._is_prefilled) for r in replies]
        programs = [o.program for o in outcomes if isinstance(o, TextOutcome) and o.program]
        judged = self._pool.submit(self._verdicts.judge, programs)
        self._running.append((judged, place, doc, answers))
        while self._running and (self._running[0][0].done() or len(self._running) > AT_ONCE):
            self._land()

    def results(self) -> list[TaskResult]:
        while self._running:
            self._land()
        self._pool.shutdown()
        return super().results()

    def _land(self) -> None:
        """Note the verdicts of the oldest doc beside its answers, then score it."""
        judged, place, doc, answers = self._running.popleft()
        for name, verdict in judged.result().items():
            if self._store is not None:
                self._store.note(name, verdict)
        super().take(place, doc, answers)


class OrderedTaskScorer(FormatTaskScorer):
    """A task under a format, whose docs are asked in several orders of their choices."""

    def __init__(
        self, prepared: Prepared, options: RunOptions, show: Show, on_sample: SampleSink | None
    ) -> None:
        from lm_eval.orders.scoring import OrderedDocs

        super().__init__(prepared, options, show, on_sample)
        assert options.prompt.permute is not None
        is_scored = not options.predict_only
        self._ordered = OrderedDocs(self.task, options.prompt.permute, is_scored=is_scored)
        self._scores = FormatScores(self.task, [*self._metrics, *self._ordered.metrics])

    def take(self, place: int, doc: DocRequests, answers: Sequence[Any]) -> None:
        views = self._ordered.views(doc, answers, is_prefilled=self._is_prefilled)
        scored = replace(self._scored(doc.own, views[0].answers), orders=views)
        for complete in self._ordered.take(place, scored):
            self._keep(*complete)

    def results(self) -> list[TaskResult]:
        for complete in self._ordered.waiting():
            self._keep(*complete)
        choice_order = self._ordered.result()
        return [
            replace(
                result,
                choice_order=choice_order,
                fingerprints={**result.fingerprints, "choice_order": choice_order.mode},
                notes=[*result.notes, *choice_order.notes()],
            )
            for result in super().results()
        ]


class HarnessTaskScorer(TaskScorer):
    """A task without a format: filters and metrics are those of the harness."""

    def __init__(
        self, prepared: Prepared, options: RunOptions, show: Show, on_sample: SampleSink | None
    ) -> None:
        from lm_eval.harness.scorer import FilterScores, HarnessScorer

        super().__init__(prepared, show, on_sample)
        self._iters = options.bootstrap_iters
        self._scorer = (
            HarnessScorer(self.task, only_predicts=True)
            if options.predict_only
            else self.task.harness_scorer
        )
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
                shows_choices=self.prepared.shows_choices,
            )
            for scores in self._scores
        ]

    def _score(self) -> None:
        waiting = sorted(self._waiting, key=lambda row: row[0])
        self._waiting = []
        docs, answers = [doc for _, doc, _ in waiting], [replies for *_, replies in waiting]
        for scores, filtered in zip(self._scores, self._scorer.score(docs, answers), strict=True):
            for (place, _, _), doc in zip(waiting, filtered, strict=True):
                scores.add(place, doc)
                if self._on_sample is not None:
                    sample = harness_sample(self.task, doc, self._show)
                    self._on_sample(self.task.name, sample)


# The whole run


def run_items(tasks: Sequence[ConfigurableTask], writer: ResultWriter | None) -> RunItems | None:
    """Collects a run's scores item by item, for its files and to compare the formats of a task.

    None if there are neither files nor a task that is asked under several formats.
    """
    has_several_formats = len({task.task_name for task in tasks}) < len(tasks)
    return None if writer is None and not has_several_formats else RunItems()


def sample_sink(
    items: RunItems | None, writer: ResultWriter | None, on_sample: SampleSink | None
) -> SampleSink | None:
    """Hands each sample to the caller, the items and the samples file."""
    if items is None:
        return on_sample

    def sink(name: str, sample: dict[str, Any]) -> None:
        if on_sample is not None:
            on_sample(name, sample)
        items.add(name, sample)
        if writer is not None:
            writer.add_sample(name, written_sample(sample))

    return sink


def run_info(
    run: Run, options: RunOptions, model_args: Mapping[str, Any], model: LM, started: float
) -> RunInfo:
    """What the results say about the whole run."""
    prompt, drawn = options.prompt, options.sample_seed
    more = {
        "permute": None if prompt.permute is None else str(prompt.permute),
        "sample": None if drawn is None else f"drawn at random, seed {drawn}",
    }
    return RunInfo(
        model=run.backend,
        model_name=run.model_name,
        model_args=None if isinstance(run.model, LM) else plain_arguments(model_args),
        model_facts=model.describe(),
        options={
            "batch_size": run.batch_size,
            "batch_sizes": (),
            "device": run.device,
            "use_cache": run.use_cache,
            "limit": options.limit,
            "bootstrap_iters": options.bootstrap_iters,
            "gen_kwargs": dict(prompt.gen_kwargs) or None,
            **run.seeds,
            "command": [known_secrets().hide(part) for part in run.command],
            "parity": run.parity,
            **{key: text for key, text in more.items() if text is not None},
        },
        system_instruction=prompt.system_instruction,
        chat_template=_chat_template(model) if prompt.as_chat else None,
        fewshot_as_multiturn=prompt.multiturn if prompt.as_chat else None,
        prices=run.prices,
        start_time=started,
        end_time=time.time(),
    )


def _chat_template(model: LM) -> str | None:
    """The source of the model's chat template; an attribute, or a method as in the harness."""
    template = getattr(model, "chat_template", None)
    template = template(True) if callable(template) else template
    return None if template is None else str(template)


def warn_of_model(run: Run, model: LM) -> None:
    """Pass on what the model noticed while it answered."""
    for note in model.warnings:
        warnings.warn(f"Model {run.model_name}: {note}", LmEvalWarning, stacklevel=3)


def write_results(outcome: Outcome, store: RunStore | None, writer: ResultWriter | None) -> None:
    """Write the files of a finished run, note them in ``outcome``, then release its store."""
    kept = None if store is None else store.kept
    if store is not None and kept is not None:
        outcome.reused, outcome.asked = kept.found, kept.added
        if outcome.reused or kept.is_shared:
            outcome.info.answers = {"total": store.total or 0, "reused": outcome.reused}
    if writer is not None and outcome.items is not None:
        outcome.task_hashes = writer.task_hashes()
        outcome.path = writer.finish(outcome.as_dict(), outcome.items.to_dict())
    if store is not None:
        store.finish(is_complete=not any(result.missing for result in outcome.results))
