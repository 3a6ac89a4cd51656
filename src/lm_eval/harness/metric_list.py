"""A task's ``metric_list`` → ``MetricList``: which scores it has and how each is aggregated.

What is wrong in the YAML is reported here; a metric's function is loaded when it is called.
"""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lm_eval.config.functions import resolved
from lm_eval.config.schema import Key, check
from lm_eval.errors import (
    CodeNotRunError,
    ConfigError,
    LmEvalWarning,
    MissingExtraError,
    did_you_mean,
    listing,
)
from lm_eval.harness.aggregation import CORPUS_SCORES, mean, sacrebleu_metric
from lm_eval.registry import AGGREGATIONS, METRICS, Metric
from lm_eval.scoring.functions import METRIC_KEYS, check_options, metric_name
from lm_eval.scoring.metrics import CHOICE, TEXT, exact_match, keep

OF_PAIRS = ("f1", "matthews_corrcoef", "bleu", "chrf", "chrf++", "ter", "bypass")
"""Aggregations that take the (gold, response) pairs which a metric without a function keeps."""

DEFAULT_METRICS = {
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "multiple_choice": ("acc", "acc_norm"),
    "generate_until": ("exact_match",),
}


METRIC_LIST = Key(list[dict[str, Any]], "a list of entries such as `- metric: acc`")
METRIC_SCHEMA = {
    "metric": Key(
        str,
        "the name of a metric or a !function",
        takes_code=True,
        takes_null=False,
        is_needed=True,
    ),
    "aggregation": Key(
        str,
        "an aggregation, such as mean, or a !function",
        takes_code=True,
        fits=lambda name: name in AGGREGATIONS,
        names=AGGREGATIONS,
    ),
}
"""The keys of an entry that every metric has; others are the metric's options."""


@dataclass
class MetricList:
    """The scores of a task, and those that turned up while scoring."""

    metrics: Sequence[Metric]
    sources: dict[str, str] = field(default_factory=dict)
    """Score → the metric that gave it, if a metric gives several."""

    def __iter__(self) -> Iterator[Metric]:
        return iter(self.metrics)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(metric.name for metric in self.metrics)

    def load(self, *, run_code: bool = True) -> None:
        """Import the libraries that compute them; a missing one is an error."""
        for metric in self.metrics:
            if isinstance(metric.function, HubMetric):
                metric.function.load(run_code=run_code)
            if metric.aggregation in CORPUS_SCORES:
                sacrebleu_metric(CORPUS_SCORES[metric.aggregation])

    def aggregation_of(self, name: str) -> Callable[..., float]:
        """How a score is aggregated; the mean for one that no entry knows."""
        by_name = {metric.name: metric for metric in self.metrics}
        metric = by_name.get(name) or by_name.get(self.sources.get(name, ""))
        aggregation: Callable[..., float] = resolved(metric.aggregation) if metric else mean
        return aggregation

    def higher_is_better(self) -> dict[str, bool | None]:
        directions = {metric.name: metric.higher_is_better for metric in self.metrics}
        for name, source in self.sources.items():
            directions.setdefault(name, directions.get(source))
        return directions


def parse_metric_list(
    metric_list: Any, output_type: str, *, task: str = "", has_process_results: bool = False
) -> MetricList:
    """The metrics of a task; without a list, the usual ones of its output type.

    With ``has_process_results`` names are free: the task's function gives the scores.
    """
    where = f"Task {task!r}"
    if metric_list is None:
        metric_list = [{"metric": name} for name in DEFAULT_METRICS[output_type]]
    check({"metric_list": metric_list}, {"metric_list": METRIC_LIST}, where)
    for place, entry in enumerate(metric_list):
        fixed = {key: entry[key] for key in METRIC_SCHEMA if key in entry}
        check(fixed, METRIC_SCHEMA, where, "metric_list", place)
    metrics = [_metric(entry, output_type, where, has_process_results) for entry in metric_list]
    # A name listed twice is one score: in its first place, with its last settings.
    return MetricList(list({metric.name: metric for metric in metrics}.values()))


def _metric(entry: Mapping[str, Any], output_type: str, where: str, is_free: bool) -> Metric:
    named = entry["metric"]
    name = metric_name(entry)
    where = f"{where}: metric {name!r}"
    known = plain_metric(name) or Metric(name, higher_is_better=None)
    options = {key: value for key, value in entry.items() if key not in METRIC_KEYS}
    aggregation = entry.get("aggregation", known.aggregation) or mean
    if isinstance(aggregation, str):
        aggregation = AGGREGATIONS.get(aggregation)
    metric = replace(
        known,
        function=None if is_free else named,
        aggregation=aggregation,
        higher_is_better=entry.get("higher_is_better", known.higher_is_better),
        options={} if is_free else options,
    )
    if is_free or not isinstance(named, str):
        return metric
    is_wanted = entry.get("hf_evaluate") is True
    source = get_metric(name, is_wanted)
    if isinstance(source, HubMetric) and not is_wanted and _is_a_place(name):
        raise ConfigError(
            f"{where} is a path or a name on a hub, and loading it runs the Python there. If you "
            "trust it, write `hf_evaluate: true` beside it.",
            key="metric_list",
        )
    _check_fit(known, source, entry, output_type, where)
    _check_options(source, options, output_type, where)
    check_options(source, options)
    return replace(metric, function=source)


def plain_metric(name: str) -> Metric | None:
    """The metric of plain task files that has this name; None if there is none."""
    known = METRICS.get(name, None)
    return known if known is not None and known.function is not None else None


def _check_fit(
    metric: Metric, source: Any, entry: Mapping[str, Any], output_type: str, where: str
) -> None:
    if metric.name == "bypass":
        return
    if output_type != TEXT:
        is_function = not metric.is_built_in
        if output_type not in metric.output_types or (is_function and output_type != CHOICE):
            raise _misfit(metric, output_type, where)
        return
    # A pair of texts has no mean; an aggregation of pairs, or a function, can use it.
    aggregation = entry.get("aggregation", metric.aggregation)
    if source is keep and not callable(aggregation) and aggregation not in OF_PAIRS:
        raise _misfit(metric, output_type, where)


def _misfit(metric: Metric, output_type: str, where: str) -> ConfigError:
    fitting = [name for name in METRICS if output_type in METRICS.get(name).output_types]
    more = ", a !function, or a metric of the `evaluate` library" if output_type == TEXT else ""
    return ConfigError(
        f"{where} cannot be computed for output_type {output_type}."
        f"{'' if metric.function else did_you_mean(metric.name, fitting)} Those that can: "
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
        hint = did_you_mean(str(key), [*METRIC_KEYS, *valid])
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
                f"{where}: {pattern!r} in regexes_to_ignore is not a regular expression: {error}."
            ) from None


class HubMetric:
    """A metric of the ``evaluate`` library, loaded when it is first called."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self._compute: Any = None

    def load(self, *, run_code: bool = True) -> Any:
        """The function that computes it: Python from a hub or a file, hence code of the task's."""
        if self._compute is None:
            self._compute = _load_from_hub(self.__name__, run_code)
        return self._compute

    def __call__(self, **arguments: Any) -> Any:
        return self.load()(**arguments)


def _is_a_place(name: str) -> bool:
    """Whether ``evaluate`` would look for a name outside its own metrics."""
    return not re.fullmatch(r"[\w+-]+", name) or os.path.exists(name)


def _load_from_hub(name: str, run_code: bool) -> Any:
    unknown = ""
    if plain_metric(name) is None:
        hint = did_you_mean(name, METRICS)
        unknown = f"{name!r} is not a metric of this package.{hint} "
    try:
        import evaluate
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"{unknown}The metric {name!r} is looked for in the library `evaluate`, which is not "
            "installed.",
            install="pip install 'lm-eval-formats[hub-metrics]'",
        ) from None
    if not run_code:
        raise CodeNotRunError(
            f"{unknown}The library `evaluate` would load and run Python for the metric {name!r}, and "
            "running a task's code was not allowed. Add `--run_code` if you trust it."
        )
    try:
        return evaluate.load(name).compute
    except Exception as error:
        raise MissingExtraError(
            f"{unknown}The library `evaluate` cannot load the metric {name!r} "
            f"({type(error).__name__}: {error}). It may need the network or one more package.",
            install=f'python -c "import evaluate; evaluate.load({name!r})"',
        ) from error


def get_metric(name: str, hf_evaluate_metric: bool = False) -> Any:
    """The function of a metric: a registered one, else the one of the ``evaluate`` library.

    ``exact_match`` there and here are the same, so it needs no library.
    """
    known = plain_metric(name)
    if known is not None and (not hf_evaluate_metric or name == "exact_match"):
        return known.function
    return HubMetric(name)
