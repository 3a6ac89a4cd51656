"""Tables on a console: no line ends with spaces."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.terminal import cells_of

COLUMNS = (
    Column("name", "Name", wraps=True, stays=True),
    Column("score", "Score", is_number=True),
    Column("remark", "Remark", wraps=True),
)
ROWS = [Cells(name="a", score=".525", remark="a long remark of many words"), Cells(name="bb")]


@pytest.mark.parametrize("width", [24, 40, 100])
@pytest.mark.parametrize("terminal", [False, True])
def test_no_line_of_a_table_ends_with_spaces(width: int, terminal: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=terminal, color_system=None)
    console.print(FittingTable(COLUMNS, [ROWS[:1], ROWS[1:]]))
    lines = stream.getvalue().splitlines()
    assert any(line.startswith("bb") for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []


def test_lines_keep_their_style() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=60, force_terminal=True, color_system="standard")
    console.print(FittingTable(COLUMNS, [ROWS]))
    assert stream.getvalue().startswith("\x1b[1mName")


def test_columns_are_cut_wrapped_or_empty() -> None:
    columns = (Column("name", "", wraps=True, stays=True), Column("about", "About", is_cut=True))
    rows = [Cells(about="東京東京東京東京 is long"), Cells(about="short")]
    table = FittingTable(columns, [rows])
    assert all(cells_of(line) <= 16 for line in table.lines(16))
    assert any(line.endswith("…") for line in table.lines(16))
    assert table.lines(None)[2].endswith("is long")
