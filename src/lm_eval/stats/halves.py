"""Split halves: choose or rank on one half of the items, score on the other.

The best of many noisy scores looks better than it is, unless it is chosen on one half of the items and
scored on the other.
"""

from __future__ import annotations

from lm_eval.stats.numeric import Floats, Generator, np
from lm_eval.stats.resampling import CELLS_AT_ONCE, kinds

DEFAULT_SPLITS = 100
_TIE = 1e-12


def split_half_spread(units: Floats, sizes: Floats, splits: int, rng: Generator) -> float | None:
    """Best minus worst with both chosen on one half of the units and scored on the other.

    ``units`` has the sums of the scores, units (items or clusters) × formats, ``sizes`` the items in
    each. The mean over random splits, each used both ways; formats that tie share the choice. It
    is 0 on average where formats do not differ, and may be negative. None with fewer than two units.
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
    row = (np.arange(len(units)) < len(units) // 2).astype(float)
    step = max(1, CELLS_AT_ONCE // len(units))
    parts = [
        rng.permuted(np.tile(row, (min(step, splits - start), 1)), axis=1) @ sums
        for start in range(0, splits, step)
    ]
    first = np.concatenate(parts)
    second = sums.sum(axis=0) - first
    return first[:, :-1] / first[:, -1:], second[:, :-1] / second[:, -1:]


def tops(means: Floats, tie: float) -> Floats:
    """1 at the largest of each row; those within ``tie`` of it share the 1 evenly."""
    is_top = means >= means.max(axis=1, keepdims=True) - tie
    shares: Floats = is_top / is_top.sum(axis=1, keepdims=True)
    return shares


def _gaps(choose: Floats, report: Floats) -> Floats:
    """For each row, best minus worst of ``choose`` as they score in ``report``."""
    gaps: Floats = ((tops(choose, _TIE) - tops(-choose, _TIE)) * report).sum(axis=1)
    return gaps
