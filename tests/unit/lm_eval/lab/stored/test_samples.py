"""Samples in order or by number, of files that are complete, grow, are cut off, damaged or replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import ComparisonError
from lm_eval.lab.stored import samples
from lm_eval.lab.stored.samples import SampleLines, parsed_samples


def write(path: Path, *docs: int, end: str = "\n", mode: str = "w") -> None:
    with path.open(mode, encoding="utf-8") as file:
        file.write("\n".join(json.dumps({"doc_id": doc}) for doc in docs) + end)


def docs(source: SampleLines, first: int, count: int) -> list[int]:
    return [sample["doc_id"] for sample in source.samples(first, count)]


def test_any_lines(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write(path, *range(100))
    source = SampleLines(path)
    assert docs(source, 97, 10) == [97, 98, 99]
    assert docs(source, 3, 2) == [3, 4]
    assert docs(source, 100, 1) == []
    assert source.count() == 100


def test_lines_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "BLOCK_BYTES", 7)
    path = tmp_path / "s.jsonl"
    write(path, *range(30))
    assert docs(SampleLines(path), 0, 30) == list(range(30))


def test_only_as_much_is_read_as_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "BLOCK_BYTES", 64)
    path = tmp_path / "s.jsonl"
    write(path, *range(1000))
    assert 3 <= SampleLines(path).count(3) < 20


def test_a_line_without_an_end_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write(path, 0, 1, end="")
    source = SampleLines(path)
    assert docs(source, 0, 10) == [0]
    assert source.rest_bytes == len('{"doc_id": 1}')


def test_a_file_that_grows_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write(path, 0, 1, end="")
    source = SampleLines(path)
    assert source.count() == 1
    with path.open("a") as file:
        file.write('\n{"doc_id": 2}\n')
    assert docs(source, 0, 10) == [0, 1, 2]


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    write(path, *range(50))
    source = SampleLines(path)
    assert source.count() == 50
    write(tmp_path / "other", 7, 8)
    (tmp_path / "other").replace(path)
    assert docs(source, 0, 10) == [7, 8]


def test_a_file_that_is_replaced_meanwhile_is_read_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.jsonl"
    write(path, 100, 0)
    write(tmp_path / "sorted", 0, 100)
    opened = Path.open

    def open_and_replace(file: Path, *arguments: Any) -> Any:
        found = opened(file, *arguments)
        if file == path and (tmp_path / "sorted").exists():
            (tmp_path / "sorted").replace(path)
        return found

    monkeypatch.setattr(Path, "open", open_and_replace)
    source = SampleLines(path)
    assert docs(source, 1, 1) == [0]
    assert docs(source, 1, 1) == [100]


def test_a_file_that_gets_its_final_name_is_read_on(tmp_path: Path) -> None:
    partial, path = tmp_path / "s.jsonl.partial", tmp_path / "s.jsonl"
    write(partial, 0, 1)
    source = SampleLines(partial)
    assert docs(source, 0, 10) == [0, 1]
    write(partial, 2, mode="a")
    partial.rename(path)
    assert docs(source, 1, 10) == [1, 2]
    assert source.changed_at() == path.stat().st_mtime
    assert source.rest_bytes == 0


@pytest.mark.parametrize("line", ["[1]", "{", "nope", '{"doc_id": 1, "resps": "A"}'])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(f'{{"doc_id": 0}}\n{line}\n')
    with pytest.raises(ComparisonError, match="line 2"):
        list(SampleLines(path).samples(0, 5))
    with path.open("rb") as file, pytest.raises(ComparisonError, match="line 2"):
        list(parsed_samples(file, path))


def test_what_orjson_refuses_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"doc_id": 0, "text": "\\ud800", "score": NaN}\n')
    (sample,) = SampleLines(path).samples(0, 1)
    assert sample["text"] == "\ud800"


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(ComparisonError, match="cannot be read"):
        SampleLines(tmp_path / "gone.jsonl").count()
