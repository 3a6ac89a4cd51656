"""Columns of a Markdown table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lm_eval.support.markdown import markdown_table


def test_numbers_to_the_right_with_the_decimals_of_the_longest() -> None:
    table = markdown_table(("Name", "Value"), [("a|b", 0.5), ("c", "1.25"), ("", 3)])
    assert table == ("|Name|Value|\n|----|----:|\n|a\\|b | 0.50|\n|c   | 1.25|\n|    | 3.00|\n")


CELLS = st.one_of(
    st.none(), st.text(max_size=6), st.integers(-9, 9), st.floats(-9, 9), st.booleans()
)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=6))
def test_every_row_has_every_column(rows: list[tuple[object, object]]) -> None:
    shown = [
        tuple("x" if isinstance(c, str) and not c.isprintable() else c for c in r) for r in rows
    ]
    lines = markdown_table(("First", "Second"), shown).split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(rows) + 2
    assert all(line.replace("\\|", "").count("|") == 3 for line in lines)
