"""The values of one metric, doc by doc, in as little memory as they need."""

from __future__ import annotations

from array import array
from typing import Any


class Column:
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
        if all(map(int.__le__, places, places[1:])):
            return list(values)
        return [values[at] for at in sorted(range(len(places)), key=places.__getitem__)]

    def __len__(self) -> int:
        return len(self._places)
