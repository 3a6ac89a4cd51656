"""Large tables: packed rows are the rows that were read."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.data import packed
from lm_eval.data.packed import PackedRows, RowCollector
from lm_eval.data.table import Table
from tests.support.command_line import Workplace

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)
ROWS = st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4), max_size=40)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "PLAIN_ROWS", 6)
    monkeypatch.setattr(packed, "BLOCK_ROWS", 4)


def collected(rows: list[dict[str, Any]]) -> Table:
    collector = RowCollector()
    collector.extend(dict(row) for row in rows)
    assert len(collector) == len(rows)
    return Table.collected(collector)


@given(ROWS)
def test_a_packed_table_equals_a_plain_one(rows: list[dict[str, Any]]) -> None:
    plain, table = Table(rows), collected(rows)
    assert isinstance(table.rows, PackedRows) == (len(rows) > packed.PLAIN_ROWS)
    assert table == plain
    assert table.column_names == plain.column_names
    assert table.to_list() == plain.to_list()
    assert [table[place] for place in reversed(range(len(rows)))] == plain.to_list()[::-1]
    assert table[1:7:2] == plain[1:7:2]
    assert table.features == plain.features
    assert table.own_rows() == plain.own_rows()
    assert table.own_rows() is table.own_rows()


def test_values_that_cannot_be_packed_stay_as_they_are() -> None:
    rows = [{"n": n} for n in range(20)] + [{"n": 20, "day": date(2026, 11, 17)}]
    table = collected(rows)
    assert table == Table(rows)
    assert isinstance(table.rows, list)
    assert table[20]["day"] == date(2026, 11, 17)


def test_a_place_that_is_not_there() -> None:
    rows = collected([{"n": n} for n in range(20)]).rows
    assert rows[-1] == {"n": 19}
    with pytest.raises(IndexError, match="There is no row 20: the table has 20 rows"):
        rows[20]


QUESTION = "Which of these is it, and how would you know? é \u2028 " * 5


def asked(place: Workplace, name: str, content: str) -> list[dict[str, Any]]:
    kwargs = place.data(name, content)
    place.task(dataset_kwargs=kwargs)
    place.run("--tasks", "t.yaml@mcqa", "--log_samples").ok()
    return place.samples("t@mcqa")


def test_a_file_of_lines_is_asked_as_one_that_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_eval.data.files._PIECE_BYTES", 97)
    place = Workplace(tmp_path)
    rows = [
        {"question": f"{QUESTION}{n}", "choices": ["w", "x", "y", "z"], "answer": n % 4}
        | ({"note": n} if n == 30 else {})
        for n in range(50)
    ]
    lines = "\ufeff" + "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n\n"
    assert asked(place, "lines.jsonl", lines) == asked(place, "list.json", json.dumps(rows))
