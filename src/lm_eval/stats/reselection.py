"""The spread of formats that were chosen, measured on items that did not choose them.

The best of many noisy scores looks better than it is. So the formats are chosen on some items and
compared on others.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lm_eval.stats.clusters import mean_of_sums
from lm_eval.stats.intervals import DEFAULT_SEED, Estimate
from lm_eval.stats.matrices import score_matrix, unit_sums
from lm_eval.stats.measured import bare
from lm_eval.stats.numeric import Array, numpy, special
from lm_eval.stats.resampling import CELLS_AT_ONCE

DEFAULT_SPLITS = 100


@dataclass(frozen=True, slots=True)
class Reselected:
    """The formats chosen as best and worst, and how far apart they are on other items."""

    best: int
    worst: int
    chosen: float
    """Their difference on the items that chose them: too large."""
    reported: Estimate
    """Their paired difference on the other items; it may be negative."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SplitHalves:
    """The spread with choice and report on different halves of the items, over many splits."""

    value: float
    """The mean difference on the half that did not choose; it may be negative."""
    chosen: float
    """The mean difference on the half that chose: what picking the extremes seems to give."""
    splits: int

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def reselected(
    scores_choose: Array, scores_report: Array, *, clusters: Sequence[Hashable] | None = None
) -> Reselected:
    """Choose best and worst on the one table of formats × items, compare them on the other.

    ``clusters`` names the cluster of each item to report on.
    """
    np = numpy()
    choose, report = score_matrix(scores_choose), score_matrix(scores_report)
    if len(choose) != len(report) or len(choose) < 2:
        raise ValueError(
            f"Choosing and reporting need the same two formats or more; got {len(choose)} and "
            f"{len(report)}."
        )
    means = choose.mean(axis=1)
    best = int(means.argmax())
    # Where all tie, the two chosen still are two.
    others = np.where(np.arange(len(means)) == best, np.inf, means)
    worst = int(others.argmin())
    gaps = report[best] - report[worst]
    return Reselected(best, worst, float(means[best] - means[worst]), _difference(gaps, clusters))


def split_half_spread(
    scores: Array,
    *,
    clusters: Sequence[Hashable] | None = None,
    splits: int = DEFAULT_SPLITS,
    seed: int = DEFAULT_SEED,
) -> SplitHalves:
    """The spread of ``scores`` (formats × items) with best and worst chosen on the other half.

    Each random split is used both ways round. Formats that tie share the choice. Clusters stay whole.
    """
    np = numpy()
    units, sizes = unit_sums(score_matrix(scores), clusters)
    if units.shape[1] < 2 or len(units) < 2:
        raise ValueError(
            "Split halves need two formats and two items (or clusters) or more; got "
            f"{units.shape[1]} and {len(units)}."
        )
    halves = half_means(units, sizes, splits, np.random.default_rng([seed, 2]))
    pairs = [_gaps(halves[0], halves[1]), _gaps(halves[1], halves[0])]
    chosen, value = (float(np.mean([pair[k] for pair in pairs])) for k in (0, 1))
    return SplitHalves(value, chosen, splits)


def half_means(units: Array, sizes: Array, splits: int, rng: Any) -> tuple[Array, Array]:
    """Each column's mean on the two halves of random splits of the units: splits × columns, twice."""
    np = numpy()
    sums = np.column_stack([units, sizes])
    row = (np.arange(len(units)) < len(units) // 2).astype(float)
    step = max(1, CELLS_AT_ONCE // len(units))
    parts = [
        rng.permuted(np.tile(row, (min(step, splits - start), 1)), axis=1) @ sums
        for start in range(0, splits, step)
    ]
    first = np.concatenate(parts)
    second = sums.sum(axis=0) - first
    return first[:, :-1] / first[:, -1:], second[:, :-1] / second[:, -1:]


def _gaps(choose: Array, report: Array) -> tuple[Array, Array]:
    """Best minus worst of each row, on the half that chose and on the other."""
    top = _weights(choose)
    bottom = _weights(-choose)
    return ((top - bottom) * choose).sum(axis=1), ((top - bottom) * report).sum(axis=1)


def _weights(means: Array) -> Array:
    is_top = means >= means.max(axis=1, keepdims=True) - 1e-12
    return is_top / is_top.sum(axis=1, keepdims=True)


def _difference(gaps: Array, clusters: Sequence[Hashable] | None) -> Estimate:
    """The mean of paired differences with a t interval."""
    n, mean = len(gaps), float(gaps.mean())
    if clusters is not None:
        sums, sizes = unit_sums(gaps[None, :], clusters)
        return mean_of_sums(sums[:, 0], sizes, 0.95, None)
    if n == 1:
        return bare(mean, n)
    stderr = float(gaps.std(ddof=1)) / math.sqrt(n)
    if stderr == 0:
        return bare(mean, n, 0.0)
    half = float(special().stdtrit(n - 1, 0.975)) * stderr
    return Estimate(mean, stderr, mean - half, mean + half, n, "t")
