"""Rows of text → a table that fits: for a console of any width, or as Markdown.

In: columns and sections of rows, whose cells are texts that are safe to show. Columns that are empty in
every row are left out; if space is short, some columns become lines under the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from lm_eval.support.terminal import cells_of, indented, wrapped

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult


_GAP = "  "
_MIN_TEXT = 12
"""A column of wrapped text can always be this narrow."""
_MARKDOWN_SPECIAL = re.compile(r"([\\`*\[\]<>|&#~$])")


@dataclass(frozen=True)
class Column:
    """One column: the attribute of a row that it shows, and how."""

    field: str
    heading: str
    is_number: bool = False
    wraps: bool = False
    stays: bool = False
    """Whether it is shown even if it is empty in every row."""
    is_cut: bool = False
    """Whether a cell that is too long is cut, and not continued on further lines."""


class FittingTable:
    """A table as lines of text, and a Rich renderable of these lines.

    Rows are objects with an attribute for each column and a ``name``. If space is short, the columns
    named in ``movable`` become lines below the table, in that order: a line for each row. ``has_rule``
    draws a line below the heading.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        sections: Sequence[Sequence[Any]],
        movable: Sequence[str] = (),
        *,
        has_rule: bool = True,
    ) -> None:
        self.sections = [section for section in sections if section]
        self.rows = [row for section in self.sections for row in section]
        self._columns = columns
        self._movable = movable
        self._has_rule = has_rule

    def columns(self, without: Iterable[str] = ()) -> list[Column]:
        """The columns to show, except ``without``."""
        kept = [column for column in self._columns if column.field not in without]
        return [c for c in kept if c.stays or any(getattr(row, c.field) for row in self.rows)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        heading, *lines = self.lines(options.max_width)
        yield Text(heading, style="bold")
        yield from map(Text, lines)

    @property
    def width(self) -> int:
        """How wide the whole table is, with a blank after it."""
        return _total([self._width(column) for column in self.columns()])

    def fits(self, width: int) -> bool:
        """Whether a screen of this width can show it without moving columns or cutting numbers."""
        return _total([self._least(column) for column in self.columns()]) <= width

    def lines(self, width: int | None) -> list[str]:
        """The lines of the table, none wider than ``width`` if possible; None: as wide as it is."""
        for num_moved in range(len(self._movable) + 1):
            moved = self._movable[:num_moved]
            columns = self.columns(moved)
            widths = [self._width(column) for column in columns]
            if width is None or _total(widths) <= width:
                break
        width = width or _total(widths)
        _narrow(widths, [self._least(column) for column in columns], width)
        if _total(widths) > width:  # numbers would be cut
            return self._stacked(width)
        below = self._moved_cells(moved, width)
        return [*self._laid_out(columns, widths), *([""] if below else []), *below]

    def markdown(self) -> list[str]:
        """The lines of the whole table as Markdown."""
        columns = self.columns()
        return [
            _markdown_line(column.heading for column in columns),
            _markdown_line("---:" if column.is_number else "---" for column in columns),
            *(
                _markdown_line(markdown(getattr(row, c.field)) for c in columns)
                for row in self.rows
            ),
        ]

    def _width(self, column: Column) -> int:
        return max(
            map(cells_of, (column.heading, *(getattr(row, column.field) for row in self.rows)))
        )

    def _least(self, column: Column) -> int:
        """How narrow a column can be; only those of text wrap."""
        if not (column.wraps or column.is_cut):
            return self._width(column)
        cells = [column.heading, *(getattr(row, column.field) for row in self.rows)]
        words = [word for cell in cells for word in cell.split()]
        return min(_MIN_TEXT, max(map(cells_of, words), default=0))

    def _laid_out(self, columns: Sequence[Column], widths: Sequence[int]) -> Iterator[str]:
        yield from _lines_of(columns, widths, [column.heading for column in columns])
        if self._has_rule:
            yield "─" * _total(widths)
        for index, section in enumerate(self.sections):
            if index:
                yield ""
            for row in section:
                yield from _lines_of(columns, widths, [getattr(row, c.field) for c in columns])

    def _stacked(self, width: int) -> list[str]:
        """Each row as lines of its own: its name, then its cells."""
        columns = [column for column in self.columns() if column.field != "name"]
        lines: list[str] = []
        for row in self.rows:
            if row.name:  # the second line of something goes on below it
                lines += wrapped(row.name, width)
            cells = [(c.heading, getattr(row, c.field)) for c in columns]
            shown = [f"{heading} {cell}".strip() for heading, cell in cells if cell]
            lines += indented("  ", ", ".join(shown), width)
        return lines

    def _moved_cells(self, moved: Sequence[str], width: int) -> list[str]:
        """The cells of the moved columns, a line for each row."""
        columns = [column for column in self._columns if column.field in moved]
        lines: list[str] = []
        for row in self.rows:
            cells = [(c.heading.lower(), getattr(row, c.field)) for c in columns]
            text = "; ".join(f"{heading}: {cell}" for heading, cell in cells if cell)
            if text:
                lines += indented("  ", f"{row.name}  {text}", width)
        return lines


def _total(widths: Sequence[int]) -> int:
    """The width of the line below the heading, which ends a little after the last column."""
    return sum(widths) + len(_GAP) * len(widths) - 1


def _narrow(widths: list[int], least: Sequence[int], width: int) -> None:
    """Take from the widest column that can give, until all fit."""
    while _total(widths) > width:
        giving = [at for at, low in enumerate(least) if widths[at] > low]
        if not giving:
            return
        widths[max(giving, key=widths.__getitem__)] -= 1


def _lines_of(columns: Sequence[Column], widths: Sequence[int], cells: Sequence[str]) -> list[str]:
    """A row as lines: as many as its longest cell needs."""
    from rich.cells import chop_cells

    blocks = []
    for column, cell, width in zip(columns, cells, widths, strict=True):
        is_long = cells_of(cell) > width
        if is_long and column.is_cut:
            start = chop_cells(cell, width - 1)[0]
            blocks.append([f"{start.rstrip()}…"])
        else:
            blocks.append(wrapped(cell, width) if is_long else [cell])
    shown = []
    for parts in zip_longest(*blocks, fillvalue=""):
        padded = []
        for column, part, width in zip(columns, parts, widths, strict=True):
            space = " " * (width - cells_of(part))
            padded.append(space + part if column.is_number else part + space)
        shown.append(_GAP.join(padded).rstrip())
    return shown


def markdown(text: str) -> str:
    """``text`` with Markdown's special characters escaped."""
    return _MARKDOWN_SPECIAL.sub(r"\\\1", text)


def _markdown_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


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
