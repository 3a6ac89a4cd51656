"""A task's ``metric_list`` → ``MetricList``: which scores it has and how each is aggregated.

Everything that can be wrong in the YAML is said here; a metric's function is loaded when it is called.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lm_eval.config.functions import FunctionRef
from lm_eval.errors import CodeNotRunError, ConfigError, LmEvalWarning, did_you_mean, listing
from lm_eval.harness.aggregation import CORPUS_SCORES, mean, sacrebleu_metric
from lm_eval.harness.exact_match import exact_match
from lm_eval.harness.metric_functions import TEXT, HubMetric, get_metric, keep
from lm_eval.registry import AGGREGATIONS, HARNESS_METRICS

KEYS = ("metric", "aggregation", "higher_is_better", "hf_evaluate")
OF_PAIRS = ("f1", "matthews_corrcoef", "bleu", "chrf", "chrf++", "ter", "bypass")
"""Aggregations that take the (gold, response) pairs which a metric without a function keeps."""

DEFAULT_METRICS = {
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "multiple_choice": ("acc", "acc_norm"),
    "generate_until": ("exact_match",),
}


@dataclass(frozen=True)
class MetricSpec:
    """One score of a task."""

    name: str
    aggregation: Callable[..., float] = mean
    higher_is_better: bool | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    source: Any = None
    """The function, or the reference to one; None where the task's ``process_results`` scores."""

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself: called through its reference, its TypeErrors would look different."""
        source = self.source.resolve() if isinstance(self.source, FunctionRef) else self.source
        function: Callable[..., Any] = source
        return function

    def load(self) -> None:
        """Import the library that computes it, if one does; a missing one is an error."""
        if isinstance(self.source, HubMetric):
            self.source.load()
        if self.aggregation in CORPUS_SCORES:
            sacrebleu_metric(CORPUS_SCORES[self.aggregation])


@dataclass
class MetricList:
    """The scores of a task, and those that turned up while scoring."""

    specs: Sequence[MetricSpec]
    sources: dict[str, str] = field(default_factory=dict)
    """Score → the metric that gave it, where a metric gives several."""

    def __iter__(self) -> Iterator[MetricSpec]:
        return iter(self.specs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.specs)

    def find(self, name: str) -> MetricSpec | None:
        """The entry that says how to aggregate a score."""
        # A name listed twice has the settings of the later entry.
        by_name = {spec.name: spec for spec in self.specs}
        return by_name.get(name) or by_name.get(self.sources.get(name, ""))

    def aggregation_of(self, name: str) -> Callable[..., float]:
        """How a score is aggregated; the mean for one that no entry knows."""
        spec = self.find(name)
        return resolved(spec.aggregation) if spec else mean

    def higher_is_better(self) -> dict[str, bool | None]:
        found = {spec.name: spec.higher_is_better for spec in self.specs}
        for name, source in self.sources.items():
            found.setdefault(name, found.get(source))
        return found


def resolved(value: Any) -> Any:
    return value.resolve() if isinstance(value, FunctionRef) else value


def parse_metric_list(
    metric_list: Any, output_type: str, *, task: str = "", has_process_results: bool = False
) -> MetricList:
    """The metrics of a task; without a list, the usual ones of its output type.

    With ``has_process_results`` names are free: the task's function gives the scores.
    """
    where = f"Task {task!r}: " if task else ""
    if metric_list is None:
        metric_list = [{"metric": name} for name in DEFAULT_METRICS[output_type]]
    if not isinstance(metric_list, list):
        raise ConfigError(
            f"{where}metric_list must be a list of entries such as `- metric: acc`; it is "
            f"{metric_list!r}."
        )
    specs = [_spec(entry, output_type, where, has_process_results) for entry in metric_list]
    # A name listed twice is one score: in its first place, with its last settings.
    return MetricList(list({spec.name: spec for spec in specs}.values()))


def _spec(entry: Any, output_type: str, where: str, is_free: bool) -> MetricSpec:
    if not isinstance(entry, Mapping) or entry.get("metric") is None:
        raise ConfigError(f"{where}every entry of metric_list needs a `metric`; here is {entry!r}.")
    metric = entry["metric"]
    if not isinstance(metric, str) and not callable(metric):
        raise ConfigError(f"{where}`metric` is a name or a !function, not {metric!r}.")
    name = metric if isinstance(metric, str) else _name(metric)
    where = f"{where}metric {name!r}"
    known = HARNESS_METRICS.get(name) if name in HARNESS_METRICS else None
    higher = entry.get("higher_is_better", known.higher_is_better if known else None)
    aggregation = _aggregation(entry, known.aggregation if known else None, where)
    options = {key: value for key, value in entry.items() if key not in KEYS}
    if is_free:
        return MetricSpec(name, aggregation, higher)
    if isinstance(metric, str):
        source: Any = get_metric(name, entry.get("hf_evaluate") is True)
        _check_fit(name, source, entry, output_type, where)
        _check_options(source, options, output_type, where)
    else:
        source = metric
    return MetricSpec(name, aggregation, higher, options, source)


def _name(function: Any) -> str:
    try:
        found = resolved(function)
    except CodeNotRunError:
        found = function
    return str(getattr(found, "__name__", None) or getattr(function, "attribute", None) or found)


def _aggregation(entry: Mapping[str, Any], default: str | None, where: str) -> Any:
    value = entry.get("aggregation", default)
    if value is None:
        return mean
    if callable(value):
        return value
    if not isinstance(value, str) or value not in AGGREGATIONS:
        raise ConfigError(
            f"{where}: unknown aggregation {value!r}.{did_you_mean(str(value), AGGREGATIONS)} "
            f"Aggregations: {listing(sorted(AGGREGATIONS))}, or a !function."
        )
    return AGGREGATIONS.get(value)


def _check_fit(
    name: str, source: Any, entry: Mapping[str, Any], output_type: str, where: str
) -> None:
    if name == "bypass":
        return
    known = HARNESS_METRICS.get(name) if name in HARNESS_METRICS else None
    if output_type != TEXT:
        if known is None or not known.output_types or output_type not in known.output_types:
            raise _misfit(name, output_type, where)
        return
    # A pair of texts has no mean; an aggregation of pairs, or a function, can use it.
    aggregation = entry.get("aggregation", known.aggregation if known else None)
    if source is keep and not callable(aggregation) and aggregation not in OF_PAIRS:
        raise _misfit(name, output_type, where)


def _misfit(name: str, output_type: str, where: str) -> ConfigError:
    fitting = [
        name for name in HARNESS_METRICS if output_type in HARNESS_METRICS.get(name).output_types
    ]
    more = ", a !function, or a metric of the `evaluate` library" if output_type == TEXT else ""
    return ConfigError(
        f"{where} cannot be computed for output_type {output_type}."
        f"{'' if name in HARNESS_METRICS else did_you_mean(name, fitting)} Those that can: "
        f"{listing(fitting)}{more}."
    )


def _check_options(source: Any, options: Mapping[str, Any], output_type: str, where: str) -> None:
    valid = [
        name
        for name in inspect.signature(exact_match).parameters
        if name not in ("predictions", "references")
    ]
    reads_options = source is exact_match and output_type == TEXT
    for key in options:
        if key in valid:
            continue
        hint = did_you_mean(str(key), [*KEYS, *valid])
        if reads_options:
            raise ConfigError(f"{where} has no option {key!r}.{hint} Options: {listing(valid)}.")
        if hint and isinstance(source, type(keep)):
            warnings.warn(f"{where} ignores {key!r}.{hint}", LmEvalWarning, stacklevel=4)
    if reads_options:
        _check_regexes(options.get("regexes_to_ignore"), where)


def _check_regexes(patterns: Any, where: str) -> None:
    for pattern in patterns or ():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(
                f"{where}: {pattern!r} in regexes_to_ignore is no regular expression: {error.msg} "
                f"at position {error.pos}."
            ) from None
