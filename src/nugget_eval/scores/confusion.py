"""Statistics of agreement as functions of sums, for one sample or for thousands of resamples at once.

In: arrays whose first axis are the draws. Out: a number for each draw, NaN where it is undefined. Labels
are in the order ``not_support``, ``partial_support``, ``support``; gold is in the rows.
"""

from __future__ import annotations

from collections.abc import Callable

from lm_eval.stats.numeric import Floats
from nugget_eval.reading import ORDER
from nugget_eval.scores.bootstrap import np
from nugget_eval.scores.measures import GAIN

SIZE = len(ORDER)


def tables(sums: Floats) -> Floats:
    """Draws × 9 sums as draws × 3 × 3."""
    return sums.reshape(len(sums), SIZE, SIZE)


def accuracy(sums: Floats) -> Floats:
    """The share of items with the same label."""
    found = tables(sums)
    shares: Floats = _diagonal(found).sum(axis=1) / found.sum(axis=(1, 2))
    return shares


def kappa(power: int) -> Callable[[Floats], Floats]:
    """Cohen's kappa; disagreements weigh 1 (``power`` 0), or their distance (1) or its square (2)."""
    distance = np.abs(np.arange(SIZE)[:, None] - np.arange(SIZE)).astype(float)
    weights = np.where(distance > 0, distance**power, 0.0)

    def statistic(sums: Floats) -> Floats:
        found = tables(sums)
        expected = found.sum(axis=2)[:, :, None] * found.sum(axis=1)[:, None, :]
        seen = (found * weights).sum(axis=(1, 2)) * found.sum(axis=(1, 2))
        kappas: Floats = 1.0 - seen / (expected * weights).sum(axis=(1, 2))
        return kappas

    return statistic


def precision(label: int) -> Callable[[Floats], Floats]:
    """Of the items that the judge gave the label, the share that has it in gold."""
    return lambda sums: tables(sums)[:, label, label] / tables(sums)[:, :, label].sum(axis=1)


def recall(label: int) -> Callable[[Floats], Floats]:
    """Of the items that have the label in gold, the share that the judge gave it."""
    return lambda sums: tables(sums)[:, label, label] / tables(sums)[:, label].sum(axis=1)


def f1(label: int) -> Callable[[Floats], Floats]:
    """The harmonic mean of precision and recall; 0 where the label occurs and is never right."""
    return lambda sums: _f1(tables(sums))[:, label]


def macro_f1(sums: Floats) -> Floats:
    """The plain mean of the F1 of every label that occurs on either side."""
    found = _f1(tables(sums))
    occurs = ~np.isnan(found)
    means: Floats = np.where(occurs, found, 0.0).sum(axis=1) / occurs.sum(axis=1)
    return means


def bias(sums: Floats) -> Floats:
    """The mean of judge minus gold with labels as 0, 0.5 and 1: above 0, the judge is lenient."""
    return _mean_of(sums, _gains()[None, :] - _gains()[:, None])


def mean_absolute_error(sums: Floats) -> Floats:
    """The mean distance of judge and gold with labels as 0, 0.5 and 1."""
    return _mean_of(sums, np.abs(_gains()[None, :] - _gains()[:, None]))


def coincidences(counts: Floats) -> Floats:
    """Items × 3 counts of labels → items × 9 pairs of labels within an item; 0 for fewer than two."""
    num_raters = counts.sum(axis=1)
    pairs = counts[:, :, None] * (counts[:, None, :] - np.eye(SIZE))
    weight: Floats = np.where(num_raters > 1, 1.0 / np.maximum(num_raters - 1, 1), 0.0)
    return (pairs * weight[:, None, None]).reshape(len(counts), SIZE * SIZE)


def krippendorff(*, is_ordinal: bool) -> Callable[[Floats], Floats]:
    """Krippendorff's alpha from sums of coincidences, for nominal or ordinal labels."""

    def statistic(sums: Floats) -> Floats:
        found = tables(sums)
        each = found.sum(axis=2)
        total = each.sum(axis=1)
        if is_ordinal:
            # The labels between two, and half of each end: the distance of their middle ranks.
            middle = np.cumsum(each, axis=1) - each / 2
            distance = (middle[:, :, None] - middle[:, None, :]) ** 2
        else:
            distance = 1.0 - np.eye(SIZE)[None]
        seen = (found * distance).sum(axis=(1, 2))
        expected = (each[:, :, None] * each[:, None, :] * distance).sum(axis=(1, 2))
        alphas: Floats = 1.0 - (total - 1.0) * seen / expected
        return alphas

    return statistic


def fleiss_sums(counts: Floats, num_raters: int) -> Floats:
    """Items × 3 counts → items × 5 sums for ``fleiss``: agreement, the counts, one."""
    agreement = (counts * (counts - 1)).sum(axis=1) / (num_raters * (num_raters - 1))
    return np.column_stack([agreement, counts, np.ones(len(counts))])


def fleiss(sums: Floats) -> Floats:
    """Fleiss' kappa from ``fleiss_sums``."""
    seen = sums[:, 0] / sums[:, -1]
    shares = sums[:, 1:-1] / sums[:, 1:-1].sum(axis=1, keepdims=True)
    expected = (shares**2).sum(axis=1)
    is_one_label = (shares > 0).sum(axis=1) == 1  # rounding must not turn 0/0 into a number
    return np.where(is_one_label, np.nan, (seen - expected) / (1.0 - expected))


def _diagonal(found: Floats) -> Floats:
    return np.diagonal(found, axis1=1, axis2=2)


def _f1(found: Floats) -> Floats:
    scores: Floats = 2.0 * _diagonal(found) / (found.sum(axis=1) + found.sum(axis=2))
    return scores


def _gains() -> Floats:
    return np.array([GAIN[label] for label in ORDER])


def _mean_of(sums: Floats, values: Floats) -> Floats:
    means: Floats = (tables(sums) * values).sum(axis=(1, 2)) / sums.sum(axis=1)
    return means
