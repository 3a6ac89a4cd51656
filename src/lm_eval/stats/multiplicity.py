"""Several tests at once: p-values adjusted for their number, and one test over all formats.

Holm's method bounds the chance of any false finding, Benjamini and Hochberg's the share of false ones
among the findings, which suits large sweeps. Adjusted p-values are compared with the level as plain ones
are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from lm_eval.stats.clusters import is_binary
from lm_eval.stats.numeric import ArrayLike, Floats, np, special
from lm_eval.support.encode import AsDict


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted by Holm's method, in their order."""
    order = _ascending(p_values)
    steps = [(len(order) - above) * p_values[index] for above, index in enumerate(order)]
    return _in_place(order, accumulate(steps, max))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for the share of false findings, in their order.

    Valid for tests that are independent or positively dependent, as those that share a format mostly
    are.
    """
    return _step_up(p_values, 1.0)


def benjamini_yekutieli(p_values: Sequence[float]) -> list[float]:
    """As ``benjamini_hochberg``, but valid under any dependence, and stricter."""
    harmonic = math.fsum(1 / rank for rank in range(1, len(p_values) + 1))
    return _step_up(p_values, harmonic)


ADJUSTMENTS = {"holm": holm, "bh": benjamini_hochberg, "by": benjamini_yekutieli}
"""Name → method of adjusting p-values."""


@dataclass(frozen=True, slots=True)
class CochranQ(AsDict):
    """Do all formats score alike? ``test`` is ``Cochran Q``, else ``Friedman`` (not 0 or 1)."""

    statistic: float
    df: int
    p: float
    test: str


def cochran_q(scores: ArrayLike) -> CochranQ:
    """One test of all formats (formats × items), items as independent units.

    Cochran's Q for scores of 0 and 1, otherwise Friedman's test with correction for ties, of which Q
    is a special case. Where no item distinguishes the formats, p is 1.
    """
    table = np.asarray(scores, dtype=float)
    has_bits = is_binary(table)
    ranks = table if has_bits else _mean_ranks(table)
    within = ((ranks - ranks.mean(axis=0)) ** 2).sum()
    totals = ranks.sum(axis=1)
    between = ((totals - totals.mean()) ** 2).sum()
    df = len(table) - 1
    statistic = float(df * between / within) if within > 0 else 0.0
    p = float(special.chdtrc(df, statistic))
    return CochranQ(statistic, df, p, "Cochran Q" if has_bits else "Friedman")


def _mean_ranks(table: Floats) -> Floats:
    """Ranks of the formats within each item; equal scores share the mean of their ranks."""
    ranks = np.empty_like(table)
    for number, row in enumerate(table):
        ranks[number] = (table < row).sum(axis=0) + ((table == row).sum(axis=0) + 1) / 2
    return ranks


def _ascending(p_values: Sequence[float]) -> list[int]:
    return sorted(range(len(p_values)), key=lambda index: p_values[index])


def _step_up(p_values: Sequence[float], factor: float) -> list[float]:
    order = _ascending(p_values)[::-1]
    num = len(order)
    steps = [factor * num / (num - above) * p_values[index] for above, index in enumerate(order)]
    return _in_place(order, accumulate(steps, min))


def _in_place(order: Sequence[int], adjusted: Iterable[float]) -> list[float]:
    values = [0.0] * len(order)
    for index, value in zip(order, adjusted, strict=True):
        values[index] = min(1.0, value)
    return values
