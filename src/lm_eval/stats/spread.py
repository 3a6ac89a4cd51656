"""How far apart formats score on the same items, and how much of that is noise.

In: scores by format and item. Out: a ``Spread``: best minus worst, the spread that formats without
any effect would show, a test, intervals, and how sure it is which format is best.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from lm_eval.stats.estimates import DEFAULT_SEED
from lm_eval.stats.halves import DEFAULT_SPLITS, split_half_spread, tops
from lm_eval.stats.matrices import is_share, score_matrix, unit_sums
from lm_eval.stats.numeric import ArrayLike, Floats, Generator, Ints, special
from lm_eval.stats.resampling import resampled_sums
from lm_eval.stats.spread_null import TIE, noise_floor
from lm_eval.stats.student import t_quantile
from lm_eval.text.encode import AsDict

DEFAULT_RESAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class Spread(AsDict):
    """The best minus the worst format's score, beside what chance alone would show.

    ``low`` and ``high`` are the percentile interval over resampled items. Resampling adds noise, so it
    is too high (``bootstrap_mean`` against ``value`` shows how much) and never contains 0: it is not a
    test. The test is ``p``. ``safe_low`` and ``safe_high`` contain the spread over infinitely many
    items in at least 95 % of cases, at the price of width. All four are None where there is nothing to
    resample: a single item or cluster, or formats that agree on every item.
    """

    value: float
    best: int
    worst: int
    """Row numbers; where several tie, the first of the best and the last of the worst."""
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
    """The share of resamples in which each format is best, or worst; ties are split evenly."""
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
) -> Spread:
    """The spread of ``scores`` (formats × items) with its noise floor, test and intervals.

    ``resamples`` is the number of permutations and that of bootstrap draws. With ``clusters`` (one name
    for each item) whole clusters are permuted and drawn. The same seed gives the same numbers, in
    whatever order items and formats come.
    """
    table = score_matrix(scores)
    if len(table) < 2:
        raise ValueError("A spread needs two formats or more; got one.")
    if resamples < 2:
        raise ValueError(f"A spread needs two resamples or more; got {resamples}.")
    units, sizes = unit_sums(table, clusters)
    null_rng, draw_rng, half_rng = (np.random.default_rng([seed, k]) for k in range(3))
    num_items = table.shape[1]
    null = noise_floor(units, resamples, null_rng)
    totals = units.sum(axis=0)
    best, worst = int(totals.argmax()), len(totals) - 1 - int(totals[::-1].argmin())
    drawn = resampled_means(units, sizes, resamples, draw_rng)
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
    keys = [weights**2 @ units, weights @ units, units.sum(axis=0)]
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
        p_best=_shares(drawn),
        p_worst=_shares(-drawn),
    )
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
    below = reach_in_errors / float(special.ndtri(0.975)) * widest
    covariance = np.atleast_2d(np.cov(errors, rowvar=False))
    variances = np.diag(covariance)
    of_gaps = variances[:, None] + variances[None, :] - 2 * covariance
    above = reach_in_errors * math.sqrt(max(0.0, float(of_gaps.max())))
    return max(0.0, value - below), value + above


def _shares(drawn: Floats) -> tuple[float, ...]:
    """How often each column is the largest; a tie counts for each of its columns in part."""
    return tuple(tops(drawn, TIE).mean(axis=0).tolist())
