"""Two rows of a comparison side by side: difference, tests, what unread answers do, items that flip."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from lm_eval.lab.compare.values import Flips, Pair
from lm_eval.lab.stored.measurement import Aligned
from lm_eval.stats.multiplicity import benjamini_hochberg, benjamini_yekutieli, holm
from lm_eval.stats.numeric import Bools
from lm_eval.stats.paired import Paired, paired_many, paired_where

METHODS = {"holm": holm, "bh": benjamini_hochberg, "by": benjamini_yekutieli}
"""How p-values are adjusted for being several."""
TIE = 1e-12
"""Scores closer than this are equal."""


def pairs(
    aligned: Aligned,
    labels: Sequence[str],
    default: str | None,
    *,
    adjust: str,
    seed: int,
    lists_flips: bool,
) -> tuple[Pair, ...]:
    """Every two rows, or each with the default; the better of two comes first.

    ``adjust`` names one of ``METHODS``.
    """
    sign = 1 if aligned.measurements[0].higher_is_better else -1
    order = np.argsort(-sign * aligned.scores.mean(axis=1), kind="stable").tolist()
    chosen = [
        (i, j)
        for i, j in combinations(order, 2)
        if default is None or default in (labels[i], labels[j])
    ]
    found = paired_many(aligned.scores, aligned.clusters, chosen=chosen, seed=seed)
    both_read = _both_read(aligned, chosen, seed)
    method = METHODS[adjust]
    adjusted = method([result.p for _, _, result in found])
    known = iter(method([result.p for result in both_read if result is not None]))
    return tuple(
        Pair(
            labels[i],
            labels[j],
            result,
            p,
            read,
            None if read is None else next(known),
            gap_read=(gap := _gap(aligned, i, j)),
            is_adherence=_is_adherence(aligned, result, gap),
            counts=(result.wins, result.losses) if sign > 0 else (result.losses, result.wins),
            probability=_probability(result, sign),
            flips=_flips(aligned, i, j) if lists_flips else None,
        )
        for (i, j, result), read, p in zip(found, both_read, adjusted, strict=True)
    )


def _both_read(
    aligned: Aligned, places: Sequence[tuple[int, int]], seed: int
) -> list[Paired | None]:
    """Each pair on the answers of items read under both; None where these are all answers, or none."""
    masks = [aligned.is_read[i] & aligned.is_read[j] for i, j in places]
    whole = (aligned.shares_read == 1).all(axis=1)
    some = [
        k
        for k, (mask, (i, j)) in enumerate(zip(masks, places, strict=True))
        if mask.any() and not (whole[i] and whole[j])
    ]
    if not some:
        return [None] * len(places)
    kept = np.stack([masks[k] for k in some])
    chosen = [places[k] for k in some]
    found = paired_where(aligned.if_read, chosen, kept, aligned.clusters, seed=seed)
    known = dict(zip(some, found, strict=True))
    return [known.get(k) for k in range(len(places))]


def _gap(aligned: Aligned, i: int, j: int) -> float:
    read = aligned.shares_read.mean(axis=1)
    return float(read[i] - read[j])


def _is_adherence(aligned: Aligned, result: Paired, gap: float) -> bool:
    """Whether the lead is no larger than the lead in answers read.

    Where the row that reads less is ahead, unread answers cannot be what makes the difference.
    """
    if not is_share(aligned) or not aligned.measurements[0].higher_is_better:
        return False
    return 0 < result.difference.value <= gap + TIE


def _probability(result: Paired, sign: int) -> float | None:
    known = result.probability
    return known if known is None or sign > 0 else 1 - known


def _flips(aligned: Aligned, i: int, j: int) -> Flips:
    gap = aligned.scores[i] - aligned.scores[j]
    if not aligned.measurements[0].higher_is_better:
        gap = -gap
    first, second = np.flatnonzero(gap > TIE), np.flatnonzero(gap < -TIE)
    return Flips(*(tuple(_doc(aligned.items[at]) for at in places) for places in (first, second)))


def _doc(key: str) -> str:
    """The doc id in an item's key."""
    return key.rpartition(":")[0] or key


def is_share(aligned: Aligned) -> bool:
    """Whether every score lies between 0 and 1."""
    return bool(((aligned.scores >= 0) & (aligned.scores <= 1)).all())


def kept(clusters: Sequence[str] | None, mask: Bools) -> list[str] | None:
    """The clusters of the items that a mask keeps."""
    return None if clusters is None else [clusters[k] for k in np.flatnonzero(mask).tolist()]
