"""Successive halving: the best or the worst of many formats, found with a budget of cells.

In: how many formats and items, a budget, and a function that asks some formats on some items. Out: a
``Search``: the format chosen, what every round saw, and which items took part. The score that won a
search is too good: score its choice again on other items.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lm_eval.errors import DataError, UsageError
from lm_eval.stats.estimates import DEFAULT_SEED, Estimate, mean_estimate
from lm_eval.stats.numeric import ArrayLike, Floats
from lm_eval.text.encode import AsDict

Ask = Callable[[Sequence[int], Sequence[int]], ArrayLike]
"""Scores of some formats on some items, as an array formats × items."""


@dataclass(frozen=True, slots=True)
class Round:
    """One step of a search: these formats were asked on these new items."""

    formats: tuple[int, ...]
    items: tuple[int, ...]
    means: tuple[float, ...]
    """The mean of each format over all items asked so far."""
    survivors: tuple[int, ...]
    """Best first (worst first when searching for the worst)."""
    cells: int


@dataclass(frozen=True, slots=True)
class Search(AsDict):
    """The format that a search chose, and the rounds that led to it."""

    chosen: int
    is_worst: bool
    method: str
    """``successive halving``."""
    rounds: tuple[Round, ...]
    cells: int
    """The number of cells asked, each once."""
    while_choosing: Estimate
    """The chosen format on the items that chose it, which flatter it."""
    used_items: frozenset[int]
    reason: str | None
    """Why the search stopped before its budget; None if it did not."""


def halving(
    num_formats: int,
    budget: int,
    ask: Ask,
    *,
    num_items: int,
    reserve: int = 0,
    worst: bool = False,
    seed: int = DEFAULT_SEED,
) -> Search:
    """The best of ``num_formats`` (or the worst), by successive halving.

    Each of ceil(log2 formats) rounds spends an equal part of the budget on the formats still in, all
    on the same new items, and keeps the better half by the mean over all items asked so far. Items
    are numbers below ``num_items`` in random order, of which ``reserve`` take no part.
    """
    _check_search(num_formats, budget, num_items, reserve)
    pool = _ItemPool(num_items, seed, reserve)
    seen: Floats = np.empty((num_formats, 0))
    live = list(range(num_formats))
    rounds: list[Round] = []
    reason = None
    for left in range(math.ceil(math.log2(num_formats)), 0, -1):
        spare = budget - sum(r.cells for r in rounds)
        wanted = spare // left // len(live) or min(1, spare // len(live))
        items = pool.take(wanted)
        reason = reason or _shortage(wanted, len(items), len(rounds) + 1)
        scores = _checked_scores(ask, live, items) if items else seen[:, :0]
        seen = np.hstack([seen, scores])
        means = seen.mean(axis=1)
        order = _ranked(means, worst)[: math.ceil(len(live) / 2)]
        survivors = [live[rank] for rank in order]
        rounds.append(_round(live, items, means, survivors))
        live, seen = survivors, seen[order]
    return Search(
        chosen=live[0],
        is_worst=worst,
        method="successive halving",
        rounds=tuple(rounds),
        cells=sum(r.cells for r in rounds),
        while_choosing=mean_estimate(seen[0].tolist()),
        used_items=frozenset(pool.used),
        reason=reason,
    )


class _ItemPool:
    """Items in random order, each handed out once."""

    def __init__(self, num_items: int, seed: int, reserve: int = 0) -> None:
        order = np.random.default_rng(seed).permutation(num_items)
        self._order: list[int] = order[: num_items - reserve].tolist()
        self.used: list[int] = []

    def take(self, count: int) -> list[int]:
        """The next ``count`` items; fewer where they run out."""
        start = len(self.used)
        taken = self._order[start : start + max(count, 0)]
        self.used += taken
        return taken


def _checked_scores(ask: Ask, formats: Sequence[int], items: Sequence[int]) -> Floats:
    """The scores from ``ask``, checked to be finite and of shape formats × items."""
    scores = np.asarray(ask(list(formats), list(items)), dtype=float)
    if scores.shape != (len(formats), len(items)):
        raise UsageError(
            f"Asked for {len(formats)} formats × {len(items)} items, but got scores of shape "
            f"{scores.shape}."
        )
    if not np.isfinite(scores).all():
        row, column = np.argwhere(~np.isfinite(scores))[0]
        raise DataError(
            f"Format {formats[row]}, item {items[column]}: the score is {scores[row, column]}, and "
            "a search needs finite numbers. Choose another metric."
        )
    return scores


def _check_search(num_formats: int, budget: int, num_items: int, reserve: int) -> None:
    """Raise a ``UsageError`` if there are too few formats, cells or items."""
    if num_formats < 2:
        raise UsageError(f"A search needs at least 2 formats to choose from; got {num_formats}.")
    if budget < num_formats:
        raise UsageError(
            f"A search over {num_formats} formats needs a budget of at least {num_formats} cells, one "
            f"item for each format; got {budget}."
        )
    if not 0 <= reserve < num_items:
        raise UsageError(
            f"A search needs at least one item besides the {reserve} kept fresh; got {num_items}."
        )


def _round(live: Sequence[int], items: Sequence[int], means: Floats, kept: Sequence[int]) -> Round:
    return Round(
        formats=tuple(live),
        items=tuple(items),
        means=tuple(means.tolist()),
        survivors=tuple(kept),
        cells=len(live) * len(items),
    )


def _ranked(means: Floats, worst: bool) -> list[int]:
    """Indices of the means, best first (or worst first); of equal ones, the earlier first."""
    order: list[int] = np.argsort(means if worst else -means, kind="stable").tolist()
    return order


def _shortage(wanted: int, got: int, number: int) -> str | None:
    if got < wanted:
        return f"the items ran out in round {number}, so that it asked less than its budget"
    if not wanted:
        return f"its budget was spent before round {number}, so that later rounds saw no new items"
    return None
