"""The scores of one doc under the plain rules of the harness: a value for each metric.

In: log-likelihoods or a filtered response, and the gold. Out: metric name → number, or a pair that the
aggregation takes. Which metrics a task has, and how they are combined, is in ``metric_list``.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lm_eval.config.functions import resolved
from lm_eval.errors import GoldError, LmEvalWarning
from lm_eval.registry import METRICS, Metric
from lm_eval.scoring.functions import best_score, call_metric
from lm_eval.scoring.metrics import ChoiceOutcome, count_bytes

NO_GOLD = -100
"""The position of a gold that is not among the choices: never right."""


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
