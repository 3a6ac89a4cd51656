"""Two formats (or models) on the same items: how far apart, and whether that is more than chance.

In: scores of the same items, in the same order. Out: ``Paired``, one value with everything that a report
says of two rows. ``paired_many`` takes all pairs of a table at once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from lm_eval.stats.clusters import cluster_codes, cr1_stderr, is_plain, mean_of_sums
from lm_eval.stats.intervals import DEFAULT_SEED, Estimate, t_method
from lm_eval.stats.numeric import Array, numpy, special
from lm_eval.stats.power import factor
from lm_eval.stats.score_interval import paired_share_interval
from lm_eval.stats.sign_flips import (
    NO_SIGN,
    PValue,
    pair_sign_flip_p_values,
    sign_flip_p_values,
)


@dataclass(frozen=True, slots=True)
class Paired:
    """How much higher the first scores than the second, with tests; ``wins`` are those of the first."""

    n: int
    difference: Estimate
    """First minus second. Method ``tango``: Tango's score interval for scores of 0 and 1;
    ``t over items`` for others; ``t over 40 clusters``; ``none`` if the differences do not differ."""
    correlation: float | None
    """Of the two scores over items; None if one of them is constant."""
    stderr_unpaired: float | None
    """What the standard error would be, had the two been asked different items."""
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
    """A true difference that 80 % of such comparisons would find at the 5 % level; None where nothing
    differs, and where it would be more than 1."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Table:
    """Checked scores (formats × items) and what all pairs share."""

    scores: Array
    sums: Array
    """Scores summed over each cluster (formats × clusters); without clusters, the scores."""
    sizes: Array
    """Items in each cluster."""
    is_clustered: bool
    is_binary: Array
    """Of each row, whether its scores are all 0 or 1."""
    is_share: Array
    """Of each row, whether its scores lie between 0 and 1."""
    stderrs: Sequence[float | None]
    """Of each row's mean."""
    correlations: Array
    """Of each two rows; NaN where one of them is constant."""
    confidence: float


def paired(
    a: Sequence[float],
    b: Sequence[float],
    *,
    clusters: Sequence[Hashable] | None = None,
    seed: int = DEFAULT_SEED,
    confidence: float = 0.95,
) -> Paired:
    """``a`` against ``b``, scores of the same items in the same order."""
    if len(a) != len(b):
        raise ValueError(f"Paired scores are of the same items; got {len(a)} and {len(b)}.")
    ((_, _, found),) = paired_many([a, b], clusters, seed=seed, confidence=confidence)
    return found


def paired_many(
    scores: Array,
    clusters: Sequence[Hashable] | None = None,
    *,
    seed: int = DEFAULT_SEED,
    confidence: float = 0.95,
) -> list[tuple[int, int, Paired]]:
    """Every two rows i < j of ``scores`` (formats × items), row i against row j.

    Scores of 0 and 1 are tested by McNemar's exact test; others, and all that come in clusters, by flips
    of the signs of the units' differences.
    """
    table = _checked(scores, clusters, confidence)
    pairs = list(combinations(range(len(table.scores)), 2))
    flipped = [pair for pair in pairs if not _is_mcnemar(table, *pair)]
    tests = pair_sign_flip_p_values(table.sums.T, flipped, seed=seed) if flipped else []
    p_values = dict(zip(flipped, tests, strict=True))
    return [(i, j, _compared(table, i, j, p_values.get((i, j)))) for i, j in pairs]


def paired_where(
    scores: Array,
    pairs: Sequence[tuple[int, int]],
    kept: Array,
    clusters: Sequence[Hashable] | None = None,
    *,
    seed: int = DEFAULT_SEED,
    confidence: float = 0.95,
) -> list[Paired]:
    """Row i against row j for each of ``pairs``, on the items that its row of ``kept`` holds true for.

    As ``paired`` on each selection; those that are tested by sign flips share their draws.
    """
    np = numpy()
    tables = [
        _checked(
            np.asarray(scores, dtype=float)[[i, j]][:, mask],
            None if clusters is None else [clusters[place] for place in np.flatnonzero(mask)],
            confidence,
        )
        for (i, j), mask in zip(pairs, kept, strict=True)
    ]
    flipped = [place for place, table in enumerate(tables) if not _is_mcnemar(table, 0, 1)]
    tests: list[PValue] = []
    if flipped:
        gaps = np.stack([scores[i] - scores[j] for i, j in pairs])[flipped]
        gaps = gaps * np.asarray(kept)[flipped]  # what is left out has no sign to flip
        codes = None if clusters is None else cluster_codes(clusters, gaps.shape[1])
        sums = gaps if codes is None else [np.bincount(codes, weights=gap) for gap in gaps]
        tests = sign_flip_p_values(np.asarray(sums).T, seed=seed)
    p_values = dict(zip(flipped, tests, strict=True))
    return [_compared(table, 0, 1, p_values.get(k)) for k, table in enumerate(tables)]


def mcnemar(wins: int, losses: int) -> tuple[float, float]:
    """McNemar's exact two-sided p, and its mid-p; 1 for both where nothing is discordant.

    The mid-p takes half of the chance of the very outcome that was seen.
    """
    num = wins + losses
    if num == 0:
        return 1.0, 1.0
    fewer = min(wins, losses)
    bdtr = special().bdtr
    tail = float(bdtr(fewer, num, 0.5))
    at = tail - (float(bdtr(fewer - 1, num, 0.5)) if fewer else 0.0)
    return min(1.0, 2 * tail), min(1.0, 2 * tail - at)


def probability_better(wins: int, losses: int) -> float:
    """The chance that the first is truly better, under a uniform prior on the 2 × 2 table."""
    return float(special().betainc(losses + 1, wins + 1, 0.5))


def _checked(scores: Array, clusters: Sequence[Hashable] | None, confidence: float) -> _Table:
    np = numpy()
    table = np.asarray(scores, dtype=float)
    if table.ndim != 2 or not table.shape[1]:
        raise ValueError("Paired scores need at least one item; got none.")
    if not np.isfinite(table).all():
        row, item = (int(place) for place in np.argwhere(~np.isfinite(table))[0])
        raise ValueError(
            f"Scores must be finite numbers, but item {item} of row {row} has {table[row, item]}."
        )
    codes = np.arange(table.shape[1])
    if clusters is not None:
        codes = cluster_codes(clusters, table.shape[1])
    is_clustered = not is_plain(codes)
    sums = np.stack([np.bincount(codes, weights=row) for row in table]) if is_clustered else table
    sizes = np.bincount(codes)
    return _Table(
        scores=table,
        sums=sums,
        sizes=sizes,
        is_clustered=is_clustered,
        is_binary=((table == 0) | (table == 1)).all(axis=1),
        is_share=((table >= 0) & (table <= 1)).all(axis=1),
        stderrs=[cr1_stderr(row, sizes) for row in sums],
        correlations=_correlations(table),
        confidence=confidence,
    )


def _correlations(table: Array) -> Array:
    np = numpy()
    centred = table - table.mean(axis=1, keepdims=True)
    products = centred @ centred.T
    spread = np.where(np.ptp(table, axis=1) > NO_SIGN, np.sqrt(np.diag(products)), np.nan)
    return np.clip(products / spread[:, None] / spread, -1.0, 1.0)


def _is_mcnemar(table: _Table, i: int, j: int) -> bool:
    return not table.is_clustered and bool(table.is_binary[i] and table.is_binary[j])


def _compared(table: _Table, i: int, j: int, flips: PValue | None) -> Paired:
    """Row i against row j, by McNemar's test where there are no ``flips``."""
    np = numpy()
    both = table.scores[i] - table.scores[j]
    n = len(both)
    wins, losses = int(np.count_nonzero(both > NO_SIGN)), int(np.count_nonzero(both < -NO_SIGN))
    difference = _difference(table, i, j, wins, losses)
    p, p_mid = mcnemar(wins, losses) if flips is None else (flips.value, None)
    # If there is no difference, its variance on 0 and 1 is the share of discordant items.
    error = math.sqrt(wins + losses) / n if flips is None else difference.stderr
    correlation = float(table.correlations[i, j])
    return Paired(
        n=n,
        difference=difference,
        correlation=None if math.isnan(correlation) else correlation,
        stderr_unpaired=_unpaired(table.stderrs[i], table.stderrs[j]),
        wins=wins,
        losses=losses,
        ties=n - wins - losses,
        p=p,
        test="exact McNemar" if flips is None else flips.method,
        p_mid=p_mid,
        probability=probability_better(wins, losses) if flips is None else None,
        smallest_detectable=_detectable(error, _are_shares(table, i, j)),
    )


def _difference(table: _Table, i: int, j: int, wins: int, losses: int) -> Estimate:
    """Row i minus row j; its interval is Tango's, or one of Student's t over items or clusters."""
    sums = table.sums[i] - table.sums[j]
    if _is_mcnemar(table, i, j):
        n = len(sums)
        low, high = paired_share_interval(wins, losses, n, table.confidence)
        stderr = cr1_stderr(sums, table.sizes)
        return Estimate((wins - losses) / n, stderr, low, high, n, "tango")
    bounds = (-1.0, 1.0) if _are_shares(table, i, j) else None
    found = mean_of_sums(sums, table.sizes, table.confidence, bounds)
    if table.is_clustered or found.low is None:
        return found
    return replace(found, method=t_method(found.n))


def _are_shares(table: _Table, i: int, j: int) -> bool:
    return bool(table.is_share[i] and table.is_share[j])


def _detectable(stderr: float | None, are_shares: bool) -> float | None:
    found = factor() * stderr if stderr else None
    return None if found is None or (are_shares and found > 1) else found


def _unpaired(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else math.hypot(first, second)
