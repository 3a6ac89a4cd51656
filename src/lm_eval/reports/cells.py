"""Cells of a table as text, by the names of its columns."""

from __future__ import annotations


class Cells:
    """One line of a table."""

    def __init__(self, **cells: str) -> None:
        self.__dict__.update(cells)
