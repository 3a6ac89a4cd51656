"""Which cells a budget pays for."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.errors import UsageError
from lm_eval.stats.partial.distribution import balanced_cells


@st.composite
def grids(draw: st.DrawFn) -> tuple[int, int, int, int]:
    formats, items = draw(st.integers(1, 12)), draw(st.integers(1, 40))
    return formats, items, draw(st.integers(1, formats * items)), draw(st.integers(0, 99))


def counts(cells: list[tuple[int, int]], axis: int, size: int) -> list[int]:
    found = Counter(cell[axis] for cell in cells)
    return [found[place] for place in range(size)]


@given(grids())
def test_formats_are_asked_equally_often_and_so_are_items(grid: tuple[int, int, int, int]) -> None:
    formats, items, budget, seed = grid
    cells = balanced_cells(formats, items, budget, seed)
    assert len(set(cells)) == len(cells) == budget
    for axis, size in enumerate((formats, items)):
        asked = counts(cells, axis, size)
        assert max(asked) - min(asked) <= 1
    assert cells == balanced_cells(formats, items, budget, seed)


@given(grids(), st.data())
def test_a_larger_budget_keeps_every_cell_that_was_paid_for(
    grid: tuple[int, int, int, int], data: st.DataObject
) -> None:
    formats, items, budget, seed = grid
    paid = balanced_cells(formats, items, budget, seed)
    more = data.draw(st.integers(budget, formats * items))
    cells = balanced_cells(formats, items, more, seed)
    assert cells[:budget] == paid
    assert len(set(cells)) == more
    for axis, size in enumerate((formats, items)):
        asked = counts(cells, axis, size)
        assert max(asked) - min(asked) <= 1


def test_the_whole_grid_is_every_cell_once() -> None:
    assert sorted(balanced_cells(3, 4, 12, seed=5)) == [(f, i) for f in range(3) for i in range(4)]


def test_many_items_are_used_once_each_before_any_twice() -> None:
    cells = balanced_cells(100, 14_042, 800, seed=3)
    assert len({item for _, item in cells}) == 800


def test_seeds_choose_different_cells() -> None:
    lists = [frozenset(balanced_cells(10, 30, 60, seed)) for seed in range(20)]
    assert len(set(lists)) == 20
    # Over many seeds every cell has the same chance: 60 of 300.
    found = Counter(cell for seed in range(2000) for cell in balanced_cells(10, 30, 60, seed))
    assert len(found) == 300
    assert min(found.values()) > 320
    assert max(found.values()) < 480


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 4, 13, 1), "between 1 and 12"),
        ((3, 4, 0, 1), "between 1 and 12"),
        ((0, 4, 1, 1), "at least one format"),
    ],
)
def test_a_budget_that_does_not_fit_is_refused(
    arguments: tuple[int, int, int, int], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        balanced_cells(*arguments)
