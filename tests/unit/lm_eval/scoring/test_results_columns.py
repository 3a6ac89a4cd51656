"""Values that come in any order stand in the order of their docs."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from lm_eval.scoring.results import ValueColumn, order_of

NUMBERS = st.one_of(st.integers(0, 30), st.integers(-(2**40), 2**40))


@given(st.one_of(st.lists(NUMBERS), st.permutations(range(20))))
def test_the_order_is_that_of_a_stable_sort(places: list[int]) -> None:
    wanted = sorted(range(len(places)), key=places.__getitem__)
    assert list(order_of(array("q", places))) == wanted


@given(st.permutations(range(12)))
def test_a_column_gives_values_by_place(places: list[int]) -> None:
    column = ValueColumn()
    for place in places:
        column.add(place, place / 2)
    assert column.in_order() == [place / 2 for place in range(12)]
