"""Which (format, item) cells to ask when the budget does not cover all of them.

In: how many formats, items and cells. Out: a list of cells that treats formats alike and items alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from lm_eval.errors import UsageError

Cell = tuple[int, int]
"""Number of a format and number of an item, both from 0."""


def balanced_cells(num_formats: int, num_items: int, budget: int, seed: int) -> list[Cell]:
    """``budget`` different cells.

    The counts of any two formats differ by at most 1, and so do those of any two items. A seed defines
    one list of all cells, and a budget takes its beginning: a larger budget includes every cell of a
    smaller one.

    The numbers of format and item both count up, each modulo its size. No cell repeats until both are
    back at 0 together; then the items are shifted by one. Formats, items and the order of the shifts
    are permuted at random.
    """
    _check_budget(num_formats, num_items, budget)
    rng = np.random.default_rng(seed)
    formats, items = rng.permutation(num_formats), rng.permutation(num_items)
    shifts = rng.permutation(math.gcd(num_formats, num_items))
    steps = np.arange(budget)
    shift = shifts[steps // math.lcm(num_formats, num_items)]
    rows = formats[steps % num_formats]
    columns = items[(steps + shift) % num_items]
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _check_budget(num_formats: int, num_items: int, budget: int) -> None:
    _check_grid(num_formats, num_items)
    if not 1 <= budget <= num_formats * num_items:
        raise UsageError(
            f"A budget of {budget} cells does not fit: {num_formats} formats × {num_items} items "
            f"have between 1 and {num_formats * num_items}."
        )


def check_cells(cells: Iterable[Cell], num_formats: int, num_items: int) -> list[Cell]:
    """The cells as pairs of ints, all inside the grid and none of them twice."""
    _check_grid(num_formats, num_items)
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


def _check_grid(num_formats: int, num_items: int) -> None:
    if num_formats < 1 or num_items < 1:
        raise UsageError(
            f"A budget needs at least one format and one item; got {num_formats} formats and "
            f"{num_items} items."
        )
