"""Several tests at once: p-values adjusted for their number, and one test over all formats.

Holm's keep the chance of any false finding at the level; Benjamini and Hochberg's keep the share of
false ones among the findings, which suits large sweeps. Adjusted values compare with the level as plain
p-values do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from lm_eval.stats.matrices import is_binary
from lm_eval.stats.numeric import ArrayLike, Floats, np, special


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted by Holm for being several, in their order."""
    order = _ascending(p_values)
    steps = [(len(order) - above) * p_values[place] for above, place in enumerate(order)]
    return _in_place(order, accumulate(steps, max))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted for the share of false findings, in their order.

    Holds for tests that are independent or go together, as those that share a format mostly do.
    """
    return _step_up(p_values, 1.0)


def benjamini_yekutieli(p_values: Sequence[float]) -> list[float]:
    """As ``benjamini_hochberg``, but for tests that depend on each other in any way; stricter."""
    harmonic = math.fsum(1 / place for place in range(1, len(p_values) + 1))
    return _step_up(p_values, harmonic)


@dataclass(frozen=True, slots=True)
class CochranQ:
    """Do all formats score alike? ``test`` is ``Cochran Q``, else ``Friedman`` (not 0 or 1)."""

    statistic: float
    df: int
    p: float
    test: str

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def cochran_q(scores: ArrayLike) -> CochranQ:
    """One test of all formats (formats × items), items as independent units.

    Cochran's Q for scores of 0 and 1, Friedman's test with its correction for ties for others; of the
    former the latter is the general case. Where no item tells formats apart, p is 1.
    """
    table = np.asarray(scores, dtype=float)
    if table.ndim != 2 or table.shape[0] < 2 or not table.shape[1]:
        raise ValueError(f"Two formats and one item are the least; got a table of {table.shape}.")
    if not np.isfinite(table).all():
        raise ValueError("Scores must be finite numbers; some are not.")
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
    for place, row in enumerate(table):
        ranks[place] = (table < row).sum(axis=0) + ((table == row).sum(axis=0) + 1) / 2
    return ranks


def _ascending(p_values: Sequence[float]) -> list[int]:
    if not all(0.0 <= p <= 1.0 for p in p_values):
        raise ValueError(f"p-values lie between 0 and 1; got {list(p_values)}.")
    return sorted(range(len(p_values)), key=lambda place: p_values[place])


def _step_up(p_values: Sequence[float], factor: float) -> list[float]:
    order = _ascending(p_values)[::-1]
    num = len(order)
    steps = [factor * num / (num - above) * p_values[place] for above, place in enumerate(order)]
    return _in_place(order, accumulate(steps, min))


def _in_place(order: Sequence[int], adjusted: Iterable[float]) -> list[float]:
    found = [0.0] * len(order)
    for place, value in zip(order, adjusted, strict=True):
        found[place] = min(1.0, value)
    return found
