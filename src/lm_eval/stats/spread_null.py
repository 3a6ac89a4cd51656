"""The noise floor of a spread: the spread of formats that do not differ.

In: for each unit (an item, or a cluster added up) its score under each format. If the format makes no
difference, the scores of a unit can be permuted over the formats. Out: a ``NoiseFloor``,
the distribution of the largest minus the smallest total over all these orders.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lm_eval.stats.matrices import is_binary
from lm_eval.stats.numeric import Floats, Generator, Ints, special

MOST_CELLS = 100_000_000
"""Permutations × formats × units beyond which the normal limit replaces permutations."""
FEWEST_PERMUTATIONS = 999
ENOUGH_VARIANCE = 50.0
"""The normal limit needs this many times the square of the largest single deviation as variance."""
CELLS_AT_ONCE = 1_000_000
TIE = 1e-9


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The spread to expect without any effect of the format, in the units of the totals."""

    mean: float
    point_95: float
    """At least 95 % of the orders show no more than this."""
    p: float
    method: str
    """``exact binomial``, ``permutations``, ``normal limit``, or ``none``: nothing differs."""
    permutations: int = 0
    """How many were drawn; 0 where none were."""


def noise_floor(
    units: Floats, permutations: int, rng: Generator, *, most_cells: int = MOST_CELLS
) -> NoiseFloor:
    """The noise floor of ``units`` × formats by the best way that is affordable.

    Two formats whose units differ by one and the same amount (right or wrong) have an exact answer,
    McNemar's binomial. Otherwise permutations; beyond 10^8 permuted cells the normal limit, if there
    are enough units for one. Units whose scores are all equal have nothing to permute.
    """
    observed = float(np.ptp(units.sum(axis=0)))
    varying = _canonical(units)
    if not len(varying):
        return NoiseFloor(0.0, 0.0, 1.0, "none")
    if units.shape[1] == 2 and (step := _common_step(varying)):
        return exact_binomial(len(varying), step, observed)
    if permutations * varying.size > most_cells:
        if _is_nearly_normal(varying):
            return normal_limit(varying, observed)
        if not is_binary(varying):
            permutations = max(FEWEST_PERMUTATIONS, most_cells // varying.size)
    return permuted(varying, observed, permutations, rng)


def exact_binomial(num_units: int, step: float, observed: float) -> NoiseFloor:
    """Two formats that differ by ``step`` in ``num_units`` units: either way with even chances."""
    wins = np.arange(num_units + 1)
    log_ways = (
        math.lgamma(num_units + 1)
        - special.gammaln(wins + 1)
        - special.gammaln(num_units - wins + 1)
    )
    chances = np.exp(log_ways - num_units * math.log(2))
    gaps = np.abs(2 * wins - num_units)
    order = np.argsort(gaps, kind="stable")
    index = np.searchsorted(np.cumsum(chances[order]), 0.95 - TIE)
    losses = (num_units - round(observed / step)) // 2
    p = min(1.0, 2.0 * float(special.bdtr(losses, num_units, 0.5)))
    mean, point = float(chances @ gaps), float(gaps[order[index]])
    return NoiseFloor(mean * step, point * step, p, "exact binomial")


def permuted(units: Floats, observed: float, permutations: int, rng: Generator) -> NoiseFloor:
    """The noise floor from ``permutations`` random orders; p counts the observed one as well."""
    draw = _subset_totals if is_binary(units) else _shuffled_totals
    ranges = np.concatenate(
        [np.ptp(totals, axis=1) for totals in draw(units, permutations, rng)], dtype=float
    )
    tie = TIE * max(1.0, float(np.abs(units).sum(axis=0).max()))
    hits = int((ranges >= observed - tie).sum())
    return NoiseFloor(
        float(ranges.mean()),
        float(np.quantile(ranges, 0.95, method="inverted_cdf")),
        (1 + hits) / (permutations + 1),
        "permutations",
        permutations,
    )


def normal_limit(units: Floats, observed: float) -> NoiseFloor:
    """The noise floor if the totals were normal, with the covariance that permuting gives them.

    Within a unit every two formats have the same covariance. Then the range of the totals is that of
    independent normal variables, whose variance is the sum over units of Σ(score − mean)²/(F − 1).
    """
    num_formats = units.shape[1]
    deviations = units - units.mean(axis=1, keepdims=True)
    scale = math.sqrt(float((deviations**2).sum()) / (num_formats - 1))
    # Totals of whole numbers are discrete: half a step is the continuity correction.
    gap = max(0.0, observed - _whole_step(units) / 2)
    mean, point = normal_range(num_formats)
    p = range_tail(gap / scale, num_formats)
    return NoiseFloor(mean * scale, point * scale, p, "normal limit")


def normal_range(size: int) -> tuple[float, float]:
    """The mean and the 95 % point of the range of ``size`` independent standard normal variables."""
    x = np.linspace(-10.0, 10.0, 2001)
    below = special.ndtr(x)
    mean = float((1.0 - below**size - (1.0 - below) ** size).sum()) * (x[1] - x[0])
    low, high = 0.0, 20.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (middle, high) if range_tail(middle, size) > 0.05 else (low, middle)
    return mean, high


def range_tail(gap: float, size: int) -> float:
    """The chance that ``size`` independent standard normal variables range over ``gap`` or more."""
    x = np.linspace(-10.0, 10.0 + gap, 2001)  # the largest of them
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    inside = special.ndtr(x) - special.ndtr(x - gap)
    tail = 1.0 - size * float((density * inside ** (size - 1)).sum()) * (x[1] - x[0])
    # The sum over all pairs is an upper bound, and nearly exact where the chance is small.
    bound = size * (size - 1) * float(special.ndtr(-gap / math.sqrt(2)))
    return min(1.0, max(0.0, tail) if tail > 1e-10 else bound)


def _canonical(units: Floats) -> Floats:
    """The units whose scores differ, in an order that neither items nor formats can change."""
    ordered = np.sort(units, axis=1)
    ordered = ordered[ordered[:, -1] > ordered[:, 0]]
    canonical: Floats = ordered[np.lexsort(ordered.T)]
    return canonical


def _common_step(units: Floats) -> float:
    """The difference of each unit's two scores, if it is the same for all; else 0."""
    gaps = units[:, 1] - units[:, 0]
    return float(gaps[0]) if float(np.ptp(gaps)) <= TIE * float(gaps[0]) else 0.0


def _whole_step(units: Floats) -> float:
    """The step between possible totals if all scores are whole numbers; else 0."""
    if not bool((units == units.round()).all()) or float(np.abs(units).max()) > 2**50:
        return 0.0
    return float(np.gcd.reduce((units - units[:, :1]).astype(np.int64), axis=None))


def _is_nearly_normal(units: Floats) -> bool:
    """Whether no unit carries much of the variance, so that the totals are close to normal."""
    deviations = (units - units.mean(axis=1, keepdims=True)) ** 2
    variance = float(deviations.sum()) / (units.shape[1] - 1)
    return bool(variance >= ENOUGH_VARIANCE * float(deviations.max()))


def _shuffled_totals(units: Floats, permutations: int, rng: Generator) -> Iterator[Floats]:
    """The totals of the formats over units in random orders, block by block."""
    num_units, num_formats = units.shape
    step = max(1, CELLS_AT_ONCE // units.size)
    for start in range(0, permutations, step):
        size = min(step, permutations - start)
        cells = np.tile(units, (size, 1))
        yield rng.permuted(cells, axis=1).reshape(size, num_units, num_formats).sum(axis=1)


def _subset_totals(units: Floats, permutations: int, rng: Generator) -> Iterator[Ints]:
    """The same for scores of 0 and 1, where a unit with k ones is a random k-subset of the formats.

    Format after format: of the units with k ones left for the last g formats, a binomial share of k/g
    has one here. So it takes formats² draws, however many units there are.
    """
    num_formats = units.shape[1]
    ones = units.sum(axis=1).astype(np.int64)
    step = max(1, CELLS_AT_ONCE // (num_formats + 1))
    for start in range(0, permutations, step):
        size = min(step, permutations - start)
        left = np.tile(np.bincount(ones, minlength=num_formats + 1), (size, 1))
        totals = np.empty((size, num_formats), dtype=np.int64)
        for format_number in range(num_formats):
            still = num_formats - format_number
            here = np.zeros_like(left)
            here[:, still] = left[:, still]  # all their scores left are ones
            here[:, 1:still] = rng.binomial(left[:, 1:still], np.arange(1, still) / still)
            totals[:, format_number] = here.sum(axis=1)
            left = (left - here)[:, :still] + here[:, 1:]
        yield totals
