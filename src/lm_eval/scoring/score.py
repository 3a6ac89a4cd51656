"""Answers → outcomes → one ``TaskResult``: what a task's docs scored under its format.

In: a doc's requests and the model's answers to them. Out: per-doc samples, and the task's estimates.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from lm_eval.config.fields import shorten
from lm_eval.config.functions import FunctionRef
from lm_eval.errors import (
    CodeNotRunError,
    ConfigError,
    HelperError,
    LmEvalError,
    LmEvalWarning,
    ModelError,
    did_you_mean,
    few_names,
)
from lm_eval.formats.checks import OF_ONE_TEXT, leading
from lm_eval.formats.compile import shortest_yaml
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.registry import METRICS, Metric
from lm_eval.requests import Answer, DocRequests, LoglikelihoodRequest
from lm_eval.scoring.functions import (
    filtered_metrics,
    find_metric,
    get_metric,
    is_repeat_metric,
    metric_name,
    names_of_formats,
    repeat_metrics,
    value_of,
)
from lm_eval.scoring.metrics import ChoiceOutcome, Outcome, TextOutcome
from lm_eval.scoring.results import (
    ChoiceTally,
    DocValues,
    Readings,
    TaskResult,
)
from lm_eval.stats.estimates import Estimate, mean_estimate
from lm_eval.tasks.task import ConfigurableTask

if TYPE_CHECKING:
    from lm_eval.orders.scoring import Debiased, DocInOrder


@dataclass(frozen=True)
class ScoredDoc:
    """One doc's outcome and the value of each metric on it."""

    requests: DocRequests
    answers: Sequence[Answer]
    outcome: Outcome
    values: Mapping[str, Any]
    orders: Sequence[DocInOrder] = ()
    """The doc in each order of its choices, if the run asks for several."""
    answer: Debiased | None = None
    """What they say without the bias of positions."""
    replies: Sequence[TextOutcome] = ()
    """The outcome of each reply, if a doc has several; ``outcome`` is that of the first."""


def task_metrics(task: ConfigurableTask) -> list[Metric]:
    """The metrics of a task: its format's, then those of its own list that fit; the first is shown."""
    if task.format_metrics is None:
        task.format_metrics = _built_metrics(task)
    return list(task.format_metrics)


def _built_metrics(task: ConfigurableTask) -> list[Metric]:
    fmt = _format_of(task)
    where = f"Task {task.name!r}"
    facts = {"reads_text": fmt.reads_text, "compares_texts": fmt.answers == "text"}
    listed = _listed_metrics(task, where)
    if any(name not in METRICS and not is_repeat_metric(name) for name in listed):
        with suppress(HelperError, CodeNotRunError):  # metrics that stay unknown are reported below
            task.config.load_helpers()
    metrics = []
    for said in leading(fmt.metrics, task.normalization):
        name, _, source = said.partition("=")
        entry = {"metric": source} if source else listed.get(name, {"metric": name})
        metrics.append(replace(get_metric(entry, **facts, where=where), name=name))
    metrics += filtered_metrics(fmt.filters if fmt.reads_text else {})
    if fmt.reads_text:
        named = [*listed, *task.primary_metrics]
        same = next((m.same for m in _named(task.primary_metrics, facts) if m.same), None)
        metrics += repeat_metrics(named, max(task.config.repeats, 1), where=where, same=same)
    known = {metric.name for metric in metrics}
    for name, entry in listed.items():
        if is_repeat_metric(name) or name in known:
            continue
        metric = find_metric(entry, **facts)
        if metric is None:
            _warn_unknown(name, where)
        elif fmt.scores_target and name not in OF_ONE_TEXT:
            _warn_one_text(name, where)
        elif metric.fits(**facts):
            metrics.append(metric)
        elif metric.compares_texts:
            _warn_choices(name, where)
    return _with_primary(task.primary_metrics, metrics, facts, where)


def _named(names: Sequence[str], facts: Mapping[str, bool]) -> Iterator[Metric]:
    """The metrics of these names that fit what the format gives."""
    for name in names:
        metric = None if is_repeat_metric(name) else find_metric({"metric": name}, **facts)
        if metric is not None and metric.fits(**facts):
            yield metric


def _with_primary(
    names: Sequence[str], metrics: list[Metric], facts: Mapping[str, bool], where: str
) -> list[Metric]:
    """The metrics with the first of ``names`` in front that fits what the format gives."""
    by_name = {metric.name: metric for metric in metrics}
    for name in names:
        if is_repeat_metric(name) and name not in by_name:
            continue
        metric = by_name.get(name) or find_metric({"metric": name}, **facts)
        if metric is None and name not in METRICS:
            raise ConfigError(
                f"{where}: primary_metric names an unknown metric, {name!r}."
                f"{did_you_mean(name, METRICS)} Metrics: {few_names(name, names_of_formats())}."
            )
        if metric is not None and metric.fits(**facts):
            first = [metric, *_of_read(metric)]
            taken = {metric.name for metric in first}
            return [*first, *(other for other in metrics if other.name not in taken)]
    return metrics


def _of_read(metric: Metric) -> list[Metric]:
    """The same metric over the answers that were read, as ``acc_read`` is for ``acc``."""
    of_text = metric.of_text
    if of_text is None or metric.aggregate is not None:
        return []
    return [
        Metric(
            f"{metric.name}_read",
            f"{metric.name} over the answers that were read",
            of_text=lambda outcome: of_text(outcome) if outcome.reading.is_answer else None,
            higher_is_better=metric.higher_is_better,
        )
    ]


def outcome_of(
    task: ConfigurableTask, doc: DocRequests, answers: Sequence[Answer], *, is_prefilled: bool
) -> Outcome:
    """The outcome of a doc: the model's answers to its requests, compared with what is right."""
    asked = doc.asked
    if isinstance(doc.requests[0], LoglikelihoodRequest):
        count = len(asked.continuations)
        pairs: Sequence[Any] = answers[:count]
        rows = [
            tuple(float(logprob) for logprob, _ in cast(Any, answers[at : at + count]))
            for at in range(count, len(answers), count)
        ]
        alone = rows.pop(0) if rows and task.scores_without_question else ()
        return ChoiceOutcome(
            tuple(float(logprob) for logprob, _ in pairs),
            tuple(bool(is_greedy) for _, is_greedy in pairs),
            asked.continuations,
            asked.gold,
            asked.choices,
            tokens=tuple(getattr(pair, "tokens", None) for pair in pairs),
            alone=alone,
            content_free=tuple(rows),
        )
    fmt, reply = _format_of(task), str(answers[0])
    assert asked.item is not None, "formats ask items"
    reading = fmt.read(
        reply, asked.item, is_prefilled=is_prefilled, finish=getattr(answers[0], "finish", None)
    )
    return TextOutcome(
        reply,
        reading,
        asked.gold,
        fmt.answers,
        asked.choices,
        labels=fmt.labels(asked.item),
        lead="" if is_prefilled else asked.turn.gen_prefix or "",
        program=fmt.program_for(asked.item, str(reading.value)) if reading.is_answer else "",
    )


def score_doc(
    task: ConfigurableTask,
    doc: DocRequests,
    answers: Sequence[Answer],
    metrics: Sequence[Metric],
    *,
    is_prefilled: bool,
) -> ScoredDoc:
    """One doc, scored; its values are means over its replies if it has several."""
    rounds = [answers] if doc.repeats == 1 else [[answer] for answer in answers]
    outcomes = [outcome_of(task, doc, answered, is_prefilled=is_prefilled) for answered in rounds]
    outcome = outcomes[0]
    replies = [reply for reply in outcomes if isinstance(reply, TextOutcome)]
    try:
        values = {
            metric.name: value_of(metric, replies) if replies else metric.value(outcome)
            for metric in metrics
        }
    except (ModelError, ConfigError) as error:
        raise type(error)(f"Task {task.name!r}, doc {doc.doc_id}: {error}") from None
    return ScoredDoc(
        doc, answers, outcome, values, replies=tuple(replies) if len(replies) > 1 else ()
    )


class FormatScores:
    """Scores of a task under a format, added as its docs come in; no doc is held."""

    def __init__(self, task: ConfigurableTask, metrics: Sequence[Metric]) -> None:
        self._task = task
        self._metrics = metrics
        self._values = DocValues(task, [metric.name for metric in metrics])
        self._readings = Readings(_format_of(task)) if _format_of(task).reads_text else None
        self._repeats = RepeatNotes()
        self._tally = ChoiceTally()

    def add(self, place: int, doc: ScoredDoc) -> None:
        """Count the doc at ``place`` among the docs asked."""
        values = {name: value for name, value in doc.values.items() if value is not None}
        self._values.add(place, doc.requests.doc_id, values)
        self._repeats.add(doc.replies)
        if self._readings is not None:
            self._readings.add(place, doc)
        _count_choice(self._tally, _format_of(self._task), doc)

    def result(
        self,
        *,
        num_fewshot: int,
        is_prefilled: bool = True,
        notes: Iterable[str] = (),
        missing: int = 0,
        skipped: Mapping[str, int] | None = None,
        shows_choices: bool | None = None,
    ) -> TaskResult:
        """All docs so far as one result."""
        task, fmt = self._task, _format_of(self._task)
        estimates, parts = self._values.estimates(self._estimate)
        return TaskResult(
            name=task.name,
            task=task.task_name,
            alias=str(task.config.task_alias or task.name),
            format=fmt.name,
            primary=self._metrics[0].name if self._metrics else "none",
            metrics=estimates,
            higher_is_better={m.name: m.higher_is_better is not False for m in self._metrics},
            num_docs=self._values.count,
            num_docs_total=len(task.eval_docs),
            rows_total=task.rows_total,
            num_fewshot=num_fewshot,
            readings=self._readings.summary() if self._readings else None,
            version=(task.config.metadata or {}).get("version"),
            config=lambda: _written_out(task.config.to_dict()),
            fingerprints=_fingerprints(task, is_prefilled=is_prefilled),
            data=task.data_record,
            format_version=fmt.version,
            format_yaml=shortest_yaml(fmt),
            notes=[
                *notes,
                *(self._readings.notes() if self._readings else ()),
                *self._repeats.lines(self._metrics),
                *self._values.clusters.notes(),
            ],
            missing=missing,
            parts=parts,
            skipped=dict(skipped or {}),
            scores_choices=task.output_type == "multiple_choice",
            shows_choices=shows_choices,
            tally=self._tally if self._tally.total else None,
        )

    def _estimate(self, name: str, values: Sequence[Any], places: Sequence[int]) -> Estimate:
        aggregate = next(metric.aggregate for metric in self._metrics if metric.name == name)
        clusters = self._values.clusters
        if clusters and aggregate is None:
            return clusters.estimate(values, places)
        clusters.left_plain(name)
        estimate: Estimate = (aggregate or mean_estimate)(values)
        return estimate


@dataclass
class RepeatNotes:
    """Collects what a reader of the scores should know about the replies."""

    repeats: int = 1
    differs: bool = False

    def add(self, outcomes: Sequence[TextOutcome]) -> None:
        """Note the replies to one doc."""
        self.repeats = max(self.repeats, len(outcomes))
        self.differs = self.differs or len({outcome.reply for outcome in outcomes}) > 1

    def lines(self, metrics: Sequence[Metric]) -> list[str]:
        if self.repeats == 1:
            return []
        notes = [
            f"{self.repeats} replies to each doc: their mean is the doc's score, and docs are what the "
            "intervals are over"
        ]
        if not self.differs:
            notes.append(
                f"the {self.repeats} replies to a doc are the same for every doc: let the model sample, "
                "for example with --gen_kwargs do_sample=true,temperature=0.7"
            )
        first = [m.name for m in metrics if not m.of_replies and m.aggregate is not None]
        if first:
            notes.append(f"{', '.join(first)} is that of the first reply to each doc")
        return notes


def _count_choice(tally: ChoiceTally, fmt: PromptFormat, doc: ScoredDoc) -> None:
    """Count what guessing would score and, if the prompt shows labels, which one was chosen."""
    item, outcome = doc.requests.asked.item, doc.outcome
    if item is None or len(item.choices) < 2 or fmt.answers == "order":
        return
    is_choice = fmt.answers == "choice"
    tally.add_chance(len(set(outcome.gold)) if is_choice else 1, len(item.choices))
    if not is_choice or not fmt.shows_labels or fmt.scores_texts:
        return
    if isinstance(outcome, ChoiceOutcome):
        labels, picked = outcome.texts, outcome.picked()
    else:
        labels, picked = outcome.labels, outcome.reading.value
    tally.add(labels, picked, outcome.gold)


def _fingerprints(task: ConfigurableTask, *, is_prefilled: bool) -> dict[str, str]:
    """Of task and format; a format asked without its gen_prefix is not the same measurement."""
    fmt = _format_of(task)
    left_out = "-without-gen_prefix" if fmt.gen_prefix is not None and not is_prefilled else ""
    return {"task": task.fingerprint, "format": f"{fmt.fingerprint}{left_out}"}


def _format_of(task: ConfigurableTask) -> PromptFormat:
    """The task's format; tasks without one are scored by ``HarnessScorer``."""
    assert task.format is not None
    return task.format


def _written_out(value: Any) -> Any:
    """A config with each ``!function`` as its source text, so that a file can hold it."""
    from lm_eval.support.encode import source_text

    if isinstance(value, FunctionRef):
        try:
            return source_text(value.resolve())
        except LmEvalError:  # one that was never needed, and is not there
            return value.as_text()
    if isinstance(value, Mapping):
        return {key: _written_out(item) for key, item in value.items()}
    return [_written_out(item) for item in value] if isinstance(value, list) else value


def _listed_metrics(task: ConfigurableTask, where: str) -> dict[str, Mapping[str, Any]]:
    """The entries of the task's ``metric_list``, by the names of their scores."""
    entries = task.config.metric_list or []
    if not isinstance(entries, list | tuple) or not all(
        isinstance(entry, Mapping)
        and (isinstance(entry.get("metric"), str) or callable(entry.get("metric")))
        for entry in entries
    ):
        raise ConfigError(
            f"{where}: metric_list is {shorten(entries)}; every entry of it needs a `metric`, a name or "
            "a !function, such as `metric_list: [{metric: acc}]`."
        )
    return {metric_name(entry): entry for entry in entries}


def _warn_choices(name: str, where: str) -> None:
    warnings.warn(
        f"{where}: metric {name!r} in metric_list is left out: it compares texts, and under this format "
        "answers are choices. Metrics of choices: acc, f1_macro.",
        LmEvalWarning,
        stacklevel=3,
    )


def _warn_one_text(name: str, where: str) -> None:
    warnings.warn(
        f"{where}: metric {name!r} in metric_list is left out: under this format the target alone is "
        f"scored. Metrics of it: {', '.join(OF_ONE_TEXT)}.",
        LmEvalWarning,
        stacklevel=3,
    )


def _warn_unknown(name: str, where: str) -> None:
    if name in METRICS:
        problem = f"metric {name!r} in metric_list is left out, as formats do not have it."
    else:
        hint = did_you_mean(name, METRICS)
        problem = f"unknown metric {name!r} in metric_list is left out.{hint}"
    warnings.warn(
        f"{where}: {problem} Metrics: {few_names(name, names_of_formats())}.",
        LmEvalWarning,
        stacklevel=3,
    )
