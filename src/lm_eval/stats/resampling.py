"""Sums over resampled items for many resamples at once, intervals from them, and splits into halves.

A resample is a row of weights (how often each item was drawn), so one matrix product gives the sums of
many resamples. What is drawn does not depend on the order of the items, except in ``drawn_sums``, where
two tables with the same number of rows get the same draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lm_eval.stats.estimates import SMALL_N, Estimate, bare, resampled_tail
from lm_eval.stats.numeric import Floats, Generator, Ints, np

CELLS_AT_ONCE = 2_000_000
"""The number of weights held at a time: 16 MB."""
UNTHREADED = 2**18
"""OpenBLAS uses one thread for a matrix product of up to this many multiplications."""
SPLIT_CELLS = 200_000
"""Cells of splits in halves held at a time, few enough to stay in the cache."""
FEW_KINDS = 0.1
"""Up to this share of distinct rows, the count of each is drawn instead of single rows."""
_LARGEST_CODE = 2**62


def resampled_sums(rows: Floats, resamples: int, rng: Generator) -> Floats:
    """The column sums of ``rows`` in every resample of as many rows: resamples × columns."""
    distinct, counts = kinds(rows)
    if len(distinct) <= FEW_KINDS * len(rows):
        return kind_sums(distinct, counts, resamples, rng)
    return drawn_sums(np.repeat(distinct, counts, axis=0), resamples, rng)


def kinds(rows: Floats) -> tuple[Floats, Ints]:
    """The different rows, in order, and how often each occurs.

    Column by column, since ``numpy.unique`` of whole rows takes 20 s for a million.
    """
    codes: Ints = np.zeros(len(rows), dtype=np.int64)
    bound = 1  # codes are below it
    for column in rows.T:
        places, number = _ranks(column)
        if bound * number > _LARGEST_CODE:
            values, codes = np.unique(codes, return_inverse=True)
            bound = len(values)
        codes = codes * number + places
        bound *= number
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    return rows[first], counts


def _ranks(column: Floats) -> tuple[Ints, int]:
    """The rank of each value among the different ones, and how many these are; quick for two."""
    if len(column):
        is_high = column == column.max()
        if (is_high | (column == column.min())).all():
            return is_high.astype(np.int64), 2
    values, places = np.unique(column, return_inverse=True)
    return places, max(1, len(values))


def kind_sums(distinct: Floats, counts: Ints, resamples: int, rng: Generator) -> Floats:
    """Resampled sums where ``counts`` says how often each of the ``distinct`` rows occurs."""
    total = int(counts.sum())
    sums = np.zeros((max(0, resamples), distinct.shape[1]))
    step = max(1, CELLS_AT_ONCE // len(distinct))
    for start in range(0, len(sums), step):
        part = sums[start : start + step]
        part[:] = rng.multinomial(total, counts / total, size=len(part)) @ distinct
    return sums


def drawn_sums(rows: Floats, resamples: int, rng: Generator) -> Floats:
    """Resampled sums by drawing row by row; the same seed and number of rows draw the same rows."""
    num_rows = len(rows)
    step = max(1, CELLS_AT_ONCE // num_rows)
    sums = np.zeros((max(0, resamples), rows.shape[1]))
    for start in range(0, len(sums), step):
        part = sums[start : start + step]
        drawn = rng.integers(0, num_rows, (len(part), num_rows))
        drawn += np.arange(len(part))[:, None] * num_rows
        weights = np.bincount(drawn.ravel(), minlength=len(part) * num_rows)
        part[:] = weights.reshape(-1, num_rows) @ rows
    return sums


DEFINED_SHARE = 0.9
"""If the statistic is defined in less than this share of the resamples, it gets no interval."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A statistic with its interval, or the reason why it has no value or no interval."""

    estimate: Estimate | None
    reason: str = ""

    @property
    def value(self) -> float | None:
        """The statistic, or None."""
        return None if self.estimate is None else self.estimate.value

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        shown = {"value": None, "low": None, "high": None, "stderr": None, "n": 0, "method": "none"}
        if self.estimate is not None:
            shown = {name: getattr(self.estimate, name) for name in shown}
        return {**shown, "reason": self.reason} if self.reason else shown


def from_resamples(
    value: float,
    draws: Floats,
    *,
    n: int,
    num_units: int,
    of: str = "items",
    confidence: float = 0.95,
) -> Measured:
    """``value`` with the percentile interval of ``draws``; draws that are NaN are ignored.

    ``of`` names what was resampled and ``num_units`` is its number; ``n`` is the ``n`` of the
    estimate. The fewer units there are, the smaller the tails that are cut off (``resampled_tail``).
    """
    if len(draws) < 2 or num_units < 2:
        return Measured(bare(value, n), f"no interval: it takes two {of} and two draws")
    defined = draws[np.isfinite(draws)]
    if len(defined) < max(2, DEFINED_SHARE * len(draws)):
        return Measured(bare(value, n), "undefined in too many resamples for an interval")
    if np.ptp(defined) < 1e-12:
        return Measured(bare(value, n, 0.0), f"all {of} agree: no spread to resample")
    tail = resampled_tail(confidence, num_units)
    low, high = (float(end) for end in np.quantile(defined, [tail, 1.0 - tail]))
    stderr = float(np.std(defined, ddof=1))
    return Measured(Estimate(value, stderr, low, high, n, resampling_method(of, num_units)))


def resampling_method(of: str, num_units: int) -> str:
    """The method of an estimate: ``bootstrap over topics, small n``."""
    return f"bootstrap over {of}{', small n' if num_units < SMALL_N else ''}"


DEFAULT_SPLITS = 100
_TIE = 1e-12


def split_half_spread(units: Floats, sizes: Floats, splits: int, rng: Generator) -> float | None:
    """Best minus worst with both chosen on one half of the units and scored on the other.

    ``units`` has the sums of the scores, units (items or clusters) × formats, ``sizes`` the items in
    each. The mean over random splits, each used both ways; formats that tie share the choice. It
    is 0 on average if formats do not differ, and may be negative. None with fewer than two units.
    """
    if len(units) < 2:
        return None
    first, second = half_means(units, sizes, splits, rng)
    return float((_gaps(first, second).mean() + _gaps(second, first).mean()) / 2)


def half_means(units: Floats, sizes: Floats, splits: int, rng: Generator) -> tuple[Floats, Floats]:
    """Each column's mean on the two halves of random splits of the units: splits × columns, twice.

    What is drawn does not depend on the order of the units.
    """
    distinct, counts = kinds(np.column_stack([units, sizes]))
    sums = np.repeat(distinct, counts, axis=0)
    halves = (np.arange(len(units)) < len(units) // 2).astype(float)
    first = np.empty((splits, sums.shape[1]))
    step = max(1, SPLIT_CELLS // len(units))
    for start in range(0, splits, step):
        part = first[start : start + step]
        chosen = np.tile(halves, (len(part), 1))
        rng.permuted(chosen, axis=1, out=chosen)
        part[:] = _product(chosen, sums)
    second = sums.sum(axis=0) - first
    return first[:, :-1] / first[:, -1:], second[:, :-1] / second[:, -1:]


def _product(left: Floats, right: Floats) -> Floats:
    """``left @ right`` in parts too small for BLAS to start threads: these cost more than they save."""
    product = np.zeros((len(left), right.shape[1]))
    step = max(1, UNTHREADED // product.size)
    for start in range(0, len(right), step):
        product += left[:, start : start + step] @ right[start : start + step]
    return product


def tops(means: Floats, tie: float) -> Floats:
    """1 at the largest of each row; those within ``tie`` of it share the 1 evenly."""
    is_top = means >= means.max(axis=1, keepdims=True) - tie
    shares: Floats = is_top / is_top.sum(axis=1, keepdims=True)
    return shares


def _gaps(choose: Floats, report: Floats) -> Floats:
    """For each row, best minus worst of ``choose`` as they score in ``report``."""
    gaps: Floats = ((tops(choose, _TIE) - tops(-choose, _TIE)) * report).sum(axis=1)
    return gaps
