"""All values of one metric → one number, as task files of the harness name it.

In: what a metric stored for each doc, a number or a pair. Out: a float. The functions have the names
under which helper modules import them; ``stderr`` knows the standard error of each.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from lm_eval.errors import DataError, MissingExtraError

Pairs = Sequence[tuple[Any, Any]]


def bypass_agg(arr: Sequence[Any]) -> int:  # noqa: ARG001
    """999, the score of a run that only predicts."""
    return 999


def mean(arr: Sequence[float]) -> float:
    return sum(arr) / len(arr)


def nanmean(arr: Sequence[float]) -> float:
    """The mean of what is a number; NaN if nothing is."""
    numbers = [value for value in arr if not math.isnan(value)]
    return mean(numbers) if numbers else math.nan


def median(arr: Sequence[float]) -> float:
    """The middle value; the upper one of two."""
    return sorted(arr)[len(arr) // 2]


def weighted_mean(items: Pairs) -> float:
    """The sum of the first parts over the sum of the second."""
    values, weights = zip(*items, strict=True)
    return float(sum(values) / sum(weights))


def perplexity(items: Sequence[float]) -> float:
    """exp(-mean) of log-likelihoods."""
    return math.exp(-mean(items))


def weighted_perplexity(items: Pairs) -> float:
    """exp(-sum/sum) of (log-likelihood, words or bytes)."""
    return math.exp(-weighted_mean(items))


def bits_per_byte(items: Pairs) -> float:
    return -weighted_mean(items) / math.log(2)


def brier_score(items: Sequence[tuple[int, Sequence[float]]]) -> float:
    """The mean over docs of the squared distance between probabilities and the gold choice."""
    return mean([_distance(gold, shares) for gold, shares in items])


def _distance(gold: Any, shares: Sequence[float]) -> float:
    if not isinstance(gold, int) or not -len(shares) <= gold < len(shares):
        raise DataError(
            f"brier_score needs one gold among the {len(shares)} choices of each doc; one doc has "
            f"{gold!r}. Give `doc_to_target` an index, or leave the metric out."
        )
    right = gold % len(shares)
    return sum((share - (place == right)) ** 2 for place, share in enumerate(shares))


# Pairs of (gold, prediction) as a table of counts


def f1_score(items: Pairs) -> float:
    """F1 of the class 1 in (gold, prediction) pairs of two classes."""
    return f1_of_counts(Counter((gold, predicted) for gold, predicted in items))


def f1_of_counts(counts: Mapping[tuple[Any, Any], int]) -> float:
    """2 TP / (2 TP + FP + FN); 0 if the class never occurs."""
    _check_binary({label for pair in counts for label in pair})
    hits = counts.get((1, 1), 0)
    seen = sum(n * ((gold == 1) + (predicted == 1)) for (gold, predicted), n in counts.items())
    return 2 * hits / seen if seen else 0.0


def _check_binary(labels: set[Any]) -> None:
    if len(labels) > 2 or (len(labels) == 2 and 1 not in labels):
        shown = ", ".join(sorted(map(repr, labels)))
        raise DataError(
            f"The aggregation f1 is for two classes called 0 and 1; here are {shown}. For more "
            "classes use `aggregation: !function utils.weighted_f1_score`, with "
            "`from lm_eval.utils import weighted_f1_score` in utils.py."
        )


def weighted_f1_score(items: Pairs) -> float:
    """The F1 of every class, weighted by how often it is the gold."""
    pairs = [(gold, predicted) for gold, predicted in items]
    golds = Counter(gold for gold, _ in pairs)
    predictions = Counter(predicted for _, predicted in pairs)
    hits = Counter(gold for gold, predicted in pairs if gold == predicted)
    scores = (n * 2 * hits[name] / (n + predictions[name]) for name, n in golds.items())
    return sum(scores) / len(pairs)


def matthews_corrcoef(items: Pairs) -> float:
    """Matthews' correlation of (gold, prediction) pairs, for any number of classes."""
    return mcc_of_counts(Counter((gold, predicted) for gold, predicted in items))


def mcc_of_counts(counts: Mapping[tuple[Any, Any], int]) -> float:
    """The covariance of golds and predictions over their spreads; 0 if one has no spread."""
    golds: Counter[Any] = Counter()
    predictions: Counter[Any] = Counter()
    for (gold, predicted), count in counts.items():
        golds[gold] += count
        predictions[predicted] += count
    n = sum(counts.values())
    right = sum(count for (gold, predicted), count in counts.items() if gold == predicted)
    together = right * n - sum(count * predictions[name] for name, count in golds.items())
    spread = (n * n - _squares(golds)) * (n * n - _squares(predictions))
    return together / math.sqrt(spread) if spread else 0.0


def _squares(counts: Mapping[Any, int]) -> int:
    return sum(count * count for count in counts.values())


# Corpus scores, by sacrebleu


def bleu(items: Pairs) -> float:
    """BLEU of (references, response) pairs with sacrebleu's defaults."""
    return corpus_score("bleu", items)


def chrf(items: Pairs) -> float:
    """chrF with sacrebleu's defaults."""
    return corpus_score("chrf", items)


def chrfpp(items: Pairs) -> float:
    """chrF++: chrF with words of up to two."""
    return corpus_score("chrf++", items)


def ter(items: Pairs) -> float:
    """Translation error rate with sacrebleu's defaults; lower is better."""
    return corpus_score("ter", items)


CORPUS_SCORES: Mapping[Callable[..., float], str] = {
    bleu: "bleu",
    chrf: "chrf",
    chrfpp: "chrf++",
    ter: "ter",
}


def corpus_score(kind: str, items: Pairs) -> float:
    references, responses = aligned(items)
    return float(sacrebleu_metric(kind).corpus_score(responses, references).score)


def sacrebleu_metric(kind: str) -> Any:
    """sacrebleu's own object for one of the corpus scores."""
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
        from sacrebleu.metrics.ter import TER
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"The metric {kind} is computed by sacrebleu, which is not installed.",
            install="pip install 'lm-eval-formats[metrics]'",
        ) from None
    if kind == "bleu":
        return BLEU()
    return TER() if kind == "ter" else CHRF(word_order=2 if kind == "chrf++" else 0)


def aligned(items: Pairs) -> tuple[list[tuple[str, ...]], list[str]]:
    """sacrebleu's shape: the first reference of all docs, the second, and so on; and the responses.

    The first doc decides whether references come as lists; docs with more references than others
    lose the surplus. A response may be a list of one.
    """
    references: list[Any] = [pair[0] for pair in items]
    responses: list[Any] = [pair[1] for pair in items]
    if not is_non_str_iterable(references[0]):
        references = [[reference] for reference in references]
    if is_non_str_iterable(responses[0]):
        if len(responses[0]) != 1:
            raise DataError(
                f"A corpus score takes one response for each doc, and there are {responses[0]!r}. "
                "End the filter with `take_first`."
            )
        responses = [response[0] for response in responses]
    return list(zip(*references, strict=False)), responses


def is_non_str_iterable(obj: Any) -> bool:
    return isinstance(obj, Iterable) and not isinstance(obj, str)


# Used by Python tasks


def acc_all(items: Pairs) -> float:
    """The share of questions whose answers are all right, of (prediction, doc) pairs.

    A question is ``doc["idx"]["paragraph"]`` with ``doc["idx"]["question"]``.
    """
    return mean(all_right(items, lambda idx: (idx["paragraph"], idx["question"])))


def all_right(items: Pairs, question: Callable[[Any], Any]) -> list[int]:
    """1 for each question whose predictions are all right, else 0."""
    right: dict[Any, bool] = {}
    for predicted, doc in items:
        key = question(doc["idx"])
        right[key] = right.get(key, True) and (doc["label"] == 1) == predicted
    return [int(value) for value in right.values()]


def metric_max_over_ground_truths(
    metric_fn: Callable[[Any, Any], Any], prediction: Any, ground_truths: Iterable[Any]
) -> Any:
    """The best score of a prediction against any of the right answers."""
    return max(metric_fn(prediction, truth) for truth in ground_truths)
