"""Rows of text → a table that fits: for a console of any width, or as Markdown.

In: columns and sections of rows, whose cells are texts that are safe to show. Columns that are empty in
every row are left out; if space is short, some columns become lines under the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval.support.terminal import Paragraph

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table


_NARROWEST_TEXT = 12
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


class FittingTable:
    """A Rich renderable that moves columns to lines below the table if space is short.

    Rows are objects with an attribute for each column and a ``name``, which begins such a line.
    ``movable`` names the columns that become lines, in that order: a line for each row.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        sections: Sequence[Sequence[Any]],
        movable: Sequence[str] = (),
    ) -> None:
        self.sections = [section for section in sections if section]
        self.rows = [row for section in self.sections for row in section]
        self._columns = columns
        self._movable = movable

    def columns(self, without: Iterable[str] = ()) -> list[Column]:
        """The columns to show, except ``without``."""
        kept = [column for column in self._columns if column.field not in without]
        return [c for c in kept if c.stays or any(getattr(row, c.field) for row in self.rows)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unlimited = options.update(width=1000)
        for num_moved in range(len(self._movable) + 1):
            moved = self._movable[:num_moved]
            table = self._table(moved)
            if table.__rich_measure__(console, unlimited).maximum <= options.max_width:
                break
        if self._least_width(moved) > options.max_width:  # numbers would be cut
            yield from self._stacked()
            return
        yield from _unpadded(table, console, options)
        lines = self._lines(moved)
        yield from ["", *lines] if lines else []

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

    def _table(self, without: Sequence[str]) -> Table:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        columns = self.columns(without)
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for column in columns:
            table.add_column(
                column.heading,
                justify="right" if column.is_number else "left",
                no_wrap=not column.wraps,
                overflow="fold",
            )
        for index, section in enumerate(self.sections):
            if index:
                table.add_section()
            for row in section:
                table.add_row(*(Text(getattr(row, column.field)) for column in columns))
        return table

    def _least_width(self, without: Sequence[str]) -> int:
        """The width of the table if only text columns wrap."""
        from rich.cells import cell_len

        widths = []
        for column in self.columns(without):
            cells = [column.heading, *(getattr(row, column.field) for row in self.rows)]
            if column.wraps:
                words = [word for cell in cells for word in cell.split()]
                widths.append(min(_NARROWEST_TEXT, max(map(cell_len, words), default=0)))
            else:
                widths.append(max(map(cell_len, cells)))
        return sum(widths) + len(widths)

    def _stacked(self) -> Iterator[RenderableType]:
        """Each row as lines of its own: its name, then its cells."""
        columns = [column for column in self.columns() if column.field != "name"]
        for row in self.rows:
            if row.name:  # the second line of something goes on below it
                yield Paragraph("", row.name)
            cells = [(c.heading, getattr(row, c.field)) for c in columns]
            shown = [f"{heading} {cell}".strip() for heading, cell in cells if cell]
            yield Paragraph("  ", ", ".join(shown))

    def _lines(self, moved: Sequence[str]) -> list[RenderableType]:
        """The cells of the moved columns."""
        columns = [column for column in self._columns if column.field in moved]
        lines: list[RenderableType] = []
        for row in self.rows:
            cells = [(c.heading.lower(), getattr(row, c.field)) for c in columns]
            text = "; ".join(f"{heading}: {cell}" for heading, cell in cells if cell)
            if text:
                lines.append(Paragraph("  ", f"{row.name}  {text}"))
        return lines


def _unpadded(table: Table, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
    """The lines of a table without spaces at their ends: piped output has none to trip over."""
    from rich.segment import Segment, Segments

    for line in console.render_lines(table, options, pad=False):
        kept = list(Segment.simplify(line))
        while kept and not kept[-1].text.rstrip():
            kept.pop()
        if kept:
            kept[-1] = Segment(kept[-1].text.rstrip(), kept[-1].style, kept[-1].control)
        yield Segments([*kept, Segment.line()])


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
