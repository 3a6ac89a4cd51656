"""A task's ``metric_list`` → ``MetricList``: which scores it has and how each is aggregated.

The metrics that a task file can name are registered here, ``exact_match`` among them. What is wrong
in the YAML is reported here; a metric's function is loaded when it is called.
"""

from __future__ import annotations

import inspect
import os
import re
import string
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lm_eval.config.functions import resolved
from lm_eval.errors import (
    CodeNotRunError,
    ConfigError,
    LmEvalWarning,
    MissingExtraError,
    did_you_mean,
    listing,
)
from lm_eval.harness.aggregation import CORPUS_SCORES, mean, sacrebleu_metric
from lm_eval.registry import AGGREGATIONS, HARNESS_METRICS, HarnessMetric, function_metric
from lm_eval.scoring.functions import METRIC_KEYS, check_options, metric_name

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_NO_DIGITS = str.maketrans("", "", string.digits)


def exact_match(
    *,
    predictions: Sequence[Any],
    references: Sequence[Any],
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> dict[str, float]:
    """``{"exact_match": share}``. The options apply in the order of the signature.

    Punctuation and numbers are the ASCII ones. A prediction that is a list counts by its parts.
    """

    if not (regexes_to_ignore or ignore_case or ignore_punctuation or ignore_numbers):
        texts = [*predictions, *references]
        if len(predictions) == 1 == len(references) and all(type(text) is str for text in texts):
            is_same = texts[0].rstrip("\0") == texts[1].rstrip("\0")
            return {"exact_match": float(is_same)}

    def plain(values: Sequence[Any]) -> list[Any]:
        values = _alike(list(values))
        for pattern in regexes_to_ignore or ():
            values = _map(partial(re.sub, pattern, ""), values)
        if ignore_case:
            values = _lower(values)
        if ignore_punctuation:
            values = _map(lambda text: text.translate(_NO_PUNCTUATION), values)
        if ignore_numbers:
            values = _map(lambda text: text.translate(_NO_DIGITS), values)
        return values

    same = list(_compare(plain(predictions), plain(references)))
    return {"exact_match": sum(same) / len(same) if same else 0.0}


def _map(change: Callable[[str], str], values: list[Any]) -> list[Any]:
    """``change`` on every text, in nested lists too. Zero bytes at its end get lost, as in arrays."""

    def changed(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [changed(part) for part in value]
        return change(value).rstrip("\0") if isinstance(value, str) else value

    return [changed(value) for value in values]


def _texts(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _texts(value)
        else:
            yield value


def _alike(values: list[Any]) -> list[Any]:
    """Values of one type, as an array has them: one text among numbers makes texts of all."""
    if not any(isinstance(value, str) for value in _texts(values)):
        return values
    return _map(str, _as_texts(values))


def _as_texts(values: Iterable[Any]) -> list[Any]:
    return [_as_texts(v) if isinstance(v, (list, tuple)) else str(v) for v in values]


def _lower(values: list[Any]) -> list[Any]:
    """Small letters, cut to the length of the longest text before: an array's texts have a width,
    and a few capitals, such as the Turkish dotted I, become two characters."""
    width = max((len(text) for text in _texts(values) if isinstance(text, str)), default=0)
    return _map(lambda text: text.lower()[:width], values)


def _compare(predicted: Any, wanted: Any) -> Iterable[bool]:
    """Equality part by part, as arrays are compared: the last dimensions are aligned, and a
    single part is compared with all of the other side."""
    predicted, wanted = _wrap(predicted, _depth(wanted)), _wrap(wanted, _depth(predicted))
    if not isinstance(predicted, list):
        yield bool(predicted == wanted)
    elif len(predicted) == len(wanted) or 1 in (len(predicted), len(wanted)):
        many = max(len(predicted), len(wanted)) if predicted and wanted else 0
        for index in range(many):
            yield from _compare(predicted[index % len(predicted)], wanted[index % len(wanted)])
    else:
        yield False


def _depth(value: Any) -> int:
    return 1 + (_depth(value[0]) if value else 0) if isinstance(value, list) else 0


def _wrap(value: Any, depth: int) -> Any:
    while _depth(value) < depth:
        value = [value]
    return value


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
    """The function, or the reference to one; None if the task's ``process_results`` scores."""

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself: called through its reference, its TypeErrors would look different."""
        function: Callable[..., Any] = resolved(self.source)
        return function

    @property
    def is_own(self) -> bool:
        """Whether it is a function that a task or an installed package brings."""
        known = HARNESS_METRICS.get(self.name, None)
        return self.source is not None and not (known and known.is_built_in)

    def load(self, *, run_code: bool = True) -> None:
        """Import the library that computes it, if one does; a missing one is an error."""
        if isinstance(self.source, HubMetric):
            self.source.load(run_code=run_code)
        if self.aggregation in CORPUS_SCORES:
            sacrebleu_metric(CORPUS_SCORES[self.aggregation])


@dataclass
class MetricList:
    """The scores of a task, and those that turned up while scoring."""

    specs: Sequence[MetricSpec]
    sources: dict[str, str] = field(default_factory=dict)
    """Score → the metric that gave it, if a metric gives several."""

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
        directions = {spec.name: spec.higher_is_better for spec in self.specs}
        for name, source in self.sources.items():
            directions.setdefault(name, directions.get(source))
        return directions


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
    name = metric_name(entry)
    where = f"{where}metric {name!r}"
    known = function_metric(name)
    higher = entry.get("higher_is_better", known.higher_is_better if known else None)
    aggregation = _aggregation(entry, known.aggregation if known else None, where)
    options = {key: value for key, value in entry.items() if key not in METRIC_KEYS}
    if is_free:
        return MetricSpec(name, aggregation, higher)
    if isinstance(metric, str):
        is_wanted = entry.get("hf_evaluate") is True
        source: Any = get_metric(name, is_wanted)
        if isinstance(source, HubMetric) and not is_wanted and _is_a_place(name):
            raise ConfigError(
                f"{where} is a path or a name on a hub, and loading it runs the Python there. If you "
                "trust it, write `hf_evaluate: true` beside it."
            )
        _check_fit(name, source, entry, output_type, where)
        _check_options(source, options, output_type, where)
        check_options(source, options)
    else:
        source = metric
    return MetricSpec(name, aggregation, higher, options, source)


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
        is_function = known is not None and not known.is_built_in
        if (
            known is None
            or output_type not in known.output_types
            or (is_function and output_type != CHOICE)
        ):
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
                f"{where}: {pattern!r} in regexes_to_ignore is not a regular expression: {error.msg} "
                f"at position {error.pos}."
            ) from None


CHOICE, LL, ROLLING, TEXT = (
    "multiple_choice",
    "loglikelihood",
    "loglikelihood_rolling",
    "generate_until",
)


def keep(items: Any) -> Any:
    """What is stored is computed elsewhere, or by the aggregation."""
    return items


def bypass(items: Any) -> None:
    """Nothing: the run only predicts."""


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
    if name not in HARNESS_METRICS:
        hint = did_you_mean(name, HARNESS_METRICS)
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
    if name in HARNESS_METRICS and (not hf_evaluate_metric or name == "exact_match"):
        return HARNESS_METRICS.get(name).function
    return HubMetric(name)


BUILT_IN = (
    # name, aggregation, higher_is_better, what it is made from
    HarnessMetric("acc", keep, "mean", True, (CHOICE, LL)),
    HarnessMetric("acc_norm", keep, "mean", True, (CHOICE,)),
    HarnessMetric("acc_bytes", keep, "mean", True, (CHOICE,)),
    HarnessMetric("acc_tokens", keep, "mean", True, (CHOICE,)),
    HarnessMetric("acc_mutual_info", keep, "mean", True, (CHOICE,)),
    HarnessMetric("acc_all", keep, "mean", True, ()),
    HarnessMetric("exact_match", exact_match, "mean", True, (CHOICE, TEXT)),
    HarnessMetric("f1", keep, "f1", True, (CHOICE,)),
    HarnessMetric("mcc", keep, "matthews_corrcoef", True, (CHOICE,)),
    HarnessMetric("brier_score", keep, "brier_score", False, (CHOICE,)),
    HarnessMetric("likelihood", keep, "mean", True, (CHOICE,)),
    HarnessMetric("prob_mass", keep, "mean", True, (CHOICE,)),
    HarnessMetric("perplexity", keep, "perplexity", False, (LL,)),
    HarnessMetric("word_perplexity", keep, "weighted_perplexity", False, (ROLLING,)),
    HarnessMetric("byte_perplexity", keep, "weighted_perplexity", False, (ROLLING,)),
    HarnessMetric("bits_per_byte", keep, "bits_per_byte", False, (ROLLING,)),
    HarnessMetric("bleu", keep, "bleu", True, (TEXT,)),
    HarnessMetric("chrf", keep, "chrf", True, (TEXT,)),
    HarnessMetric("chrf++", keep, "chrf++", True, (TEXT,)),
    HarnessMetric("ter", keep, "ter", False, (TEXT,)),
    HarnessMetric("bypass", bypass, "bypass", True, (CHOICE, LL, ROLLING, TEXT)),
)
for _metric in BUILT_IN:
    _metric = replace(_metric, is_built_in=True)
    HARNESS_METRICS.register(_metric.name, _metric, place=f"{__name__}, metric {_metric.name}")
for _name in ("em", "em_drop", "f1_drop", "em_loo", "f1_loo", "contains"):
    HARNESS_METRICS.register(_name, f"lm_eval.scoring.overlap:{_name.upper()}_FUNCTION")
HARNESS_METRICS.register("math_equal", "lm_eval.scoring.mathematics.equal:MATH_EQUAL_FUNCTION")
