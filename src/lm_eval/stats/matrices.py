"""Tables of scores as the statistics take them: checked, and added up by cluster.

In: scores by format and item, and the cluster of each item where there are any. Out: arrays of
floats, or a ``ValueError`` that says which number cannot be used.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from lm_eval.stats.clusters import cluster_codes
from lm_eval.stats.numeric import Array, numpy


def score_matrix(scores: Array, *, dims: tuple[str, ...] = ("format", "item")) -> Array:
    """``scores`` as finite floats with one axis for each of ``dims``, none of them empty."""
    np = numpy()
    table = np.array(scores, dtype=float)
    if table.ndim != len(dims) or not table.size:
        shape = " × ".join(f"{name}s" for name in dims)
        raise ValueError(f"These statistics need scores as {shape}; got the shape {table.shape}.")
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        where = ", ".join(f"{name} {place}" for name, place in zip(dims, bad[0], strict=True))
        raise ValueError(f"Scores must be finite numbers, but {where} is {table[tuple(bad[0])]}.")
    return table


def unit_sums(table: Array, clusters: Sequence[Hashable] | None) -> tuple[Array, Array]:
    """Sums of the columns of ``table`` (rows × items) by cluster, units × rows, and their sizes.

    Without clusters each item is a unit. The order of the units is that of their first items.
    """
    np = numpy()
    num_items = table.shape[-1]
    if clusters is None:
        return table.T.copy(), np.ones(num_items)
    codes = cluster_codes(clusters, num_items)
    sizes = np.bincount(codes)
    sums = np.stack([np.bincount(codes, weights=row) for row in table], axis=1)
    return sums, sizes.astype(float)
