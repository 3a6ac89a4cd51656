"""Tables of scores as input of the statistics: checked, and summed by cluster.

In: scores by format and item, and the cluster of each item where there are any. Out: arrays of
floats, or a ``ValueError`` that names the number that cannot be used.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from lm_eval.stats.clusters import cluster_codes, cluster_sums
from lm_eval.stats.numeric import ArrayLike, Floats, np


def score_matrix(scores: ArrayLike, *, dims: tuple[str, ...] = ("format", "item")) -> Floats:
    """``scores`` as finite floats with one axis for each of ``dims``, none of them empty."""
    table = np.array(scores, dtype=float)
    if table.ndim != len(dims) or not table.size:
        shape = " × ".join(f"{name}s" for name in dims)
        raise ValueError(f"These statistics need scores as {shape}; got the shape {table.shape}.")
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        where = ", ".join(f"{name} {index}" for name, index in zip(dims, bad[0], strict=True))
        raise ValueError(f"Scores must be finite numbers, but {where} is {table[tuple(bad[0])]}.")
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
