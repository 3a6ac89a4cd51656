"""What one doc scores under the plain rules of the harness: a value for each metric.

In: log-likelihoods or a filtered response, and the gold. Out: metric name → number, or a pair that the
aggregation takes. Which metrics a task has, and how they are combined, is in ``metric_list``.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lm_eval.errors import GoldError, LmEvalWarning, ModelError
from lm_eval.scoring.metric_list import MetricSpec
from lm_eval.scoring.outcomes import NO_TOKEN_COUNTS

NO_GOLD = -100
"""Stands for a gold that is none of the choices: never right."""


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
    right = resolve_gold(gold, choices, strict=strict, where=where)
    golds = right if isinstance(right, list) else [right]
    picked = _argmax(lls)

    def is_right(place: int) -> float:
        return 1.0 if place in golds else 0.0

    values: dict[str, Any] = {}
    if "acc" in metrics:
        values["acc"] = is_right(picked)
    for name in ("f1", "mcc"):
        if name in metrics:
            values[name] = (right, picked)
    if "acc_norm" in metrics:
        values["acc_norm"] = is_right(_argmax(_per(lls, [len(text) for text in choices])))
    if "acc_bytes" in metrics:
        values["acc_bytes"] = is_right(_argmax(_per(lls, [count_bytes(t) for t in choices])))
    if "acc_tokens" in metrics:
        values["acc_tokens"] = is_right(_argmax(_per(lls, _counted(tokens, len(lls)))))
    if "exact_match" in metrics:
        values["exact_match"] = int(any(_at(is_greedy, place) for place in golds))
    if "brier_score" in metrics:
        values["brier_score"] = (right, softmax(lls))
    if "likelihood" in metrics:
        values["likelihood"] = (right, tuple(lls))
    if "acc_mutual_info" in metrics:
        if unconditional_lls is None:
            raise ValueError("acc_mutual_info needs the log-likelihoods without the context.")
        gains = [ll - alone for ll, alone in zip(lls, unconditional_lls, strict=True)]
        values["acc_mutual_info"] = is_right(_argmax(gains))
    return values


def resolve_gold(
    gold: Any, choices: Sequence[str], *, strict: bool = False, where: str = ""
) -> Any:
    """The place of the gold, or the list of places; ``NO_GOLD`` for what is no choice."""
    found = (
        [_place(one, choices) for one in gold] if isinstance(gold, list) else _place(gold, choices)
    )
    places = found if isinstance(found, list) else [found]
    if NO_GOLD in places or (strict and any(_is_before_first(place) for place in places)):
        start = f"{where}: " if where else ""
        message = f"{start}the target {gold!r} is none of the {len(choices)} choices."
        if strict:
            raise GoldError(
                f"{message} Correct `doc_to_target`, or run with `--parity` to count such docs as "
                "wrong."
            )
        warnings.warn(f"{message} The doc counts as wrong.", LmEvalWarning, stacklevel=3)
    return found


def _is_before_first(place: Any) -> bool:
    """Whether a place is negative: the harness takes it as it is, and it is never picked."""
    return isinstance(place, int) and place < 0


def _place(gold: Any, choices: Sequence[str]) -> Any:
    if isinstance(gold, str):
        return list(choices).index(gold) if gold in choices else NO_GOLD
    if isinstance(gold, int):
        return gold if gold < len(choices) else NO_GOLD
    return gold


def _per(lls: Sequence[float], lengths: Sequence[int]) -> list[float]:
    """Log-likelihood for each unit of length, with the infinities of arrays for an empty choice."""
    return [
        ll / length if length else ll * math.inf for ll, length in zip(lls, lengths, strict=True)
    ]


def _counted(tokens: Sequence[int | None], count: int) -> list[int]:
    known = [one for one in tokens if one is not None]
    if len(known) != count:
        raise ModelError(NO_TOKEN_COUNTS)
    return known


def _argmax(values: Sequence[float]) -> int:
    """The place of the first largest value, where NaN is larger than any number."""
    for place, value in enumerate(values):
        if math.isnan(value):
            return place
    return max(range(len(values)), key=values.__getitem__)


def _at(flags: Sequence[bool], place: Any) -> bool:
    return isinstance(place, int) and -len(flags) <= place < len(flags) and bool(flags[place])


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


def count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


# Generated text


def score_generation(
    response: Any,
    gold: Any,
    metrics: Sequence[MetricSpec],
    *,
    choices: Sequence[Any] | None = None,
    multiple_target: bool = False,
    sources: dict[str, str] | None = None,
) -> dict[str, Any]:
    """One doc's scores from what the filter left of the response.

    With ``choices`` the gold is the choice at that index; with ``multiple_target`` a list of which
    any may match. ``sources`` learns which metric a score came from where one gives several.
    """
    gold = _gold_text(response, gold, metrics, choices, multiple_target)
    values: dict[str, Any] = {}
    for spec in metrics:
        if multiple_target:
            gold = gold if isinstance(gold, list) else [gold]
            score = _any_target(spec, gold, response)
            if spec.name == "exact_match":
                # A slip of the harness that scores depend on: later metrics see a list.
                response = [response] * len(gold)
        else:
            score = _call(spec, gold, response)
        if isinstance(score, Mapping):
            values.update(score)
            for key in score:
                if sources is not None:
                    sources.setdefault(key, spec.name)
        else:
            values[spec.name] = score
    return values


def _gold_text(
    response: Any,
    gold: Any,
    metrics: Sequence[MetricSpec],
    choices: Sequence[Any] | None,
    multiple_target: bool,
) -> Any:
    if choices is not None:
        return _chosen(gold, choices)
    if multiple_target:
        return list(gold)
    only_predicts = any(spec.name == "bypass" for spec in metrics)
    if type(gold) is type(response) or isinstance(response, list) or only_predicts:
        return gold
    return type(response)(gold)


def _chosen(gold: Any, choices: Sequence[Any]) -> Any:
    if isinstance(gold, list):
        return [_chosen(one, choices) for one in gold]
    if isinstance(gold, int) and -len(choices) <= gold < len(choices):
        return choices[gold]
    if gold in choices:
        return gold
    raise GoldError(
        f"The target {gold!r} is none of the {len(choices)} choices. With `doc_to_choice`, "
        "`doc_to_target` gives the index of one."
    )


def _call(spec: MetricSpec, gold: Any, response: Any) -> Any:
    """Two ways to call a metric: by references and predictions, or with one pair to be kept."""
    function = spec.function
    try:
        return function(references=[gold], predictions=[response], **spec.options)
    except TypeError as error:
        try:
            return function([gold, response])
        except TypeError:
            raise error from None


def _any_target(spec: MetricSpec, golds: Sequence[Any], response: Any) -> float:
    if spec.name == "exact_match":
        scores = spec.function(
            references=golds, predictions=[response] * len(golds), **spec.options
        )
        return 1.0 if scores[spec.name] > 0.0 else 0.0
    found = (_call(spec, gold, response) for gold in golds)
    scores = [one[spec.name] if isinstance(one, Mapping) else one for one in found]
    return 1.0 if any(scores) else 0.0
