"""Tables, splits and data files: nothing is lost, and each error says which file and line."""

from __future__ import annotations

import builtins
import csv
import gzip
import io
import json
import sys
import threading
import time
import tracemalloc
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval.config.yaml import load_yaml
from lm_eval.data import Splits, Table, load_splits
from lm_eval.data.csv_rows import read_csv_text
from lm_eval.data.files import read_json_text
from lm_eval.errors import DataError, MissingExtraError
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.task import ConfigurableTask

Write = Callable[..., Path]
TEXT = st.text()
ROWS = st.lists(
    st.dictionaries(
        st.sampled_from("abcdé "),
        st.none() | st.booleans() | st.integers() | TEXT | st.lists(TEXT, max_size=3),
    ),
    min_size=1,
    max_size=8,
)


# --- Table ---


@given(ROWS)
def test_rows_share_one_schema(rows: list[dict[str, Any]]) -> None:
    table = Table.from_list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    assert table.column_names == names == list(table.features)
    assert len(table) == len(rows) == table.num_rows
    for given_row, row in zip(rows, table, strict=True):
        assert list(row) == names
        assert row == {name: given_row.get(name) for name in names}
    for name in names:
        assert table[name] == [row.get(name) for row in rows]
    assert Table.from_dict({name: table[name] for name in names}) == table or not names


@given(ROWS)
def test_nothing_done_to_a_row_changes_the_table(rows: list[dict[str, Any]]) -> None:
    table = Table.from_list(rows)
    before = table.to_list()

    def spoil(row: dict[str, Any]) -> dict[str, Any]:
        for value in row.values():
            if isinstance(value, list):
                value.append("spoiled")
        row["new"] = 1
        return row

    for row in rows:
        spoil(row)
    mapped = table.map(spoil)
    table.filter(spoil)
    for row in table:
        spoil(row)
    for row in mapped:
        spoil(row)
    spoil(table[0])
    for name in table.column_names:
        spoil({"values": table[name]})
    assert table.to_list() == before
    assert mapped["new"] == [1] * len(rows)


def test_indexing() -> None:
    table = Table.from_list([{"a": i} for i in range(5)])
    assert table[-1] == {"a": 4}
    assert isinstance(table[1:3], Table)
    assert table[1:3]["a"] == [1, 2]
    assert table.select([3, 0, 3])["a"] == [3, 0, 3]
    assert {"a": 2} in table
    with pytest.raises(IndexError):
        table[5]
    with pytest.raises(DataError, match="no row 9"):
        table.select([9])
    with pytest.raises(DataError, match=r"no column 'answr'\. Did you mean 'answer'"):
        Table.from_list([{"answer": 1}])["answr"]


def test_map_options() -> None:
    table = Table.from_list([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    assert table.map(lambda r: {"c": r["a"]}, remove_columns=["a"]).to_list() == [
        {"b": 2, "c": 1}, {"b": 4, "c": 3},
    ]  # fmt: skip
    assert table.map(lambda r: {"a": 0}, remove_columns="a")["a"] == [0, 0]
    assert table.map(lambda r, i: {"i": i}, with_indices=True, num_proc=4)["i"] == [0, 1]
    assert table.map(lambda a, k: {"a": a + k}, input_columns="a", fn_kwargs={"k": 1})["a"] == [
        2,
        4,
    ]
    assert table.map(lambda r: None) == table
    assert table.map(lambda r: {"odd": 1} if r["a"] == 1 else {})["odd"] == [1, None]
    doubled = table.map(lambda b: {"a": b["a"] * 2}, batched=True, remove_columns=["a", "b"])
    assert doubled["a"] == [1, 3, 1, 3]
    with pytest.raises(DataError, match="returned a int for row 0"):
        table.map(lambda r: 1)
    with pytest.raises(DataError, match="Did you mean 'num_proc'"):
        table.map(lambda r: r, num_procs=1)
    assert table.filter(lambda r: r["a"] > 1)["b"] == [4]
    assert table.filter(lambda r: False).column_names == ["a", "b"]


def test_columns_come_and_go() -> None:
    table = Table.from_list([{"a": 1, "b": "x"}, {"a": 2, "b": None}])
    assert table.features == {"a": "int", "b": "string"}
    assert Table.from_list([{"a": 1}, {"a": 2.5}]).features == {"a": "float"}
    assert Table.from_list([{"a": 1}, {"a": "x"}, {"b": None}]).features == {
        "a": "mixed", "b": "null",
    }  # fmt: skip
    assert table.rename_column("a", "z").column_names == ["z", "b"]
    assert table.remove_columns("a").column_names == ["b"]
    assert table.add_column("c", [5, 6])[1] == {"a": 2, "b": None, "c": 6}
    assert table.unique("a") == [1, 2]
    for broken in (
        lambda: Table.from_dict({"a": [1], "b": []}),
        lambda: Table.from_list([3]),  # type: ignore[list-item]
        lambda: Table.from_list([{1: 2}]),  # type: ignore[dict-item]
    ):
        with pytest.raises(DataError):
            broken()


def test_shuffle_is_that_of_numpy() -> None:
    pytest.importorskip("numpy")
    table = Table.from_list([{"a": i} for i in range(10)])
    # numpy.random.default_rng(42).permutation(10), which `datasets` uses
    assert table.shuffle(seed=42)["a"] == [5, 6, 0, 7, 3, 2, 4, 9, 1, 8]


def test_a_column_that_comes_late_is_there_in_every_row(write: Write) -> None:
    row = {"question": "q" * 200, "choices": ["a", "b", "c", "d"], "answer": 1, "subject": "x"}
    lines = [json.dumps(row if i % 2 else {**row, "extra": i}) for i in range(14_000)]
    path = write("test.jsonl", "\n".join(lines))
    table = load_splits(str(path))["test"]
    assert len(table) == 14_000
    assert table[1]["extra"] is None


# --- JSON ---


@given(st.lists(st.fixed_dictionaries({"t": TEXT, "n": st.integers()}), min_size=1))
@settings(max_examples=200)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_jsonl_round_trip(ascii_only: bool, rows: list[dict[str, Any]]) -> None:
    text = "\n".join(json.dumps(row, ensure_ascii=ascii_only) for row in rows)
    assert read_json_text(text, "t.jsonl").to_list() == rows
    assert read_json_text(json.dumps(rows, indent=1), "t.json").to_list() == rows


@pytest.mark.parametrize(
    "value",
    ["\0", "😀", "\u202eשלום", "\ud800", "x" * 1_000_000, "\u2028\x85\x0b\r\n", 10**400, -0.0],
)
def test_values_go_through_unchanged(write: Write, value: Any) -> None:
    path = write("d.jsonl", "\ufeff" + json.dumps({"v": value}) + "\r\n\n  \n")
    assert load_splits(str(path))["test"].to_list() == [{"v": value}]


def test_nan_and_infinity_are_floats() -> None:
    row = read_json_text('{"a": NaN, "b": -Infinity}', "t")[0]
    assert row["a"] != row["a"]
    assert row["b"] == float("-inf")


def test_lines_are_read_one_at_a_time() -> None:
    text = ('{"a": 1' + " " * 1000 + "}\n") * 1000
    tracemalloc.start()
    try:
        rows = read_json_text(text, "t")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(rows) == 1000
    assert most < len(text) / 2  # no second copy of the file


def test_lines_share_their_keys() -> None:
    """Of many short rows, keys would take more memory than values."""
    first, second = read_json_text('{"a long key": {"b c": 1}}\n{"a long key": {"b c": 2}}', "x")
    for one, other in ((first, second), (first["a long key"], second["a long key"])):
        assert [key is known for key, known in zip(one, other, strict=True)] == [True]


def test_json_shapes(write: Write) -> None:
    text = json.dumps({"data": {"rows": [{"a": 1}]}, "a.b": [{"c": 2}]}, indent=1)
    assert read_json_text(text, "t", field="data.rows").to_list() == [{"a": 1}]
    assert read_json_text(text, "t", field="a.b").to_list() == [{"c": 2}]
    assert read_json_text('{"d": {"x": [1, 2]}}', "t", field="d")["x"] == [1, 2]
    with pytest.raises(DataError, match=r"no field 'dta'\. Did you mean 'data'"):
        read_json_text(text, "t", field="dta")
    with pytest.raises(DataError, match=r"one JSON object over several lines.*\{field: a\.b\}"):
        read_json_text(text, "t")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"a": 1}\n{"a": \x01}\n', "line 2, column 7: broken JSON: Expecting value."),
        (b'{"a": 1}\n{"a": "x\x00y"}\n', 'x␀y"}'),
        (b'{"a": 1}\n[1]\n', "line 2: each row must be an object"),
        (b'{\n"rows": [{"a": 1}]\n}\n', "one JSON object over several lines"),
        (b'{"a": 1}\n\n"x"\n', "line 3: each row must be an object"),
        (b'[{"a": 1}, 3]', "item 2 of the list"),
        (b'[{"a": 1},\n {"a": }]', "line 2, column 8"),
        (b'{"a": 1}\n{"a": "\xff"}\n', "line 2: byte 0xff is not valid UTF-8"),
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"[]", "has no rows"),
        (b'{"a": 1}\n{"b": 1, "b": 2}\n', "line 2: the key 'b' occurs twice"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'\xff\xfe{\x00"\x00', "encoding: utf-16"),
    ],
)
def test_broken_json(write: Write, data: bytes, words: str) -> None:
    path = write("d.jsonl", data)
    with pytest.raises(DataError) as info:
        load_splits(str(path))["test"]
    assert words in str(info.value)
    assert str(path) in str(info.value)


def test_gzip(write: Write) -> None:
    path = write("d.jsonl.gz", gzip.compress(b'{"a": 1}\n'))
    assert load_splits(str(path))["test"].to_list() == [{"a": 1}]
    for data in (b"no gzip", gzip.compress(b'{"a": 1}\n')[:-4]):
        with pytest.raises(DataError, match="not a complete gzip file"):
            load_splits(str(write("e.jsonl.gz", data)))["test"]


# --- CSV ---


def _as_csv(rows: list[list[str]], **options: Any) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL, **options).writerows(rows)
    return file.getvalue()


def test_a_csv_file_with_very_many_columns() -> None:
    columns = [f"c{n}" for n in range(100_000)]
    began = time.process_time()
    (row,) = read_csv_text(",".join(columns) + "\n" + ",".join("1" * 100_000), "t.csv")
    assert len(row) == 100_000
    assert time.process_time() - began < 20  # it took minutes: each name was looked for in all


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1), st.sampled_from(",\t;"))
@settings(max_examples=200)
def test_csv_round_trip(rows: list[tuple[str, str]], delimiter: str) -> None:
    # A first row of letters keeps both columns text.
    records = [["a", "b"], ["x", "y"], *map(list, rows)]
    table = read_csv_text(_as_csv(records, delimiter=delimiter), "t.csv", delimiter=delimiter)
    expected = [{"a": a or None, "b": b or None} for a, b in records[1:]]
    assert table.to_list() == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-2", ""], [1, -2, None]),
        (["1", "2.5", "1e3"], [1.0, 2.5, 1000.0]),
        (["true", "False"], [True, False]),
        (["007", "1"], ["007", "1"]),
        (["+1", "1"], ["+1", "1"]),
        (["-0", "1"], [-0.0, 1.0]),
        (["NA", "1"], ["NA", "1"]),
        (["None", ""], ["None", None]),
        (["nan", "1.0"], ["nan", "1.0"]),
        (["1e999", "1"], ["1e999", "1"]),
        ([str(2**70), "1"], [2**70, 1]),
        ([str(2**70 + 1), "1.5"], [str(2**70 + 1), "1.5"]),
        ([" 1", "1"], [" 1", "1"]),
        (["٣", "1"], ["٣", "1"]),
        (["1_000", "1"], ["1_000", "1"]),
        (["9" * 5000, "1"], ["9" * 5000, "1"]),
        (["", ""], [None, None]),
    ],
)
def test_csv_types(values: list[str], expected: list[Any]) -> None:
    table = read_csv_text(_as_csv([["a"], *([value] for value in values)]), "t")
    assert repr(table["a"]) == repr(expected)


def test_csv_options(write: Write) -> None:
    assert read_csv_text("1,x\n2,y\n", "t", column_names=["n", "s"]).to_list() == [
        {"n": 1, "s": "x"}, {"n": 2, "s": "y"},
    ]  # fmt: skip
    assert read_csv_text("a,b\n1,2\n", "t", names=["c", "d"], header=0).to_list() == [
        {"c": 1, "d": 2}
    ]
    assert read_csv_text('a|b\n"x|1\n', "t", sep="|", quotechar=None)["a"] == ['"x']
    assert read_csv_text("a|b\n'x|y'|1\n", "t", sep="|", quotechar="'")["a"] == ["x|y"]
    assert read_csv_text('a\tb\n"x\t1\n', "t", sep="\t", quoting=3)["a"] == ['"x']
    assert read_csv_text(",a\n0,x\n", "t").column_names == ["Unnamed: 0", "a"]
    path = write("d.tsv", b"\xef\xbb\xbfq\ta\r\nx, y\t1\r\n\r\n")
    assert load_splits(str(path))["test"].to_list() == [{"q": "x, y", "a": 1}]
    path = write("l.csv", "é\n".encode("latin-1") + b"x\n")
    assert load_splits(str(path), None, {"encoding": "latin-1"})["test"].column_names == ["é"]
    with pytest.raises(DataError, match="latin-5x"):
        load_splits(str(path), None, {"encoding": "latin-5x"})["test"]
    with pytest.raises(DataError, match=r"'delimeter'.*Did you mean 'delimiter'"):
        load_splits(str(path), None, {"delimeter": ";"})


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_a_header_without_commas_is_parted_by_what_parts_all_records_alike(mark: str) -> None:
    text = f'question{mark}answer\nIs 1, 2 even?{mark}no\n"a{mark}b"{mark}yes\n'
    rows = [
        {"question": "Is 1, 2 even?", "answer": "no"},
        {"question": f"a{mark}b", "answer": "yes"},
    ]
    assert read_csv_text(text, "t").to_list() == rows
    with pytest.raises(DataError, match=r"name the separator: dataset_kwargs: \{delimiter: "):
        read_csv_text(f"question{mark}answer\nIs 1, 2 even?{mark}no{mark}yes\n", "t")


def test_one_column_stays_one_column() -> None:
    assert read_csv_text("text\na;b\nc\n", "t")["text"] == ["a;b", "c"]
    assert read_csv_text("a;b\nc;d\n", "t", column_names=["text"])["text"] == ["a;b", "c;d"]


def test_huge_csv_fields_and_the_global_limit() -> None:
    limit = csv.field_size_limit()
    assert read_csv_text("a\n" + "x" * 1_000_000, "t")["a"] == ["x" * 1_000_000]
    with pytest.raises(DataError):
        read_csv_text("a\n1,2\n", "t")
    assert csv.field_size_limit() == limit
    done = threading.Thread(target=lambda: read_csv_text("a\n1\n", "t"))
    done.start()
    done.join(240)
    assert not done.is_alive()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('a,b\n"x\ny",1\n1,2,3\n', "line 4: 3 values for 2 columns (a, b)"),
        ("a,b\n1\n", "line 2: 1 values for 2 columns"),
        ("a,a\n1,2\n", "two columns are called 'a'"),
        ('a,b\n1,2\n"x,1\n', "line 3: broken CSV"),
        ('a,b\n"x"y,1\n', "line 2: broken CSV"),
        ("a,b\n", "has no rows"),
        ("", "is empty"),
    ],
)
def test_broken_csv(write: Write, text: str, words: str) -> None:
    path = write("d.csv", text)
    with pytest.raises(DataError) as info:
        load_splits(str(path))["test"]
    assert words in str(info.value)
    assert str(path) in str(info.value)


def test_csv_option_errors() -> None:
    for options in ({"header": None}, {"header": 5}, {"delimiter": "ab"}):
        with pytest.raises(DataError, match=r"^t"):
            read_csv_text("a\n1\n", "t", **options)


# --- Parquet and text ---


def test_parquet(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"q": "a\0", "c": ["x", "y"], "s": {"k": 1}}, {"q": None, "c": [], "s": None}]
    path = tmp_path / "test.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert load_splits(str(path))["test"].to_list() == rows
    assert (
        load_splits("parquet", None, {"data_files": {"test": str(path)}})["test"].to_list() == rows
    )
    broken = write("broken.parquet", b"PAR1 not really")
    with pytest.raises(DataError, match=r"broken\.parquet cannot be read as Parquet"):
        load_splits(str(broken))["test"]
    _forbid_import(monkeypatch, "pyarrow")
    with pytest.raises(MissingExtraError, match=r"pip install 'lm-eval-formats\[parquet\]'"):
        load_splits(str(path))["test"]


def _forbid_import(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    real = builtins.__import__

    def fake(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fake)


def test_text_lines_keep_blank_ones(write: Write) -> None:
    path = write("d.txt", "one\r\n\n two \u2028x\nlast")
    expected = ["one", "", " two \u2028x", "last"]
    assert load_splits("text", None, {"data_files": str(path)})["train"]["text"] == expected
    assert load_splits(str(path), None, {"keep_linebreaks": True})["t"]["text"][0] == "one\n"


# --- splits ---


def test_data_files_spellings(write: Write, tmp_path: Path) -> None:
    write("a1.jsonl", '{"x": 1}\n')
    write("a2.jsonl", '{"x": 2, "y": 3}\n')
    load = lambda files: load_splits("json", None, {"data_files": files}, base_dir=tmp_path)  # noqa: E731
    both = [{"x": 1, "y": None}, {"x": 2, "y": 3}]
    assert load("a1.jsonl")["train"].to_list() == [{"x": 1}]
    assert load(["a1.jsonl", "a2.jsonl"])["train"].to_list() == both
    splits = load({"test": "a*.jsonl", "dev": ["a2.jsonl"]})
    assert splits.names == ["test", "dev"]
    assert splits["test"].to_list() == both
    assert splits["test"] is splits["test"]
    with pytest.raises(
        DataError, match=r"no split 'tset'\. Did you mean 'test'\? Splits: test, dev"
    ):
        splits["tset"]
    assert splits.get("tset") is None
    assert "tset" not in splits
    write("[x].jsonl", '{"x": 9}\n')
    assert load({"test": "[x].jsonl"})["test"]["x"] == [9]
    with pytest.raises(
        DataError, match=r"'a3\.jsonl' \(data_files, split 'test'\).*Did you mean 'a"
    ):
        load({"test": "a3.jsonl"})
    for broken in ({"test": 3}, {"test": []}, "z*.jsonl", None):
        with pytest.raises(DataError):
            load(broken)


def test_a_split_is_read_only_when_asked_for(write: Write, tmp_path: Path) -> None:
    write("good.jsonl", '{"x": 1}\n')
    write("bad.jsonl", "broken\n")
    files = {"test": "good.jsonl", "train": "bad.jsonl"}
    splits = load_splits("json", None, {"data_files": files}, base_dir=tmp_path)
    assert len(splits["test"]) == 1
    with pytest.raises(DataError, match=r"bad\.jsonl, line 1"):
        splits["train"]


def test_one_file_answers_to_one_name(write: Write) -> None:
    splits = load_splits(str(write("d.csv", "a\n1\n")))
    assert "anything" in splits
    assert splits["test"] is splits["test"]
    assert splits.names == ["test"]
    assert "validation" not in splits
    with pytest.raises(DataError, match=r"dataset_path: csv with dataset_kwargs: \{data_files: "):
        splits["validation"]


def test_folders_name_their_splits(write: Write, tmp_path: Path) -> None:
    write("d/test.jsonl", '{"x": 1}\n')
    write("d/dev.csv", "x\n2\n")
    write("d/my-train-data.tsv", "x\n3\n")
    write("d/README.txt", "hello")
    write("d/dataset_info.json", "{}")
    splits = load_splits("d", base_dir=tmp_path)
    assert sorted(splits.names) == ["test", "train", "validation"]
    for name in ("validation", "dev", "val", "valid"):
        assert splits[name]["x"] == [2]
    assert splits["train"]["x"] == [3]
    with pytest.raises(DataError, match="no split 'extra'"):
        splits["extra"]


def test_folders_with_shards_subfolders_and_doubts(write: Write, tmp_path: Path) -> None:
    write("p/data/test-00000-of-00002.jsonl", '{"x": 1}\n')
    write("p/data/test-00001-of-00002.jsonl", '{"x": 2}\n')
    assert load_splits("./p", base_dir=tmp_path)["test"]["x"] == [1, 2]
    write("s/easy/test.jsonl", '{"x": 1}\n')
    assert load_splits("s", "easy", base_dir=tmp_path)["test"]["x"] == [1]
    with pytest.raises(DataError, match="Did you mean 'easy'"):
        load_splits("s/", "eassy", base_dir=tmp_path)
    write("f/test/a.jsonl", '{"x": 1}\n')
    write("f/test/b.csv", "x\n2\n")
    assert load_splits("f", base_dir=tmp_path)["test"]["x"] == [1, 2]
    write("t/test.jsonl", '{"x": 1}\n')
    write("t/test.csv", "x\n1\n")
    with pytest.raises(DataError, match="several files for the split 'test'"):
        load_splits("t", base_dir=tmp_path)
    write("v/dev.jsonl", '{"x": 1}\n')
    write("v/val.jsonl", '{"x": 2}\n')
    both = load_splits("v", base_dir=tmp_path)
    assert (both["dev"]["x"], both["val"]["x"]) == ([1], [2])
    write("e/notes.md", "x")
    with pytest.raises(DataError, match=r"holds no data files.*notes\.md"):
        load_splits("./e", base_dir=tmp_path)


def test_beside_the_yaml_first_then_the_current_folder(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("task/d.jsonl", '{"x": "task"}\n')
    write("cwd/d.jsonl", '{"x": "cwd"}\n')
    write("cwd/e.jsonl", '{"x": "cwd"}\n')
    monkeypatch.chdir(tmp_path / "cwd")
    assert load_splits("d.jsonl", base_dir=tmp_path / "task")["t"]["x"] == ["task"]
    assert load_splits("e.jsonl", base_dir=tmp_path / "task")["t"]["x"] == ["cwd"]
    assert load_splits("d.jsonl", base_dir=None)["t"]["x"] == ["cwd"]
    with pytest.raises(DataError) as info:
        load_splits("f.jsonl", base_dir=tmp_path / "task")
    for part in ("Missing file 'f.jsonl'", "task/f.jsonl", "cwd/f.jsonl", "Did you mean 'd.jsonl'"):
        assert part in str(info.value)
    with pytest.raises(DataError, match="Missing file"):
        load_splits("./nowhere/x", base_dir=None)
    with pytest.raises(DataError, match=r"'\.xyz' tells no file type"):
        load_splits(str(write("d.xyz", "x")))


# --- the hub ---


def test_loader_datasets_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    _forbid_import(monkeypatch, "datasets")
    with pytest.raises(MissingExtraError, match=r"lm-eval-formats\[datasets\]") as info:
        load_splits("allenai/ai2_arc", "main", {"loader": "datasets"})
    assert "data_files" in str(info.value)


def test_hub_with_the_library(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def load_dataset(path: str, name: str | None, **kwargs: Any) -> Any:
        calls.append((path, name, kwargs))
        if path == "broken":
            raise RuntimeError("Dataset scripts are no longer supported")
        if "split" in kwargs:
            return [{"q": 1}]
        return {"test": [{"q": 1}], "train": [{"q": 2}]}

    fake = types.ModuleType("datasets")
    fake.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", fake)
    library = {"loader": "datasets"}
    splits = load_splits("a/b", "main", {"trust_remote_code": True, "revision": "r", **library})
    assert calls == [("a/b", "main", {"revision": "r"})]
    assert "trust_remote_code is ignored" in caplog.text
    assert splits["test"].to_list() == [{"q": 1}]
    with pytest.raises(DataError, match=r"'a/b' \(main\) has no split 'tst'"):
        splits["tst"]
    assert load_splits("a/b", None, {"split": "test"})["test"].to_list() == [{"q": 1}]
    assert load_splits("a/b", has_media=True)["train"].to_list() == [{"q": 2}]
    assert load_splits("a/b", None, {"own_option": 3}, revision="r")["train"].to_list() == [
        {"q": 2}
    ]
    assert calls[-1] == ("a/b", None, {"own_option": 3, "revision": "r"})
    assert isinstance(load_splits("json", None, {"data_files": "https://x/y.json"}), Splits)
    load_splits("tsv", None, {"data_files": ["https://x/y.tsv"]})
    assert calls[-1] == ("csv", None, {"sep": "\t", "data_files": ["https://x/y.tsv"]})
    with pytest.raises(DataError, match="loading script, which `datasets` no longer runs"):
        load_splits("broken", None, library)


def test_a_folder_is_no_data_file(write: Write, tmp_path: Path) -> None:
    write("parts/a.csv", "x\n1\n")
    with pytest.raises(DataError) as info:
        load_splits("csv", None, {"data_files": {"test": "parts"}}, base_dir=tmp_path)
    message = str(info.value)
    assert "'parts' (data_files, split 'test') is a folder, not a file" in message
    assert "'parts/*.csv'" in message
    assert "a.csv" in message
    assert "Did you mean" not in message


# --- files that several tasks read ---


def test_readers_of_one_file_share_its_rows(write: Write) -> None:
    path = write("d.jsonl", '{"x": [1]}\n')

    def rows(**how: Any) -> Any:
        return load_splits(str(path), **how)["test"].own_rows()

    first = load_splits(str(path))["test"]
    assert rows()[0] is first.own_rows()[0]
    assert rows(is_private=True)[0] is not first.own_rows()[0]
    first[0]["x"].append(2)  # a copy
    assert rows() == [{"x": [1]}]
    assert rows(reads_dates=True)[0] is not first.own_rows()[0]
    write("d.jsonl", '{"x": [1, 2]}\n')
    assert rows() == [{"x": [1, 2]}]


def test_tasks_with_python_of_their_own_share_nothing(write: Write) -> None:
    path = write("d.jsonl", '{"question": "Q", "answer": "A"}\n')
    keys: Any = {"task": "t", "dataset_path": str(path), "test_split": "test"}
    plain = [ConfigurableTask(TaskConfig(**keys, doc_to_text="question")) for _ in range(2)]
    assert plain[0].eval_docs[0] is plain[1].eval_docs[0]
    write("helper.py", "def text(doc):\n    doc['question'] += '!'\n    return doc['question']\n")
    file = write("own.yaml", "doc_to_text: !function helper.text\n")
    own = ConfigurableTask(TaskConfig(**keys, doc_to_text=load_yaml(file)["doc_to_text"]))
    assert own.eval_docs[0] is not plain[0].eval_docs[0]
