"""Two formats (or models) on the same items: how far apart they are, and whether chance explains it.

In: scores of the same items, in the same order. Out: ``Paired``, all that a report says about
two rows. ``paired_many`` takes all pairs of a table at once. Right-or-wrong scores without clusters need
no scipy.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from lm_eval.stats.clusters import (
    cluster_codes,
    cluster_sums,
    cr1_stderr,
    is_plain,
    kept_clusters,
    mean_of_sums,
    score_matrix,
)
from lm_eval.stats.estimates import CONFIDENCE, DEFAULT_SEED, Estimate, t_method
from lm_eval.stats.mcnemar import exact_detectable, mcnemar, probability_better
from lm_eval.stats.numeric import ArrayLike, Bools, Floats, Ints, np
from lm_eval.stats.power import can_find, factor
from lm_eval.stats.sign_flips import (
    NO_SIGN,
    PValue,
    pair_sign_flip_p_values,
    sign_flip_p_values,
)
from lm_eval.support.encode import AsDict

MCNEMAR = "exact McNemar"


@dataclass(frozen=True, slots=True)
class Paired(AsDict):
    """How much higher the first scores than the second, with tests; ``wins`` are those of the first."""

    n: int
    difference: Estimate
    """First minus second. Method ``tango``: Tango's score interval for scores of 0 and 1;
    ``t over items`` for others; ``t over 40 clusters``; ``none`` if the differences do not differ."""
    correlation: float | None
    """Of the two scores over items; None if one of them is constant."""
    stderr_unpaired: float | None
    """The standard error if the two had been asked different items."""
    wins: int
    losses: int
    ties: int
    p: float
    test: str
    """``exact McNemar``, ``exact sign flips`` or ``10000 sign flips``."""
    p_mid: float | None
    """McNemar's mid-p, less cautious; None unless scores are 0 and 1 without clusters."""
    probability: float | None
    """That the first is better, given the data and a uniform prior on the table of outcomes; None
    unless scores are 0 and 1 without clusters."""
    smallest_detectable: float | None
    """A true difference that 80 % of such comparisons would find at the 5 % level; None if nothing
    differs, if it would be more than 1, and if items or clusters are too few to find any."""

    def reversed(self) -> Paired:
        """The second against the first."""
        return replace(
            self,
            difference=_negated(self.difference),
            wins=self.losses,
            losses=self.wins,
            probability=None if self.probability is None else 1 - self.probability,
        )


def _negated(difference: Estimate) -> Estimate:
    low, high = difference.low, difference.high
    return replace(
        difference,
        value=0.0 - difference.value,  # an exact 0 stays 0.0, not -0.0
        low=None if high is None else 0.0 - high,
        high=None if low is None else 0.0 - low,
    )


@dataclass(frozen=True, eq=False)
class _ScoreTable:
    """Checked scores (formats × items) and what all pairs share."""

    scores: Floats
    sums: Floats
    """Scores summed over each cluster (formats × clusters); without clusters, the scores."""
    sizes: Ints
    """Items in each cluster."""
    is_clustered: bool
    is_binary: Bools
    """Whether each row's scores are all 0 or 1."""
    is_share: Bools
    """Whether each row's scores all lie between 0 and 1."""

    @cached_property
    def stderrs(self) -> Sequence[float | None]:
        """Of each row's mean."""
        return [cr1_stderr(row, self.sizes) for row in self.sums]

    @cached_property
    def correlations(self) -> Floats:
        """Of each two rows; NaN if one of them is constant."""
        centred = self.scores - self.scores.mean(axis=1, keepdims=True)
        products = centred @ centred.T
        is_varied = np.ptp(self.scores, axis=1) > NO_SIGN
        spread = np.where(is_varied, np.sqrt(np.diag(products)), np.nan)
        correlations: Floats = np.clip(products / spread[:, None] / spread, -1.0, 1.0)
        return correlations


def paired(
    a: Sequence[float],
    b: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    seed: int = DEFAULT_SEED,
) -> Paired:
    """``a`` against ``b``, scores of the same items in the same order."""
    ((_, _, comparison),) = paired_many([a, b], clusters, seed=seed)
    return comparison


def paired_many(
    scores: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
    *,
    chosen: Sequence[tuple[int, int]] | None = None,
    seed: int = DEFAULT_SEED,
) -> list[tuple[int, int, Paired]]:
    """Every two rows i < j of ``scores`` (formats × items), or those ``chosen``: row i against row j.

    Scores of 0 and 1 are tested by McNemar's exact test; others, and all that come in clusters, by flips
    of the signs of the units' differences.
    """
    table = _checked(scores, clusters)
    pairs = list(combinations(range(len(table.scores)), 2)) if chosen is None else chosen
    flipped = [pair for pair in pairs if not _is_mcnemar(table, *pair)]
    tests = pair_sign_flip_p_values(table.sums.T, flipped, seed=seed) if flipped else []
    p_values = dict(zip(flipped, tests, strict=True))
    return [(i, j, _compared(table, i, j, p_values.get((i, j)))) for i, j in pairs]


def paired_where(
    scores: ArrayLike,
    pairs: Sequence[tuple[int, int]],
    kept: Bools,
    clusters: Sequence[Hashable] | None = None,
    *,
    seed: int = DEFAULT_SEED,
) -> list[Paired]:
    """Row i against row j for each of ``pairs``, on the items for which its row of ``kept`` is true.

    As ``paired`` on each selection; those that are tested by sign flips share their draws.
    """
    rows = np.asarray(scores, dtype=float)
    is_binary = np.all((rows == 0) | (rows == 1), axis=1)
    counted = [
        clusters is None and bool(is_binary[i] and is_binary[j] and mask.any())
        for (i, j), mask in zip(pairs, kept, strict=True)
    ]
    tested = iter(
        _tested_where(
            rows,
            [pair for pair, is_counted in zip(pairs, counted, strict=True) if not is_counted],
            np.asarray(kept)[~np.array(counted, dtype=bool)],
            clusters,
            seed,
        )
    )
    return [
        _from_counts(_counts(rows[i][mask], rows[j][mask])) if is_counted else next(tested)
        for (i, j), mask, is_counted in zip(pairs, kept, counted, strict=True)
    ]


def _tested_where(
    rows: Floats,
    pairs: Sequence[tuple[int, int]],
    kept: Bools,
    clusters: Sequence[Hashable] | None,
    seed: int,
) -> Iterator[Paired]:
    """As ``paired_where``, for pairs of which not both rows are right or wrong without clusters."""
    tables = [
        _checked(rows[[i, j]][:, mask], kept_clusters(clusters, mask))
        for (i, j), mask in zip(pairs, kept, strict=True)
    ]
    flipped = [index for index, table in enumerate(tables) if not _is_mcnemar(table, 0, 1)]
    tests: list[PValue] = []
    if flipped:
        gaps = np.stack([rows[i] - rows[j] for i, j in pairs])[flipped]
        gaps = gaps * np.asarray(kept)[flipped]  # what is left out has no sign to flip
        if clusters is not None:
            gaps = cluster_sums(gaps, cluster_codes(clusters, gaps.shape[1]))
        tests = sign_flip_p_values(gaps.T, seed=seed)
    p_values = dict(zip(flipped, tests, strict=True))
    return (_compared(table, 0, 1, p_values.get(k)) for k, table in enumerate(tables))


def _checked(scores: ArrayLike, clusters: Sequence[Hashable] | None) -> _ScoreTable:
    table = score_matrix(scores)
    codes: Ints = np.arange(table.shape[1])
    if clusters is not None:
        codes = cluster_codes(clusters, table.shape[1])
    is_clustered = clusters is not None and not is_plain(codes)
    sums = cluster_sums(table, codes) if is_clustered else table
    return _ScoreTable(
        scores=table,
        sums=sums,
        sizes=np.bincount(codes),
        is_clustered=is_clustered,
        is_binary=np.all((table == 0) | (table == 1), axis=1),
        is_share=np.all((table >= 0) & (table <= 1), axis=1),
    )


def _is_mcnemar(table: _ScoreTable, i: int, j: int) -> bool:
    return not table.is_clustered and bool(table.is_binary[i] and table.is_binary[j])


def _compared(table: _ScoreTable, i: int, j: int, flips: PValue | None) -> Paired:
    """Row i against row j, with the p-value of ``flips``; by McNemar's test if it is None."""
    if flips is None:
        return _from_counts(_counts(table.scores[i], table.scores[j]))
    both = table.scores[i] - table.scores[j]
    n = len(both)
    wins, losses = int(np.count_nonzero(both > NO_SIGN)), int(np.count_nonzero(both < -NO_SIGN))
    difference = _difference(table, i, j)
    correlation = float(table.correlations[i, j])
    return Paired(
        n=n,
        difference=difference,
        correlation=None if math.isnan(correlation) else correlation,
        stderr_unpaired=_unpaired(table.stderrs[i], table.stderrs[j]),
        wins=wins,
        losses=losses,
        ties=n - wins - losses,
        p=flips.value,
        test=flips.method,
        p_mid=None,
        probability=None,
        smallest_detectable=_detectable(
            difference.stderr, len(table.sizes), are_shares=_are_shares(table, i, j)
        ),
    )


def _difference(table: _ScoreTable, i: int, j: int) -> Estimate:
    """Row i minus row j, with an interval of Student's t over items or clusters."""
    sums = table.sums[i] - table.sums[j]
    bounds = (-1.0, 1.0) if _are_shares(table, i, j) else None
    estimate = mean_of_sums(sums, table.sizes, bounds)
    if table.is_clustered or estimate.low is None:
        return estimate
    return replace(estimate, method=t_method(estimate.n))


Counts = Mapping[tuple[int, int], int]
"""The 2 × 2 table: (score of the first, score of the second) → items."""


def _counts(a: Floats, b: Floats) -> Counts:
    both, first, second = (int(number) for number in ((a * b).sum(), a.sum(), b.sum()))
    wins, losses = first - both, second - both
    return {(1, 1): both, (1, 0): wins, (0, 1): losses, (0, 0): len(a) - both - wins - losses}


def _from_counts(counts: Counts) -> Paired:
    """Two right-or-wrong scores, by McNemar's test."""
    both, wins, losses = (counts.get(key, 0) for key in ((1, 1), (1, 0), (0, 1)))
    n = sum(counts.values())
    p, p_mid = mcnemar(wins, losses)
    low, high = paired_share_interval(wins, losses, n)
    stderr = _stderr(wins - losses, wins + losses, n)
    return Paired(
        n=n,
        difference=Estimate((wins - losses) / n, stderr, low, high, n, "tango"),
        correlation=_correlation(both, both + wins, both + losses, n),
        stderr_unpaired=_unpaired(
            *(_stderr(sum_, sum_, n) for sum_ in (both + wins, both + losses))
        ),
        wins=wins,
        losses=losses,
        ties=n - wins - losses,
        p=p,
        test=MCNEMAR,
        p_mid=p_mid,
        probability=probability_better(wins, losses),
        smallest_detectable=_detectable_share(wins + losses, n),
    )


def _stderr(total: int, squares: int, n: int) -> float | None:
    """Of a mean, from the sum of the values and that of their squares; None for one item."""
    return math.sqrt(max(0.0, squares - total * total / n) / (n - 1) / n) if n > 1 else None


def _correlation(both: int, first: int, second: int, n: int) -> float | None:
    """Of two scores of 0 and 1, from how many are 1 in both and in each."""
    spread = math.sqrt(first * (n - first)) * math.sqrt(second * (n - second))
    return (n * both - first * second) / spread if spread else None


def _are_shares(table: _ScoreTable, i: int, j: int) -> bool:
    return bool(table.is_share[i] and table.is_share[j])


def _detectable(stderr: float | None, num_units: int, *, are_shares: bool) -> float | None:
    difference = factor() * stderr if stderr and can_find(num_units) else None
    return None if difference is None or (are_shares and difference > 1) else difference


def _detectable_share(discordant: int, n: int) -> float | None:
    """By the usual formula, in which the variance is the share of discordant items.

    A difference beyond that share needs more discordant items than were seen. Only then the exact test
    is used.
    """
    difference = _detectable(math.sqrt(discordant) / n, n, are_shares=True)
    if difference is None or difference <= discordant / n:
        return difference
    return exact_detectable(n, discordant=discordant / n, largest=1.0)


def _unpaired(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else math.hypot(first, second)


_STEPS = 60
"""Halvings of an interval of width 2 that reach the last digit."""


def paired_share_interval(wins: int, losses: int, n: int) -> tuple[float, float]:
    """Tango's interval of (wins − losses) / n, where ``n`` items were asked of both."""
    z = statistics.NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    # The lower end is the upper end with wins and losses swapped.
    return -_upper_end(losses, wins, n, z), _upper_end(wins, losses, n, z)


def _upper_end(wins: int, losses: int, n: int, z: float) -> float:
    """The largest difference that is not rejected."""
    low, high = (wins - losses) / n, 1.0
    if wins == n:
        return 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if middle in (low, high):  # neighbours: there is no number between them
            break
        if _score(wins, losses, n, middle) > -z:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _score(wins: int, losses: int, n: int, difference: float) -> float:
    """How many standard errors the data lie above ``difference``, were that the truth."""
    # The share of losses that is most likely given the difference: a root of A x² + B x + C.
    a = 2 * n
    b = (2 * n - wins + losses) * difference - wins - losses
    c = -losses * difference * (1 - difference)
    share = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = n * (2 * share + difference * (1 - difference))
    above = wins - losses - n * difference
    if variance <= 0:
        return 0.0 if above == 0 else math.copysign(math.inf, above)
    return above / math.sqrt(variance)
