"""Items that come in clusters: questions on one passage, translations of one text.

Items of a cluster tend to be right or wrong together, so the clusters are the sampled units: the
standard error comes from their sums (CR1), and the interval from Student's t with one degree of freedom
fewer than there are clusters. Also checks of score matrices, which all of these statistics share.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TypeVar

from lm_eval.stats.estimates import CONFIDENCE, Estimate, bare, mean_estimate, share_estimate
from lm_eval.stats.numeric import ArrayLike, Bools, Floats, Ints, np, special

C = TypeVar("C", bound=Hashable)

FEW_CLUSTERS = 30
"""Below this number, clustered standard errors are known to be too small."""


def clustered_estimate(values: Sequence[float], clusters: Sequence[Hashable] | None) -> Estimate:
    """The mean of per-item scores whose items may come in clusters; ``n`` counts items.

    The method reads ``t over 12 clusters, few clusters`` (the last words below 30). The interval is
    clipped to [0, 1] if every score lies there. Scores that are all 0, or all 1, get Wilson's interval
    with each cluster as one item. Without clusters, and if no two items share one, this is
    ``mean_estimate``.
    """
    if clusters is None:
        return mean_estimate(values)
    scores = np.asarray(values, dtype=float)
    codes = cluster_codes(clusters, len(scores))
    if not np.isfinite(scores).all() or is_plain(codes):
        return mean_estimate(scores.tolist())
    num_clusters = int(codes.max()) + 1
    if scores.min() == scores.max() and scores[0] in (0.0, 1.0):
        wilson_share = share_estimate(num_clusters if scores[0] else 0, num_clusters)
        return Estimate(
            *(wilson_share.value, 0.0, wilson_share.low, wilson_share.high, len(scores)),
            f"wilson over {counted(num_clusters)}",
        )
    bounds = (0.0, 1.0) if scores.min() >= 0.0 and scores.max() <= 1.0 else None
    (sums,) = cluster_sums(scores[None], codes)
    return mean_of_sums(sums, np.bincount(codes), bounds)


def array_estimate(scores: Floats, clusters: Sequence[Hashable] | None) -> Estimate:
    """As ``clustered_estimate``; scores without clusters are only counted if all are 0 or 1."""
    if clusters is None and len(scores) and is_binary(scores):
        return share_estimate(int(scores.sum()), len(scores))
    return clustered_estimate(scores.tolist(), clusters)


def kept_clusters(clusters: Sequence[C] | None, mask: Bools) -> list[C] | None:
    """The clusters of the items that a mask keeps."""
    return None if clusters is None else [clusters[k] for k in np.flatnonzero(mask).tolist()]


def mean_of_sums(sums: Floats, sizes: Ints, bounds: tuple[float, float] | None) -> Estimate:
    """The mean over items from the sums of clusters, with its CR1 error and t interval.

    There is no interval from a single cluster, or if the clusters do not differ.
    """
    n, num_clusters = int(sizes.sum()), len(sums)
    mean, stderr = float(sums.sum()) / n, cr1_stderr(sums, sizes)
    if not stderr:
        return bare(mean, n, stderr)
    half = float(special.stdtrit(num_clusters - 1, 0.5 + CONFIDENCE / 2)) * stderr
    low, high = mean - half, mean + half
    if bounds:
        low, high = max(bounds[0], low), min(bounds[1], high)
    return Estimate(mean, stderr, low, high, n, f"t over {counted(num_clusters)}")


def cr1_stderr(sums: Floats, sizes: Ints) -> float | None:
    """The standard error of the mean over items from the sums of clusters; None from a single one.

    √(G/(G−1) · Σ (sum of a cluster's deviations)²) / n, which is SD/√n if each item is its own
    cluster. Rounding errors count as 0.
    """
    num_clusters = len(sums)
    if num_clusters < 2:
        return None
    n = float(sizes.sum())
    deviations = sums - sums.sum() / n * sizes
    if np.abs(deviations).max() <= 1e-12 * np.abs(sums).max():
        return 0.0
    # A dot product would start threads, which cost more than they save here.
    squares = float((deviations * deviations).sum())
    return math.sqrt(num_clusters / (num_clusters - 1) * squares) / n


def cluster_codes(clusters: Sequence[Hashable], num_items: int) -> Ints:
    """Each item's cluster as a number from 0 up, in order of first appearance."""
    if len(clusters) != num_items:
        raise ValueError(f"{num_items} items need as many clusters; got {len(clusters)}.")
    seen: dict[Hashable, int] = {}
    numbers = [seen.setdefault(name, len(seen)) for name in clusters]
    return np.array(numbers, dtype=np.int64)


def cluster_sums(rows: Floats, codes: Ints) -> Floats:
    """The sums of each row of scores over the clusters: rows × clusters."""
    return np.array([np.bincount(codes, weights=row) for row in rows], dtype=float)


def is_plain(codes: Ints) -> bool:
    """Whether no two items share a cluster."""
    return len(codes) == len(set(codes.tolist()))


def counted(num_clusters: int) -> str:
    """``12 clusters, few clusters``; the warning is for fewer than 30."""
    few = ", few clusters" if num_clusters < FEW_CLUSTERS else ""
    return f"{num_clusters} cluster{'s' if num_clusters > 1 else ''}{few}"


def score_matrix(scores: ArrayLike, *, dims: tuple[str, ...] = ("format", "item")) -> Floats:
    """``scores`` as finite floats with one axis for each of ``dims``, none of them empty."""
    table = np.array(scores, dtype=float)
    if table.ndim != len(dims) or not table.size:
        shape = " × ".join(f"{name}s" for name in dims)
        raise ValueError(f"These statistics need scores as {shape}; got the shape {table.shape}.")
    is_finite = np.isfinite(table)
    if not is_finite.all():
        bad = np.argwhere(~is_finite)[0]
        where = ", ".join(f"{name} {index}" for name, index in zip(dims, bad, strict=True))
        raise ValueError(f"Scores must be finite numbers, but {where} is {table[tuple(bad)]}.")
    return table


def is_binary(scores: Floats) -> bool:
    """Whether every score is 0 or 1."""
    return bool(((scores == 0) | (scores == 1)).all())


def is_share(scores: Floats) -> bool:
    """Whether every score lies between 0 and 1."""
    return bool(((scores >= 0) & (scores <= 1)).all())


def unit_sums(table: Floats, clusters: Sequence[Hashable] | None) -> tuple[Floats, Floats]:
    """Sums of the columns of ``table`` (rows × items) by cluster, units × rows, and their sizes.

    Without clusters each item is a unit. The order of the units is that of their first items.
    """
    num_items = table.shape[-1]
    if clusters is None:
        return table.T.copy(), np.ones(num_items)
    codes = cluster_codes(clusters, num_items)
    sums = np.ascontiguousarray(cluster_sums(table, codes).T)
    return sums, np.bincount(codes).astype(float)
