"""One row of a table: texts by the names of their columns."""

from __future__ import annotations


class Cells:
    """The cells of one row, read as attributes; a cell that was not set is empty."""

    def __init__(self, **cells: str) -> None:
        self._cells = cells

    def __getattr__(self, column: str) -> str:
        if column.startswith("_"):
            raise AttributeError(column)
        return self._cells.get(column, "")

    def replace(self, **cells: str) -> Cells:
        """The same row with some cells changed."""
        return Cells(**{**self._cells, **cells})
