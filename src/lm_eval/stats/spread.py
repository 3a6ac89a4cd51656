"""How far apart formats score on the same items, and how much of that is noise.

In: scores by format and item. Out: a ``Spread``: best minus worst, the spread that formats without
any effect would show, a test, intervals, and how sure it is which format is best.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypedDict

import numpy as np

from lm_eval.stats.clusters import is_binary, is_share, score_matrix, unit_sums
from lm_eval.stats.estimates import DEFAULT_SEED, t_quantile
from lm_eval.stats.mcnemar import mcnemar
from lm_eval.stats.numeric import ArrayLike, Floats, Generator, Ints
from lm_eval.stats.resampling import DEFAULT_SPLITS, resampled_sums, split_half_spread, tops
from lm_eval.support.encode import AsDict

DEFAULT_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Spread(AsDict):
    """The best minus the worst format's score, beside what chance alone would show.

    ``low`` and ``high`` are the percentile interval over resampled items. Resampling adds noise, so it
    is too high (``bootstrap_mean`` against ``value`` shows how much) and never contains 0: it is not a
    test. The test is ``p``. ``safe_low`` and ``safe_high`` contain the spread over infinitely many
    items in at least 95 % of cases, at the price of width. All four are None if nothing was
    resampled: a single item or cluster, formats that agree on every item, or ``draws=False``.
    """

    value: float
    best: int
    worst: int
    """Row numbers; if several tie, the first of the best and the last of the worst."""
    num_formats: int
    num_items: int
    num_clusters: int | None
    null_mean: float
    null_95: float
    p: float
    null_method: str
    null_permutations: int
    """How many permutations were drawn; 0 for the exact binomial and the normal limit."""
    low: float | None
    high: float | None
    safe_low: float | None
    safe_high: float | None
    bootstrap_mean: float | None
    resamples: int
    p_best: tuple[float, ...]
    p_worst: tuple[float, ...]
    """The share of resamples in which each format is best, or worst; ties are split evenly. Empty where
    nothing was to be drawn."""
    split_half: float | None
    """Best minus worst where half of the items choose both and the other half scores them, the mean over
    many splits; ``value`` is what all items choose and score, which is too large. None with one unit."""

    ALSO = ("excess",)

    @property
    def excess(self) -> float:
        """The spread beyond what formats that do not differ are expected to show."""
        return self.value - self.null_mean


def spread(
    scores: ArrayLike,
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
    draws: bool = True,
) -> Spread:
    """The spread of ``scores`` (formats × items) with its noise floor, test and intervals.

    ``resamples`` is the number of permutations and that of bootstrap draws; without ``draws`` there are
    no intervals, which are nearly all of the work if formats and items are many. With ``clusters``
    (one name for each item) whole clusters are permuted and drawn. The same seed gives the same
    numbers, in whatever order items and formats come.
    """
    table = score_matrix(scores)
    units, sizes = unit_sums(table, clusters)
    null_rng, draw_rng, half_rng = (np.random.default_rng([seed, k]) for k in range(3))
    num_items = table.shape[1]
    null = noise_floor(units, resamples, null_rng)
    totals = units.sum(axis=0)
    best, worst = int(totals.argmax()), len(totals) - 1 - int(totals[::-1].argmin())
    drawn = (
        resampled_means(units, sizes, resamples, draw_rng) if draws else np.empty((0, len(table)))
    )
    return Spread(
        value=float(totals[best] - totals[worst]) / num_items,
        best=best,
        worst=worst,
        num_formats=len(table),
        num_items=num_items,
        num_clusters=None if clusters is None else len(units),
        null_mean=null.mean / num_items,
        null_95=null.point_95 / num_items,
        p=null.p,
        null_method=null.method,
        null_permutations=null.permutations,
        resamples=resamples,
        split_half=split_half_spread(
            units[:, _format_order(units)], sizes, DEFAULT_SPLITS, half_rng
        ),
        **_from_draws(
            totals / num_items,
            drawn,
            num_units=len(units),
            is_share=is_share(table),
        ),
    )


def resampled_means(units: Floats, sizes: Floats, resamples: int, rng: Generator) -> Floats:
    """Each format's mean in every resample of the units (items or clusters): resamples × formats."""
    order = _format_order(units)
    columns = units[:, order]
    if float(sizes.min()) == float(sizes.max()):
        drawn = resampled_sums(columns, resamples, rng) / float(sizes.sum())
    else:
        sums = resampled_sums(np.column_stack([columns, sizes]), resamples, rng)
        drawn = sums[:, :-1] / sums[:, -1:]
    means = np.empty_like(drawn)
    means[:, order] = drawn
    return means


def _format_order(units: Floats) -> Ints:
    """An order of the formats that does not depend on their input order, unless two are very alike."""
    weights = units.sum(axis=1)
    # Unlike a matrix product, einsum starts no threads, which would cost more than they save.
    of_powers = [np.einsum("i,ij->j", weights**power, units) for power in (2, 1)]
    keys = [*of_powers, units.sum(axis=0)]
    order: Ints = np.lexsort([np.round(key, 6) for key in keys])
    return order


class _Resampled(TypedDict):
    """The fields of a ``Spread`` that come from resampled items."""

    low: float | None
    high: float | None
    safe_low: float | None
    safe_high: float | None
    bootstrap_mean: float | None
    p_best: tuple[float, ...]
    p_worst: tuple[float, ...]


def _from_draws(means: Floats, drawn: Floats, *, num_units: int, is_share: bool) -> _Resampled:
    fields = _Resampled(
        low=None,
        high=None,
        safe_low=None,
        safe_high=None,
        bootstrap_mean=None,
        p_best=_shares(drawn) if len(drawn) else (),
        p_worst=_shares(-drawn) if len(drawn) else (),
    )
    if not len(drawn):
        return fields
    ranges = np.ptp(drawn, axis=1)
    errors = drawn - means
    if float(np.ptp(errors, axis=1).max()) < TIE:  # formats move together: nothing to resample
        return fields
    fields["low"], fields["high"] = (float(end) for end in np.quantile(ranges, [0.025, 0.975]))
    fields["safe_low"], high = _safe_interval(float(np.ptp(means)), errors, num_units)
    fields["safe_high"] = min(1.0, high) if is_share else high
    fields["bootstrap_mean"] = float(ranges.mean())
    return fields


def _safe_interval(value: float, errors: Floats, num_units: int) -> tuple[float, float]:
    """Bounds of the true spread that hold whatever the true scores are.

    The observed spread differs from the true one by at most the range of the errors, which bounds it
    from below. From above: it is the difference of two formats, whose observed difference is ``value``
    at most. Resamples of few units vary too little and their variance is uncertain; both are corrected
    for.
    """
    reach_in_errors = t_quantile(0.95, num_units - 1) * math.sqrt(num_units / (num_units - 1))
    widest = float(np.quantile(np.ptp(errors, axis=1), 0.975))
    below = reach_in_errors / NormalDist().inv_cdf(0.975) * widest
    covariance = np.atleast_2d(np.cov(errors, rowvar=False))
    variances = np.diag(covariance)
    of_gaps = variances[:, None] + variances[None, :] - 2 * covariance
    above = reach_in_errors * math.sqrt(max(0.0, float(of_gaps.max())))
    return max(0.0, value - below), value + above


def _shares(drawn: Floats) -> tuple[float, ...]:
    """How often each column is the largest; a tie counts for each of its columns in part."""
    return tuple(tops(drawn, TIE).mean(axis=0).tolist())


MOST_CELLS = 100_000_000
"""Permutations × formats × units beyond which the normal limit replaces permutations."""
FEWEST_PERMUTATIONS = 999
ENOUGH_VARIANCE = 50.0
"""The normal limit needs this many times the square of the largest single deviation as variance."""
CELLS_AT_ONCE = 1_000_000
GRID = 401
"""Points of the sum that approximates an integral of normal densities; more of them change no digit."""
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
    """How many were drawn; 0 if none were."""


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
        limit = normal_limit(varying, observed)
        if limit is not None:
            return limit
        if not is_binary(varying):
            permutations = max(FEWEST_PERMUTATIONS, most_cells // varying.size)
    return permuted(varying, observed, permutations, rng)


def exact_binomial(num_units: int, step: float, observed: float) -> NoiseFloor:
    """Two formats that differ by ``step`` in ``num_units`` units: either way with even chances."""
    wins = np.arange(num_units + 1)
    log_factorials = np.array([math.lgamma(number + 1) for number in range(num_units + 1)])
    log_ways = log_factorials[-1] - log_factorials - log_factorials[::-1]
    chances = np.exp(log_ways - num_units * math.log(2))
    gaps = np.abs(2 * wins - num_units)
    order = np.argsort(gaps, kind="stable")
    index = np.searchsorted(np.cumsum(chances[order]), 0.95 - TIE)
    losses = (num_units - round(observed / step)) // 2
    p, _ = mcnemar(num_units - losses, losses)
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


def normal_limit(units: Floats, observed: float) -> NoiseFloor | None:
    """The noise floor if the totals were normal, with the covariance that permuting gives them.

    Within a unit every two formats have the same covariance. Then the range of the totals is that of
    independent normal variables, whose variance is the sum over units of Σ(score − mean)²/(F − 1).
    None if single units carry so much of it that the totals are far from normal.
    """
    num_formats = units.shape[1]
    squares = (units - units.mean(axis=1, keepdims=True)) ** 2
    variance = float(squares.sum()) / (num_formats - 1)
    if variance < ENOUGH_VARIANCE * float(squares.max()):
        return None
    scale = math.sqrt(variance)
    # Totals of whole numbers are discrete: half a step is the continuity correction.
    gap = max(0.0, observed - _whole_step(units) / 2)
    mean, point = normal_range(num_formats)
    p = range_tail(gap / scale, num_formats)
    return NoiseFloor(mean * scale, point * scale, p, "normal limit")


def normal_range(size: int) -> tuple[float, float]:
    """The mean and the 95 % point of the range of ``size`` independent standard normal variables."""
    x: Floats = np.linspace(-10.0, 10.0, GRID, dtype=np.float64)
    below = _normal_below(x)
    mean = float((1.0 - below**size - (1.0 - below) ** size).sum()) * (x[1] - x[0])
    low, high = 0.0, 20.0
    while high - low > 1e-10:
        middle = (low + high) / 2
        low, high = (middle, high) if range_tail(middle, size) > 0.05 else (low, middle)
    return mean, high


def range_tail(gap: float, size: int) -> float:
    """The chance that ``size`` independent standard normal variables range over ``gap`` or more."""
    x: Floats = np.linspace(-10.0, 10.0 + gap, GRID, dtype=np.float64)  # the largest of them
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    inside = _normal_below(x) - _normal_below(x - gap)
    tail = 1.0 - size * float((density * inside ** (size - 1)).sum()) * (x[1] - x[0])
    # The sum over all pairs is an upper bound, and nearly exact where the chance is small.
    bound = size * (size - 1) * math.erfc(gap / 2) / 2
    return min(1.0, max(0.0, tail) if tail > 1e-10 else bound)


def _normal_below(x: Floats) -> Floats:
    """The chance that a standard normal variable lies below each ``x``."""
    return np.array([*map(math.erfc, (x * -math.sqrt(0.5)).tolist())]) / 2


def _canonical(units: Floats) -> Floats:
    """The units whose scores differ, in an order that neither items nor formats can change."""
    if is_binary(units):
        num_formats = units.shape[1]
        counts = np.bincount(units.sum(axis=1).astype(np.int64), minlength=num_formats)
        with_ones = np.tri(num_formats)[
            :-1, ::-1
        ]  # one 1 in the last column, two in the last two, …
        return np.repeat(with_ones, counts[1:num_formats], axis=0)
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
    if is_binary(units):
        return 1.0
    if not bool((units == units.round()).all()) or float(np.abs(units).max()) > 2**50:
        return 0.0
    return float(np.gcd.reduce((units - units[:, :1]).astype(np.int64), axis=None))


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
