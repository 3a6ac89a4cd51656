"""A harness task's answers → filtered responses → one ``TaskResult`` for each filter.

For a task with neither ``formats`` nor ``template``: its ``filter_list``, ``metric_list`` and
``process_results`` mean here what they mean in EleutherAI's harness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lm_eval.config.schema import placed
from lm_eval.errors import ConfigError, LmEvalError, MissingExtraError, place
from lm_eval.formats.assemble import Prompt
from lm_eval.formats.checks import CALIBRATED, NORMALISATIONS
from lm_eval.harness.aggregation import mean
from lm_eval.harness.filters import FilterPipeline, build_pipelines
from lm_eval.harness.metrics import (
    DEFAULT_METRICS,
    MetricList,
    gold_places,
    parse_metric_list,
    plain_metric,
    score_generation,
    score_loglikelihood,
    score_multiple_choice,
    score_picked,
    score_rolling,
)
from lm_eval.harness.stderr import (
    DEFAULT_ITERS,
    over_clusters,
    value_and_stderr,
    with_interval,
)
from lm_eval.requests import Answer, DocRequests
from lm_eval.scoring.functions import aggregating
from lm_eval.scoring.results import ChoiceTally, DocValues, TaskResult
from lm_eval.stats.estimates import Estimate
from lm_eval.tasks.task import ConfigurableTask

INVALID = "[invalid]"
"""What the harness's regex filters return for a reply that no pattern matched."""


@dataclass(frozen=True)
class FilteredDoc:
    """One doc under one filter: its filtered responses, and their scores."""

    doc: DocRequests
    filter: str
    responses: Sequence[Any]
    """All responses of each request, as they came."""
    filtered: Sequence[Any]
    values: Mapping[str, Any]
    answers: Sequence[Answer] = ()
    """The model's answers: the responses, with what a ``Reply`` holds beside its text."""


class FilterScores:
    """Scores of docs under one filter, added as docs come in; no doc is held."""

    def __init__(self, filter_name: str, task: ConfigurableTask) -> None:
        self.filter = filter_name
        self.values = DocValues(task)
        self.guessing = ChoiceTally()
        self._unmatched = 0

    def add(self, place: int, doc: FilteredDoc) -> None:
        """Count the doc at ``place`` among the docs asked."""
        self.values.add(place, doc.doc.doc_id, doc.values)
        gold, choices = doc.doc.asked.target_value, doc.doc.asked.choices
        if choices:
            num_right = len(gold) if isinstance(gold, list) else 1
            self.guessing.add_chance(min(num_right, len(choices)), len(choices))
        # The harness counts a reply that no pattern matched as wrong and says nothing.
        self._unmatched += bool(doc.filtered and doc.filtered[0] == INVALID)

    def notes(self) -> list[str]:
        """What a reader of the scores should know."""
        notes = self.values.clusters.notes()
        if not self._unmatched:
            return notes
        return [
            f"filter {self.filter}: {self._unmatched} of {self.values.count} replies matched no pattern "
            f"({INVALID}) and count as wrong",
            *notes,
        ]


class HarnessScorer:
    """Scores one harness task. Making one checks its filters and metrics.

    ``only_predicts`` filters the responses and scores none: the metric ``bypass`` replaces the scores of
    generated text.
    """

    def __init__(self, task: ConfigurableTask, *, only_predicts: bool = False) -> None:
        self.task = task
        self.only_predicts = only_predicts
        config = task.config
        try:
            self.metrics: MetricList = parse_metric_list(
                [{"metric": "bypass"}] if only_predicts else self._metric_list(),
                task.output_type,
                task=task.name,
                has_process_results=(
                    config.process_results is not None or task.has_own_scoring or self._has_checks
                ),
            )
            self.pipelines: list[FilterPipeline] = build_pipelines(
                config.filter_list, task=task.name, load_helpers=config.load_helpers
            )
        except ConfigError as error:
            raise placed(error, config.source) from None
        self._check_fields()
        self._score = self._scoring()

    def _check_fields(self) -> None:
        """Refuse a task without a field that its scores are made from."""
        task = self.task
        if self.only_predicts or task.own_process_results is not None or self._has_checks:
            return
        is_choice = task.output_type == "multiple_choice"
        for field in ("doc_to_target", "doc_to_choice") if is_choice else ("doc_to_target",):
            if getattr(task.config, field) is None and not task.overrides(field):
                raise ConfigError(
                    f"Task {task.name!r} has no {field}, and {task.output_type} cannot be scored "
                    f"without it. Name the field of the docs that holds it, for example "
                    f"`{field}: {'answer' if field == 'doc_to_target' else 'choices'}`."
                )

    def check_gold(self, doc: DocRequests) -> None:
        """Refuse a gold answer outside the choices, and checks that do not exist or do not take their
        arguments, before anything is asked."""
        if self._has_checks:
            self._load_checks(doc)
        if self.task.output_type != "multiple_choice" or self.task.own_process_results is not None:
            return
        if not self.task.parity:
            gold_places(
                _gold(doc), doc.asked.choices, strict=True, where=self._place(doc).rstrip(": ")
            )

    @property
    def is_local(self) -> bool:
        """Whether every filter looks at one doc at a time, so that docs can be scored in parts."""
        return all(pipeline.is_local for pipeline in self.pipelines)

    def score(
        self, docs: Sequence[DocRequests], answers: Sequence[Sequence[Answer]]
    ) -> list[list[FilteredDoc]]:
        """For each filter, every doc in order."""
        responses = [
            self._responses(doc, of_doc) for doc, of_doc in zip(docs, answers, strict=True)
        ]
        return [self._filtered(pipeline, docs, responses, answers) for pipeline in self.pipelines]

    def result(
        self,
        scores: FilterScores,
        *,
        num_fewshot: int,
        bootstrap_iters: int | None = DEFAULT_ITERS,
        notes: Iterable[str] = (),
        missing: int = 0,
        shows_choices: bool | None = None,
    ) -> TaskResult:
        """One filter's docs as a result."""
        task = self.task

        def estimated(name: str, values: Sequence[Any], places: Sequence[int]) -> Estimate:
            plain = self._estimate(name, values, bootstrap_iters)
            is_mean = self._aggregation_of(name) is mean
            over = over_clusters(
                plain, scores.values.clusters, name, values, places, is_mean=is_mean
            )
            return replace(over, stderr=plain.stderr) if task.parity else over

        estimates, parts = scores.values.estimates(estimated)
        higher = {
            name: True if better is None else better
            for name, better in self._higher_is_better().items()
        }
        return TaskResult(
            name=task.name,
            task=task.task_name,
            alias=task.config.task_alias or task.name,
            format=None,
            primary=self._primary(estimates),
            metrics=estimates,
            higher_is_better=higher,
            num_docs=max((estimate.n for estimate in estimates.values()), default=0),
            num_docs_total=len(task.eval_docs),
            rows_total=task.rows_total,
            num_fewshot=num_fewshot,
            version=(task.config.metadata or {}).get("version", task.VERSION),
            config=task.config.to_dict,
            fingerprints={"task": task.fingerprint},
            data=task.data_record,
            notes=[*notes, *scores.notes()],
            filter=scores.filter,
            missing=missing,
            guessed=scores.guessing.chance,
            parts=parts,
            scores_choices=task.output_type == "multiple_choice" and not task.own_process_results,
            shows_choices=shows_choices,
        )

    def values_of(self, data: Mapping[str, Any], left: list[Any]) -> Mapping[str, Any]:
        """Metric → value for a doc given by its data, by the rules of the YAML: what ``super()`` gives
        a Python task with its own scoring method.
        """
        if (function := self.task.config.process_results) is not None:
            return self._own_values(function, data, left)
        asked = self.task.prompts.ask(data)
        return self._built_in_scoring()(DocRequests(-1, asked, (), Prompt(()), ()), left)

    def _metric_list(self) -> Any:
        """The task's list, with the metric of its ``normalization`` if that is missing from it."""
        if self._has_checks:
            return [{"metric": name, "higher_is_better": True} for name in _checks().CHECK_METRICS]
        written, metric = self.task.config.metric_list, self._own_metric or self._named_metric
        if metric is None or (written is not None and not isinstance(written, list)):
            return written
        entries = DEFAULT_METRICS[self.task.output_type] if written is None else written
        listed = [{"metric": entry} if isinstance(entry, str) else entry for entry in entries]
        is_listed = any(isinstance(e, Mapping) and e.get("metric") == metric for e in listed)
        return listed if is_listed else [*listed, {"metric": metric}]

    @property
    def _has_checks(self) -> bool:
        return self.task.config.checks is not None

    def _load_checks(self, doc: DocRequests) -> None:
        try:
            for name, arguments in self.task.checks_of(doc.doc_id):
                _checks().load_check(name, arguments)
        except ConfigError as error:
            raise ConfigError(f"{self._place(doc)}{error}") from None

    @property
    def _named_metric(self) -> str | None:
        """The first metric of ``primary_metric`` that can be made from the task's answers."""
        task = self.task
        for name in task.primary_metrics if task.own_process_results is None else ():
            known = plain_metric(name)
            if known is not None and task.output_type in known.output_types:
                return name
        return None

    @property
    def _own_metric(self) -> str | None:
        """The metric that the task's ``normalization`` makes the score."""
        name = self.task.normalization
        has_own = self.task.own_process_results is not None
        if name is None or has_own:
            return None
        metric = NORMALISATIONS[name].metric
        if metric == CALIBRATED:
            raise ConfigError(
                f"Task {self.task.name!r}: normalization {name!r} puts words without content in place "
                "of the question, and only a format knows where that is. Ask it under one, such "
                f"as {self.task.task_name}@cloze."
            )
        return metric

    # Responses

    def _responses(self, doc: DocRequests, answers: Sequence[Answer]) -> list[list[Any]]:
        """The answers to each request: as many as it has repeats."""
        plain = [_plain(answer) for answer in answers]
        return [plain[at : at + doc.repeats] for at in range(0, len(plain), doc.repeats)]

    def _filtered(
        self,
        pipeline: FilterPipeline,
        docs: Sequence[DocRequests],
        responses: Sequence[list[list[Any]]],
        answers: Sequence[Sequence[Answer]],
    ) -> list[FilteredDoc]:
        flat = [response for of_doc in responses for response in of_doc]
        owners = [
            self.task.eval_docs[doc.doc_id]
            for doc, of_doc in zip(docs, responses, strict=True)
            for _ in of_doc
        ]
        kept = iter(pipeline.apply(flat, owners))
        filtered = []
        for doc, of_doc, of_model in zip(docs, responses, answers, strict=True):
            left = [next(kept) for _ in of_doc]
            values = self._values(doc, left)
            filtered.append(FilteredDoc(doc, pipeline.name, of_doc, left, values, of_model))
        return filtered

    def _values(self, doc: DocRequests, left: list[Any]) -> Mapping[str, Any]:
        try:
            return self._score(doc, left)
        except MissingExtraError:  # not the fault of one doc
            raise
        except LmEvalError as error:
            raise type(error)(f"{self._place(doc)}{error}") from error

    def _place(self, doc: DocRequests) -> str:
        return place(self.task.name, None, doc.doc_id)

    # Scores

    def _scoring(self) -> Callable[[DocRequests, list[Any]], Mapping[str, Any]]:
        task = self.task
        if self.only_predicts:
            unscored = {"bypass": None} if task.output_type == "generate_until" else {}
            return lambda *_: unscored
        if self._has_checks:
            verdicts = _checks().verdicts
            return lambda doc, left: verdicts(str(left[0]), task.checks_of(doc.doc_id))
        own = task.own_process_results
        if own is not None:
            docs = task.eval_docs
            return lambda doc, left: self._own_values(own, docs[doc.doc_id], left)
        return self._built_in_scoring()

    def _built_in_scoring(self) -> Callable[[DocRequests, list[Any]], Mapping[str, Any]]:
        return {
            "multiple_choice": self._choice_values,
            "loglikelihood": self._loglikelihood_values,
            "loglikelihood_rolling": self._rolling_values,
            "generate_until": self._generation_values,
        }[self.task.output_type]

    def _own_values(
        self, function: Callable[..., Any], data: Mapping[str, Any], left: list[Any]
    ) -> Mapping[str, Any]:
        try:
            values = function(data, left)
        except LmEvalError:
            raise
        except Exception as error:
            raise ConfigError(
                f"process_results failed: {type(error).__name__}: {error}."
            ) from error
        if not isinstance(values, Mapping):
            raise ConfigError(
                f"process_results gives {values!r}; expected metric names and values."
            )
        return values

    def _choice_values(self, doc: DocRequests, left: list[Any]) -> Mapping[str, Any]:
        asked = doc.asked
        count = len(asked.continuations)
        lls = [ll for ll, _ in left[:count]]
        values = score_multiple_choice(
            lls,
            [greedy for _, greedy in left[:count]],
            asked.choices,
            _gold(doc),
            unconditional_lls=[ll for ll, _ in left[count:]] or None,
            tokens=[getattr(pair, "tokens", None) for pair in left[:count]],
            metrics=self.metrics.names,
            strict=not self.task.parity,
            where=f"Task {self.task.name!r}",
        )
        return {**values, **score_picked(lls, asked.choices, _gold(doc), self.metrics.metrics)}

    def _loglikelihood_values(self, _: DocRequests, left: list[Any]) -> Mapping[str, Any]:
        logprob, is_greedy = left[0]
        return score_loglikelihood(logprob, is_greedy, metrics=self.metrics.names)

    def _rolling_values(self, doc: DocRequests, left: list[Any]) -> Mapping[str, Any]:
        return score_rolling(left[0], doc.asked.continuations[0], metrics=self.metrics.names)

    def _generation_values(self, doc: DocRequests, left: list[Any]) -> Mapping[str, Any]:
        asked = doc.asked
        return score_generation(
            left[0],
            asked.target_value,
            list(self.metrics),
            choices=asked.choices or None,
            multiple_target=self.task.has_several_targets,
            sources=self.metrics.sources,
        )

    # Estimates

    def _primary(self, estimates: Mapping[str, Estimate]) -> str:
        for name in self.task.primary_metrics:
            if name in estimates:
                return name
        own = self._own_metric
        return own if own is not None and own in estimates else next(iter(estimates), "none")

    def _higher_is_better(self) -> Mapping[str, bool | None]:
        if self.task.overrides("higher_is_better") and not self.only_predicts:
            return self.task.higher_is_better()
        return self.metrics.higher_is_better()

    def _estimate(self, name: str, values: Sequence[Any], iters: int | None) -> Estimate:
        if self._has_checks and name in _checks().CHECK_METRICS:
            estimate: Estimate = _checks().CHECK_METRICS[name](values)
            return estimate
        aggregation = self._aggregation_of(name)
        with aggregating(name, aggregation, values, f"Task {self.task.name!r}: "):
            value, stderr = value_and_stderr(name, values, aggregation, iters)
        return with_interval(value, stderr, values, aggregation)

    def _aggregation_of(self, name: str) -> Callable[..., float]:
        return self.task.own_aggregation.get(name) or self.metrics.aggregation_of(name)


def _checks() -> Any:
    """The module of checks; only tasks with ``checks`` need it."""
    from lm_eval.scoring import checks

    return checks


def _gold(doc: DocRequests) -> Any:
    gold = doc.asked.gold
    return gold[0] if len(gold) == 1 else list(gold)


def _plain(answer: Answer) -> Any:
    return str(answer) if isinstance(answer, str) else answer
