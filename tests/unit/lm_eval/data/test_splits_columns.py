"""``columns:`` of a task file against the rows of its data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval.data.splits import COLUMN_TYPES, check_columns, expected_columns
from lm_eval.data.table import Table
from lm_eval.errors import ConfigError, DataError
from lm_eval.tasks.config import TaskConfig
from lm_eval.tasks.task import ConfigurableTask

ROW = {"q": "?", "n": 1, "x": 0.5, "b": True, "l": ["a"], "d": {"a": 1}, "none": None}
KINDS = dict(zip(ROW, ("string", "int", "float", "bool", "list", "dict", "any"), strict=True))


def check(columns: Any, *rows: dict[str, Any]) -> None:
    check_columns(Table(rows or [ROW]), columns, source="The data set 'o/n'", split="test")


def test_every_type_and_plain_names() -> None:
    assert set(KINDS.values()) == set(COLUMN_TYPES)
    check(KINDS)
    check(list(ROW))
    check({"n": "float", "none": "int"})  # whole numbers are numbers, and None fits every type
    check({"n": "int"}, {"n": None}, {"n": 3})


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"q": "int"}, "'q' holds strings, not ints"),
        (["q", "answer"], "it has no column 'answer'"),
        ({"d": "list", "n": "string"}, "'d' holds objects, not lists; 'n' holds ints, not strings"),
    ],
)
def test_what_differs_is_named(columns: Any, said: str) -> None:
    with pytest.raises(DataError) as info:
        check(columns)
    assert (
        f"The data set 'o/n', split 'test', is not what the task file expects (columns): {said}."
        in str(info.value)
    )
    assert "Columns there: q (string), n (int)" in str(info.value)
    assert "`dataset_revision: SHA`" in str(info.value)


@pytest.mark.parametrize("columns", ["q", {}, [], {"q": "text"}, {"q": None}])
def test_wrong_statements(columns: Any) -> None:
    with pytest.raises(ConfigError, match="columns"):
        expected_columns(columns)
    with pytest.raises(ConfigError, match="Task 't': columns"):
        TaskConfig(task="t", columns=columns)


def test_a_task_whose_data_has_changed(write: Callable[..., Path]) -> None:
    path = write("rows.jsonl", json.dumps({"q": "?", "answer": "B"}) + "\n")
    config = {"task": "t", "dataset_path": str(path), "test_split": "test", "doc_to_text": "q"}
    with pytest.raises(DataError, match="'answer' holds strings, not ints"):
        _ = ConfigurableTask(TaskConfig(**config, columns={"answer": "int"})).eval_docs
    same = ConfigurableTask(TaskConfig(**config, columns={"answer": "string"}))
    assert len(same.eval_docs) == 1
    assert same.fingerprint == ConfigurableTask(TaskConfig(**config)).fingerprint


@pytest.mark.parametrize("files", [3, {"test": []}, {"test": 1}, {1: "a"}, "", {"test": [""]}])
def test_wrong_files(files: Any) -> None:
    with pytest.raises(ConfigError, match=r"dataset_files must be files .* by split"):
        TaskConfig(task="t", dataset_files=files)


@pytest.mark.parametrize("revision", [3, "", 1e5])
def test_wrong_revisions(revision: Any) -> None:
    with pytest.raises(ConfigError, match="dataset_revision must be a commit, branch or tag"):
        TaskConfig(task="t", dataset_revision=revision)


def test_revision_and_files_are_part_of_the_fingerprint() -> None:
    configs = [
        TaskConfig(task="t"),
        TaskConfig(task="t", dataset_revision="v1"),
        TaskConfig(task="t", dataset_files={"test": "a.jsonl"}),
    ]
    assert len({ConfigurableTask(config).fingerprint for config in configs}) == 3
