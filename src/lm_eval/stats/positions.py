"""Scores of one question in several orders of its choices → scores of the choices without position bias.

In: for each order, the choice at each position, and the log-probabilities of the positions.
Out: debiased log-probabilities of the choices, and the prior of the positions. If a model's
probability is a prior of the position times its preference for the choice, both are recovered exactly,
provided that every choice is at every position equally often.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

Order = tuple[int, ...]
"""The choice at each position."""
TIE = 1e-9
"""Log-probabilities that differ by less count as equal: sums in another order round differently."""


def log_normalised(logprobs: Sequence[float]) -> list[float]:
    """Log-probabilities whose exponentials sum to 1. Where all are −∞, none is preferred."""
    top = max(logprobs)
    if top == -math.inf:
        return [-math.log(len(logprobs))] * len(logprobs)
    total = top + math.log(math.fsum(math.exp(logprob - top) for logprob in logprobs))
    return [logprob - total for logprob in logprobs]


def probabilities(logprobs: Sequence[float]) -> tuple[float, ...]:
    """Log-probabilities as shares that sum to 1."""
    return tuple(math.exp(logprob) for logprob in log_normalised(logprobs))


def position_prior(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The prior of each position: the softmax of its mean log-probability over orders."""
    return probabilities(_means([log_normalised(row) for row in rows]))


def content(rows: Sequence[tuple[Order, Sequence[float]]]) -> tuple[float, ...]:
    """The debiased probability of each choice: the softmax of its mean log-probability over orders."""
    return probabilities(_means([_by_choice(order, log_normalised(row)) for order, row in rows]))


def mean_prior(priors: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The plain mean of several priors."""
    return tuple(_means(priors))


def without_prior(logprobs: Sequence[float], prior: Sequence[float]) -> tuple[float, ...]:
    """One order's probabilities divided by the prior of the positions, normalised."""
    shifted = [
        log - (math.log(share) if share else -math.inf)
        for log, share in zip(log_normalised(logprobs), prior, strict=True)
    ]
    # A position that was never likely says nothing: neither −∞ − −∞ nor an infinite gain.
    return probabilities([logprob if math.isfinite(logprob) else -math.inf for logprob in shifted])


def best(probabilities: Sequence[float]) -> tuple[int, ...]:
    """The indices of the highest; several if they tie."""
    top = max(probabilities)
    least = top * math.exp(-TIE)
    return tuple(index for index, share in enumerate(probabilities) if share >= least)


def most_voted(votes: Iterable[int]) -> tuple[int, ...]:
    """The choices with the most votes, in order; none without votes."""
    counts = Counter(votes)
    top = max(counts.values(), default=0)
    return tuple(sorted(choice for choice, count in counts.items() if count == top))


def recall_spread(recalls: Iterable[float | None]) -> float | None:
    """RStd: the population's standard deviation of recalls by position, in points.

    A position without gold answers has a recall of None. With fewer than two known recalls, the result
    is None.
    """
    known = [100 * recall for recall in recalls if recall is not None]
    if len(known) < 2:
        return None
    mean = math.fsum(known) / len(known)
    return math.sqrt(math.fsum((points - mean) ** 2 for points in known) / len(known))


def _by_choice(order: Order, row: Sequence[float]) -> list[float]:
    by_choice = [0.0] * len(order)
    for choice, logprob in zip(order, row, strict=True):
        by_choice[choice] = logprob
    return by_choice


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [_mean(column) for column in zip(*rows, strict=True)]


def _mean(values: Sequence[float]) -> float:
    """The mean, where −∞ among the values makes it −∞."""
    return -math.inf if -math.inf in values else math.fsum(values) / len(values)
