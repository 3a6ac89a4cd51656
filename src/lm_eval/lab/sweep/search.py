"""The best or worst format of a list, found with few cells and scored again on fresh items.

In: an ``Asker``. Out: a ``SearchResult``: the formats chosen, their scores during the search, which are
too favourable, and their scores and distances from the base format on items that the search did not use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lm_eval.errors import DataError, UsageError
from lm_eval.lab.sweep.cells import Asker
from lm_eval.stats.clusters import clustered_estimate
from lm_eval.stats.estimates import DEFAULT_SEED, Estimate, mean_estimate
from lm_eval.stats.numeric import ArrayLike, Floats
from lm_eval.stats.paired import Paired, paired
from lm_eval.text.encode import AsDict

KEPT_FRESH = 3
"""One item in this many is kept out of the search, for scoring what it chose."""
FEW_FRESH = 30
BASE = 0
HALVING = "halving"
"""The name of the search method on the command line and in summaries."""


@dataclass(frozen=True)
class Extreme(AsDict):
    """A format that a search chose, scored on fresh items."""

    kind: str
    """``best`` or ``worst``."""
    chosen: int
    search: Search
    fresh: Estimate
    """Its score on fresh items."""
    against_base: Paired | None
    """Its score minus that of the base on the same fresh items; None if it is the base."""


@dataclass(frozen=True)
class SearchResult(AsDict):
    """The formats that the searches chose, scored on fresh items beside the base format."""

    extremes: tuple[Extreme, ...]
    base: Estimate
    """The score of the base format on the fresh items."""
    fresh_items: int
    apart: Paired | None
    """Best minus worst on the fresh items; None unless both were searched for and differ."""

    kind = "search"
    KEYS = ("kind", "extremes", "base", "fresh_items", ("best_minus_worst", "apart"))


def most_cells(num_formats: int, num_items: int, budget: int, goal: str) -> tuple[int, int]:
    """The most cells a search may ask: to choose formats, and to score its choices again."""
    rows = 1 + len(_kinds(goal))
    choosing = min(budget, num_formats * (num_items - _reserve(num_items)))
    return choosing, rows * min(num_items, max(budget // rows, FEW_FRESH))


def _kinds(goal: str) -> tuple[str, ...]:
    return ("best", "worst") if goal == "both" else (goal,)


def _reserve(num_items: int) -> int:
    return max(1, num_items // KEPT_FRESH)


def search(asker: Asker, goal: str, *, budget: int, seed: int) -> SearchResult:
    """Search for the ``best``, the ``worst`` or ``both``, then score the choices on fresh items.

    The budget is for choosing, and two searches share it equally; scoring again asks at most as many
    further cells.
    """
    kinds, num_items = _kinds(goal), len(asker.doc_ids)
    searches = {
        kind: halving(
            len(asker.tasks),
            budget // len(kinds),
            asker.scores,
            num_items=num_items,
            reserve=_reserve(num_items),
            worst=(kind == "worst") == asker.higher_is_better,
            seed=seed,
        )
        for kind in kinds
    }
    chosen = {kind: each.chosen for kind, each in searches.items()}
    rows = [*dict.fromkeys([BASE, *chosen.values()])]
    used = frozenset().union(*(each.used_items for each in searches.values()))
    order = np.random.default_rng([seed, 1]).permutation(num_items).tolist()
    unused = [item for item in order if item not in used]
    fresh = _Fresh(asker, rows, unused[: max(budget // len(rows), FEW_FRESH)], seed)
    return SearchResult(
        extremes=tuple(
            Extreme(kind, row, searches[kind], fresh.score(row), fresh.apart(row, BASE))
            for kind, row in chosen.items()
        ),
        base=fresh.score(BASE),
        fresh_items=len(fresh.items),
        apart=fresh.apart(chosen["best"], chosen["worst"]) if goal == "both" else None,
    )


class _Fresh:
    """The scores of some formats on items that no search asked about."""

    def __init__(self, asker: Asker, rows: Sequence[int], items: Sequence[int], seed: int) -> None:
        self.items = items
        self._scores = dict(zip(rows, asker.scores(rows, items).tolist(), strict=True))
        known = asker.known.clusters
        self._clusters = [known[item] for item in items] if known else None
        self._seed = seed

    def score(self, row: int) -> Estimate:
        """A format's score."""
        return clustered_estimate(self._scores[row], self._clusters)

    def apart(self, first: int, second: int) -> Paired | None:
        """One format minus another; None if they are the same."""
        if first == second:
            return None
        scores = (self._scores[row] for row in (first, second))
        return paired(*scores, clusters=self._clusters, seed=self._seed)


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
    """Its score on the items that it was chosen on, which flatter it."""
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

    Each of ceil(log2 formats) rounds spends an equal part of the budget on the remaining formats, all
    on the same new items, and keeps the better half by the mean over all items asked so far. Items
    are numbers below ``num_items`` in random order; ``reserve`` of them are not used.
    """
    _check_search(num_formats, budget, num_items, reserve)
    order = np.random.default_rng(seed).permutation(num_items)[: num_items - reserve].tolist()
    used: list[int] = []
    seen: Floats = np.empty((num_formats, 0))
    live = list(range(num_formats))
    rounds: list[Round] = []
    reason = None
    for left in range(math.ceil(math.log2(num_formats)), 0, -1):
        spare = budget - sum(r.cells for r in rounds)
        wanted = max(0, spare // left // len(live) or min(1, spare // len(live)))
        items = order[len(used) : len(used) + wanted]
        used += items
        reason = reason or _shortage(wanted, len(items), len(rounds) + 1)
        if items:
            seen = np.hstack([seen, _finite_scores(ask, live, items)])
        means = seen.mean(axis=1)
        ranked = np.argsort(means if worst else -means, kind="stable")[: math.ceil(len(live) / 2)]
        survivors = [live[rank] for rank in ranked]
        step = (tuple(live), tuple(items), tuple(means.tolist()), tuple(survivors))
        rounds.append(Round(*step, cells=len(live) * len(items)))
        live, seen = survivors, seen[ranked]
    return Search(
        chosen=live[0],
        is_worst=worst,
        method="successive halving",
        rounds=tuple(rounds),
        cells=sum(r.cells for r in rounds),
        while_choosing=mean_estimate(seen[0].tolist()),
        used_items=frozenset(used),
        reason=reason,
    )


def _finite_scores(ask: Ask, formats: Sequence[int], items: Sequence[int]) -> Floats:
    scores = np.asarray(ask(list(formats), list(items)), dtype=float)
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


def _shortage(wanted: int, got: int, number: int) -> str | None:
    if got < wanted:
        return f"the items ran out in round {number}, so it asked less than its budget"
    if not wanted:
        return f"its budget was spent before round {number}, so later rounds saw no new items"
    return None
