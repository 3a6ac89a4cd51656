"""The metrics of plain harness tasks: a ``metric_list`` → which they are, and their values for one doc.

In: the entries of the YAML, then log-likelihoods or a filtered response, and the gold. Out: metric name
→ number, or a pair that the aggregation takes. What is wrong in the YAML is reported here; a metric's
function is loaded when it is called.
"""

from __future__ import annotations

import inspect
import math
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lm_eval.config.functions import resolved
from lm_eval.config.schema import Key, check
from lm_eval.errors import (
    CodeNotRunError,
    ConfigError,
    GoldError,
    LmEvalWarning,
    MissingExtraError,
    did_you_mean,
    listing,
)
from lm_eval.harness.aggregation import CORPUS_SCORES, mean, sacrebleu_metric
from lm_eval.registry import AGGREGATIONS, METRICS, Metric
from lm_eval.scoring.functions import (
    METRIC_KEYS,
    best_score,
    call_metric,
    check_options,
    metric_name,
)
from lm_eval.scoring.metrics import CHOICE, TEXT, ChoiceOutcome, count_bytes, exact_match, keep

NO_GOLD = -100
"""The position of a gold that is not among the choices: never right."""
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


# Choices


def score_multiple_choice(
    lls: Sequence[float],
    is_greedy: Sequence[bool],
    choices: Sequence[str],
    gold: Any,
    *,
    unconditional_lls: Sequence[float] | None = None,
    tokens: Sequence[int | None] = (),
    metrics: Collection[str] = ("acc", "acc_norm"),
    strict: bool = False,
    where: str = "",
) -> dict[str, Any]:
    """One doc's scores from the log-likelihoods of its choices; the first of equal ones is picked.

    ``gold`` is an index, the text of a choice, or a list of either: then any of them is right. For
    tasks with several inputs and one continuation the choices are the inputs and ``gold`` is the
    text's index. ``tokens`` counts those of each continuation. ``strict`` makes a gold outside the
    choices an error; otherwise it is a wrong answer, with a warning.
    """
    right = gold_places(gold, choices, strict=strict, where=where)
    outcome = ChoiceOutcome(
        tuple(lls),
        tuple(is_greedy),
        tuple(choices),
        tuple(right) if isinstance(right, list) else (right,),
        tokens=tuple(tokens),
        alone=tuple(unconditional_lls or ()),
        divides_as_arrays=True,
    )
    return {name: _choice_value(name, outcome, right) for name in _OF_CHOICES if name in metrics}


_OF_CHOICES = (
    *("acc", "f1", "mcc", "acc_norm", "acc_bytes", "acc_tokens", "exact_match", "brier_score"),
    *("likelihood", "acc_mutual_info", "prob_mass"),
)
"""What can be made from scored choices, in the order of the harness's results."""


def _choice_value(name: str, outcome: ChoiceOutcome, right: Any) -> Any:
    """The doc's value as under a format, or the pair with the gold that the aggregation takes."""
    if name in ("f1", "mcc"):
        return right, outcome.picked()
    if name == "brier_score":
        return right, softmax(outcome.logprobs)
    if name == "likelihood":
        return right, outcome.logprobs
    value = METRICS.get(name).value(outcome)
    return int(value) if name == "exact_match" else value  # so it is in the harness's samples files


def score_picked(
    lls: Sequence[float], choices: Sequence[str], gold: Any, metrics: Sequence[Metric]
) -> dict[str, Any]:
    """One doc's scores by metrics that are functions: the texts of the gold and of the picked choice."""
    functions = [m for m in metrics if m.function is not None and not m.is_built_in]
    if not functions:
        return {}
    places = gold_places(gold, choices)
    golds = [
        choices[place] if place in range(-len(choices), len(choices)) else ""
        for place in (places if isinstance(places, list) else [places])
    ]
    picked = choices[ChoiceOutcome(tuple(lls), (), tuple(choices), ()).picked()]
    return {metric.name: best_score(metric, golds, picked) for metric in functions}


def gold_places(gold: Any, choices: Sequence[str], *, strict: bool = False, where: str = "") -> Any:
    """The place of the gold, or the list of places; ``NO_GOLD`` for what is not a choice.

    Only the index and the exact text of a choice count, as in EleutherAI's harness; formats also take
    letters, digits and texts with other blanks around them (``formats.gold.resolve_gold``).
    """
    places = [_place(answer, choices) for answer in (gold if isinstance(gold, list) else [gold])]
    if NO_GOLD in places or (strict and any(_is_before_first(place) for place in places)):
        start = f"{where}: " if where else ""
        message = f"{start}the target {gold!r} is not one of the {len(choices)} choices."
        if strict:
            raise GoldError(
                f"{message} Correct `doc_to_target`, or run with `--parity` to count such docs as "
                "wrong."
            )
        warnings.warn(f"{message} The doc counts as wrong.", LmEvalWarning, stacklevel=3)
    return places if isinstance(gold, list) else places[0]


def _is_before_first(place: Any) -> bool:
    """Whether a place is negative: the harness takes it as it is, and it is never picked."""
    return isinstance(place, int) and place < 0


def _place(gold: Any, choices: Sequence[str]) -> Any:
    if not isinstance(gold, str | int) or _is_before_first(gold):
        return gold
    if isinstance(gold, int):
        return int(gold) if gold < len(choices) else NO_GOLD
    return list(choices).index(gold) if gold in choices else NO_GOLD


def softmax(lls: Sequence[float]) -> tuple[float, ...]:
    """Log-likelihoods as shares that sum to 1."""
    top = max(lls)
    powers = [math.exp(ll - top) if ll != top else 1.0 for ll in lls]
    total = sum(powers)
    return tuple(power / total for power in powers)


# Log-likelihoods


def score_loglikelihood(
    ll: float, is_greedy: bool, *, metrics: Collection[str] = ("perplexity", "acc")
) -> dict[str, Any]:
    """``perplexity`` keeps the log-likelihood, ``acc`` is whether greedy decoding gives the target."""
    values = {"perplexity": ll, "acc": int(is_greedy)}
    return {name: value for name, value in values.items() if name in metrics}


def score_rolling(
    ll: float,
    target: str,
    *,
    metrics: Collection[str] = ("word_perplexity", "byte_perplexity", "bits_per_byte"),
) -> dict[str, tuple[float, int]]:
    """The log-likelihood of a whole text with its words or bytes."""
    n_bytes = count_bytes(target)
    values = {
        "word_perplexity": (ll, count_words(target)),
        "byte_perplexity": (ll, n_bytes),
        "bits_per_byte": (ll, n_bytes),
    }
    return {name: value for name, value in values.items() if name in metrics}


def count_words(text: str) -> int:
    """Pieces between runs of white space; blanks at the ends make an empty piece each."""
    return len(re.split(r"\s+", text))


# Generated text


def score_generation(
    response: Any,
    gold: Any,
    metrics: Sequence[Metric],
    *,
    choices: Sequence[Any] | None = None,
    multiple_target: bool = False,
    sources: dict[str, str] | None = None,
) -> dict[str, Any]:
    """One doc's scores from the filtered response.

    With ``choices`` the gold is the choice at that index; with ``multiple_target`` a list of which
    any may match. ``sources`` learns which metric a score came from if one gives several.
    """
    gold = _gold_text(response, gold, metrics, choices, multiple_target)
    values: dict[str, Any] = {}
    for metric in metrics:
        if multiple_target:
            gold = gold if isinstance(gold, list) else [gold]
            score = _any_target(metric, gold, response)
            if metric.name == "exact_match":
                # A slip of the harness that scores depend on: later metrics see a list.
                response = [response] * len(gold)
        else:
            score = call_metric(metric, gold, response)
        if isinstance(score, Mapping):
            values.update(score)
            for key in score:
                if sources is not None:
                    sources.setdefault(key, metric.name)
        else:
            values[metric.name] = score
    return values


def _gold_text(
    response: Any,
    gold: Any,
    metrics: Sequence[Metric],
    choices: Sequence[Any] | None,
    multiple_target: bool,
) -> Any:
    if choices is not None:
        return _chosen(gold, choices)
    if multiple_target:
        return list(gold)
    only_predicts = any(metric.name == "bypass" for metric in metrics)
    if type(gold) is type(response) or isinstance(response, list) or only_predicts:
        return gold
    return type(response)(gold)


def _chosen(gold: Any, choices: Sequence[Any]) -> Any:
    if isinstance(gold, list):
        return [_chosen(answer, choices) for answer in gold]
    if isinstance(gold, int) and -len(choices) <= gold < len(choices):
        return choices[gold]
    if gold in choices:
        return gold
    raise GoldError(
        f"The target {gold!r} is not one of the {len(choices)} choices. With `doc_to_choice`, "
        "`doc_to_target` gives the index of one."
    )


def _any_target(metric: Metric, golds: Sequence[Any], response: Any) -> float:
    function = resolved(metric.function)
    if metric.name == "exact_match":
        scores = function(references=golds, predictions=[response] * len(golds), **metric.options)
        return 1.0 if scores[metric.name] > 0.0 else 0.0
    if getattr(function, "takes_all_golds", False):  # one that the harness does not have
        return float(function(references=golds, predictions=[response], **metric.options))
    values = (call_metric(metric, gold, response) for gold in golds)
    scores = [value[metric.name] if isinstance(value, Mapping) else value for value in values]
    return 1.0 if any(scores) else 0.0
