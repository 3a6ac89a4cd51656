"""Metrics that are one function of references and predictions, for formats and harness tasks alike.

In: an outcome. Out: what the function makes of the right answers and of the answer, as texts. A
function is registered with ``lm_eval.api.registry.register_metric``, or is a ``!function`` in a
``metric_list``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.config.functions import FunctionRef
from lm_eval.errors import CodeNotRunError, ConfigError, LmEvalError, did_you_mean, listing
from lm_eval.registry import AGGREGATIONS, METRICS, HarnessMetric, function_metric
from lm_eval.scoring.metrics import ChoiceOutcome, Metric, Outcome, TextOutcome
from lm_eval.stats.estimates import Estimate, mean_estimate, statistic_estimate

METRIC_KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate")
"""What an entry of ``metric_list`` says about a metric; its other keys are the function's options."""
CHOICES, TEXT = "multiple_choice", "generate_until"


def call_metric(
    function: Callable[..., Any], reference: Any, prediction: Any, options: Mapping[str, Any]
) -> Any:
    """What a metric gives for one answer: by references and predictions, or with one pair."""
    try:
        return function(references=[reference], predictions=[prediction], **options)
    except TypeError as error:
        try:
            return function([reference, prediction])
        except TypeError:
            raise error from None


@dataclass(frozen=True)
class TextMetric:
    """A function of references and predictions under the name of its score."""

    name: str
    function: Callable[..., Any]
    higher_is_better: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, references: Sequence[Any], prediction: Any) -> Any:
        """The best score against any of ``references``; where it is not a number, that of the first."""
        scores = [self._score(reference, prediction) for reference in references]
        numbers = [float(score) for score in scores if isinstance(score, Real)]
        if len(numbers) < len(scores):
            return scores[0]
        return max(numbers) if self.higher_is_better else min(numbers)

    def _score(self, reference: Any, prediction: Any) -> Any:
        try:
            score = call_metric(self.function, reference, prediction, self.options)
        except LmEvalError:
            raise
        except Exception as error:
            raise self._error(
                reference, prediction, f"failed: {type(error).__name__}: {error}."
            ) from error
        if isinstance(score, Mapping) and self.name in score:
            score = score[self.name]
        is_finite = isinstance(score, Real) and math.isfinite(score)
        if is_finite or isinstance(score, tuple | list):
            return score
        raise self._error(
            reference, prediction, f"gives {shorten(score)}. Give a finite number for every answer."
        )

    def _error(self, reference: Any, prediction: Any, problem: str) -> ConfigError:
        return ConfigError(
            f"metric {self.name!r} of references=[{shorten(reference)}], "
            f"predictions=[{shorten(prediction)}] {problem}"
        )


def find_metric(
    entry: Mapping[str, Any], *, reads_text: bool, compares_texts: bool = False
) -> Metric | None:
    """The metric that an entry of ``metric_list`` names, whether or not it fits; None if unknown.

    A metric of formats that is also a function takes the options of the entry where the answers are
    texts of their own (``compares_texts``).
    """
    named = entry["metric"]
    if not isinstance(named, str):
        function = named.resolve() if isinstance(named, FunctionRef) else named
        return _as_metric(HarnessMetric(metric_name(entry), function), entry, is_written=True)
    options = entry.keys() - {*METRIC_KEYS}
    built_in = METRICS.get(named, None)
    known = function_metric(named)
    if isinstance(built_in, Metric) and not (options and compares_texts and known):
        return built_in
    if known is None or (known.is_built_in and not (reads_text and TEXT in known.output_types)):
        return None
    return None if named == "bypass" else _as_metric(known, entry)


def is_unknown_metric(name: str) -> bool:
    """Whether nothing is registered under a name, for formats or for plain tasks."""
    return name not in METRICS and function_metric(name) is None


def metric_name(entry: Mapping[str, Any]) -> str:
    """The name of the score that an entry gives; that of a function where it has one."""
    named = entry["metric"]
    if isinstance(named, str):
        return named
    try:
        function = named.resolve() if isinstance(named, FunctionRef) else named
    except CodeNotRunError:
        function = named
    return str(getattr(function, "__name__", None) or getattr(named, "attribute", None) or function)


def get_metric(
    entry: Mapping[str, Any], *, reads_text: bool, compares_texts: bool, where: str
) -> Metric:
    """The metric of an entry, checked to fit what the task gives."""
    metric = find_metric(entry, reads_text=reads_text, compares_texts=compares_texts)
    name = metric_name(entry)
    if metric is None:
        raise ConfigError(
            f"{where}: unknown metric {name!r}.{did_you_mean(name, METRICS)} "
            f"Metrics: {listing(sorted(METRICS), 40)}, or one of your own with @register_metric."
        )
    facts = {"reads_text": reads_text, "compares_texts": compares_texts}
    if not metric.fits(**facts):
        kind = "scored choices" if not reads_text else "choices read from text"
        kind = "generated text" if reads_text and compares_texts else kind
        metrics = [METRICS.get(known) for known in sorted(METRICS)]
        fitting = [m.name for m in metrics if isinstance(m, Metric) and m.fits(**facts)]
        raise ConfigError(
            f"{where}: metric {name!r} cannot be computed from {kind}. Those that can: "
            f"{listing(fitting, 40)}."
        )
    return metric


def _as_metric(
    known: HarnessMetric, entry: Mapping[str, Any], *, is_written: bool = False
) -> Metric:
    higher = entry.get("higher_is_better", known.higher_is_better)
    options = {key: value for key, value in entry.items() if key not in METRIC_KEYS}
    check_options(known.function, options)
    scored = TextMetric(known.name, known.function, higher is not False, options)

    def value(outcome: Outcome) -> Any:
        return scored(*answer_texts(outcome))

    aggregation = entry.get("aggregation", known.aggregation)
    return Metric(
        known.name,
        "a function of references and predictions",
        of_choice=value if is_written or CHOICES in known.output_types else None,
        of_text=value if is_written or TEXT in (known.output_types or (TEXT,)) else None,
        aggregate=_estimator(known.name, aggregation),
        higher_is_better=higher is not False,
    )


def check_options(function: Any, options: Mapping[str, Any]) -> None:
    """Let a metric that knows its options look at them before anything is asked."""
    check = getattr(function, "check_options", None)
    if check is not None:
        check(**options)


def answer_texts(outcome: Outcome) -> tuple[list[str], str]:
    """Every right answer and the answer given, as texts: choices by their own text, unread as ``""``."""
    if isinstance(outcome, ChoiceOutcome):
        names = outcome.choices or outcome.texts
        return [names[gold] for gold in outcome.gold], names[outcome.picked()]
    golds = [_text_of(gold, outcome) for gold in outcome.gold]
    return golds, _text_of(outcome.reading.value, outcome) if outcome.reading.is_answer else ""


def _text_of(answer: Any, outcome: TextOutcome) -> str:
    if outcome.answers == "text":
        return answer if isinstance(answer, str) else str(answer)
    places = answer if outcome.answers == "order" else (answer,)
    return ", ".join(outcome.choices[place] for place in places)


def _estimator(name: str, aggregation: Any) -> Callable[[Sequence[Any]], Estimate]:
    """How the values of a metric become an estimate; the mean where nothing is said."""
    if aggregation is None or aggregation == "mean":
        return mean_estimate
    if isinstance(aggregation, str):
        aggregation = AGGREGATIONS.get(aggregation)
    elif isinstance(aggregation, FunctionRef):
        aggregation = aggregation.resolve()
    return partial(_aggregated, name, aggregation)


def _aggregated(name: str, aggregation: Callable[..., float], values: Sequence[Any]) -> Estimate:
    try:
        return statistic_estimate(values, aggregation)
    except (TypeError, ValueError, ArithmeticError, IndexError, KeyError) as error:
        called = getattr(aggregation, "__name__", str(aggregation))
        raise ConfigError(
            f"The values of metric {name!r} cannot be aggregated by {called} ({type(error).__name__}: "
            f"{error}). The first value is {shorten(values[0])}. Give the metric another `aggregation`."
        ) from error
