"""The values of one metric, doc by doc, in as little memory as they need."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import islice
from typing import Any


class ValueColumn:
    """Values of docs, added in any order; ``in_order`` has them in the order of the docs."""

    __slots__ = ("_places", "_values")

    def __init__(self) -> None:
        self._places = array("L")
        self._values: Any = array("d")

    def add(self, place: int, value: Any) -> None:
        """The value of the doc at ``place``."""
        if type(value) is not float and isinstance(self._values, array):
            self._values = list(self._values)  # from here on whatever values there are
        self._places.append(place)
        self._values.append(value)

    def in_order(self) -> list[Any]:
        """All values, by the places of their docs."""
        places, values = self._places, self._values
        order = order_of(places)
        return list(values) if isinstance(order, range) else [values[at] for at in order]

    def places(self) -> list[int]:
        """The places that have a value, in the order of ``in_order``."""
        return [self._places[at] for at in order_of(self._places)]

    def __len__(self) -> int:
        return len(self._places)


def order_of(places: Sequence[int]) -> Sequence[int]:
    """The index of the smallest of ``places``, then of the next; a range if they are in order.

    Equal ones stay in their order. Those of a run are the numbers of its docs, each once: they are
    sorted without a Python object for each.
    """
    if all(map(int.__le__, places, islice(places, 1, None))):
        return range(len(places))
    if min(places) < 0 or max(places) >= 4 * len(places):
        return sorted(range(len(places)), key=places.__getitem__)
    index_of = array("q", [-1]) * (max(places) + 1)
    for index, place in enumerate(places):
        if index_of[place] >= 0:
            return sorted(range(len(places)), key=places.__getitem__)
        index_of[place] = index
    return array("q", (index for index in index_of if index >= 0))
