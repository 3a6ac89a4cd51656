"""Which (format, item) cells to ask when not all of them can be paid for.

In: how many formats, items and cells. Out: a list of cells that treats formats alike and items alike.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from lm_eval.errors import UsageError
from lm_eval.stats.numeric import Array, numpy

Cell = tuple[int, int]
"""Number of a format and number of an item, both from 0."""


def balanced_cells(
    num_formats: int,
    num_items: int,
    budget: int,
    seed: int,
    *,
    taken: Iterable[Cell] = (),
) -> list[Cell]:
    """``budget`` different cells, those ``taken`` first and in their order.

    The counts of any two formats differ by at most 1, and so do those of any two items. The cells of
    a seed are one long list of which every budget takes the beginning: a larger budget keeps what a
    smaller one paid for. Cells that were taken by other means are completed to the same balance as
    far as they allow it. More taken than the budget: all of them come back, with nothing added.
    """
    kept = check_cells(taken, num_formats, num_items)
    _check_budget(num_formats, num_items, budget)
    if len(kept) >= budget:
        return kept
    listed = _listed(num_formats, num_items, budget, seed)
    if set(listed[: len(kept)]) == set(kept):
        return kept + listed[len(kept) :]
    return kept + _completed(num_formats, num_items, budget, seed, kept)


def _listed(num_formats: int, num_items: int, budget: int, seed: int) -> list[Cell]:
    """The first ``budget`` cells of the seed's list.

    Both numbers count up side by side, each starting again at its own end. That meets every cell at
    most once until both ends fall together; then the items move on by one. The names behind the
    numbers and the order of these moves are random.
    """
    np = numpy()
    rng = np.random.default_rng(seed)
    formats, items = rng.permutation(num_formats), rng.permutation(num_items)
    shifts = rng.permutation(math.gcd(num_formats, num_items))
    place = np.arange(budget)
    shift = shifts[place // math.lcm(num_formats, num_items)]
    rows = formats[place % num_formats]
    columns = items[(place + shift) % num_items]
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _completed(
    num_formats: int, num_items: int, budget: int, seed: int, taken: Collection[Cell]
) -> list[Cell]:
    """Cells one by one: a format asked least often, on an item seen least often that is new to it."""
    np = numpy()
    rng = np.random.default_rng(seed)
    is_seen = np.zeros((num_formats, num_items), dtype=bool)
    for cell in taken:
        is_seen[cell] = True
    rows, columns = is_seen.sum(axis=1), is_seen.sum(axis=0)
    added = []
    for _ in range(budget - len(taken)):
        row = _least(np.where(rows < num_items, rows, num_items + 1), rng)
        column = _least(np.where(is_seen[row], num_formats + 1, columns), rng)
        is_seen[row, column] = True
        rows[row] += 1
        columns[column] += 1
        added.append((row, column))
    return added


def _least(counts: Array, rng: Array) -> int:
    """The place of the smallest count, a random one of several."""
    return int(rng.choice(numpy().flatnonzero(counts == counts.min())))


def _check_budget(num_formats: int, num_items: int, budget: int) -> None:
    if not 1 <= budget <= num_formats * num_items:
        raise UsageError(
            f"A budget of {budget} cells does not fit: {num_formats} formats × {num_items} items "
            f"have between 1 and {num_formats * num_items}."
        )


def check_cells(cells: Iterable[Cell], num_formats: int, num_items: int) -> list[Cell]:
    """The cells as pairs of ints, all inside the grid and none of them twice."""
    if num_formats < 1 or num_items < 1:
        raise UsageError(
            f"A budget needs at least one format and one item; got {num_formats} formats and "
            f"{num_items} items."
        )
    listed = [(int(row), int(column)) for row, column in cells]
    for row, column in listed:
        if not (0 <= row < num_formats and 0 <= column < num_items):
            raise UsageError(
                f"The cell ({row}, {column}) lies outside {num_formats} formats × {num_items} items, "
                "which are counted from 0."
            )
    if len(set(listed)) < len(listed):
        raise UsageError("A cell is listed twice; each can be asked and paid for only once.")
    return listed
