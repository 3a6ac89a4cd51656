"""Which strings of local JSON become dates under parity: as pyarrow reads them, value by value."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lm_eval.data import load_splits
from lm_eval.data.splits import with_dates
from lm_eval.data.table import Table

pytest.importorskip("pyarrow")
MORNING = datetime(1994, 5, 14, 8)


def column(values: list[Any]) -> list[Any]:
    found: list[Any] = with_dates(Table.from_list([{"x": value} for value in values]))["x"]
    return found


def test_dates_and_other_texts() -> None:
    for text, date in {"1994-05-14T10:00:00+02:00": MORNING, "1994-05-14 08:00": MORNING}.items():
        assert column([text, None]) == [date, None]
    assert str(column(["1994-05-14"])[0]) == "1994-05-14 00:00:00"
    for text in ("", "1994", "1994-02-30", "0000-01-01", "1994-05-14\n", "soon"):
        assert column(["1994-05-14", text]) == ["1994-05-14", text]


def test_nested_values_are_columns_of_their_own() -> None:
    day = datetime(1994, 5, 14)
    assert column([["1994-05-14"], [], None]) == [[day], [], None]
    assert column([["1994-05-14"], ["soon"]]) == [["1994-05-14"], ["soon"]]
    rows = [{"on": "1994-05-14", "by": "Ann"}, {"on": None, "by": "1994-05-14"}, None]
    assert column(rows) == [{"on": day, "by": "Ann"}, {"on": None, "by": "1994-05-14"}, None]
    assert column([1, "1994-05-14"]) == [1, "1994-05-14"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.jsonl", '{"when": "1994-05-14"}\n'), ("a.json", '[{"when": "1994-05-14"}]')],
)
def test_only_json_and_only_on_request(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    (tmp_path / "a.csv").write_text("when,x\n1994-05-14,1\n")
    kwargs = {"data_files": {"test": name}}
    plain = load_splits("json", None, kwargs, base_dir=tmp_path)
    dated = load_splits("json", None, kwargs, base_dir=tmp_path, reads_dates=True)
    assert plain["test"]["when"] == ["1994-05-14"]
    assert dated["test"]["when"] == [datetime(1994, 5, 14)]
    other = load_splits(str(tmp_path / "a.csv"), reads_dates=True)
    assert other["test"]["when"] == ["1994-05-14"]
