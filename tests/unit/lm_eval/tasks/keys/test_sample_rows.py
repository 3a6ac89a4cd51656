"""``sample_rows``: invented rows to look at before the data is there, and never to score."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.api.task import TaskConfig
from lm_eval.cli import main
from lm_eval.errors import ConfigError
from lm_eval.tasks.keys.sample_rows import sample_splits
from lm_eval.tasks.loader import TaskManager
from tests.support.command_line import Outcome, Workplace, run_inside

ROWS: list[dict[str, Any]] = [
    {"question": f"Invented {n}?", "choices": ["v", "w", "x"], "answer": n % 3, "id": f"i{n}"}
    for n in range(3)
]
KEYS: dict[str, Any] = {
    "dataset_path": "owner/not_there",
    "dataset_kwargs": ...,
    "sample_rows": "rows/t.jsonl",
    "columns": {"question": "string", "answer": "int"},
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    made = Workplace(tmp_path)
    write_rows(made, ROWS)
    return made


def write_rows(place: Workplace, rows: list[dict[str, Any]]) -> None:
    place.write("rows/t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def call(place: Workplace, *words: str) -> Outcome:
    return run_inside(place.folder, main, words)


def test_a_preview_without_the_data_shows_them_and_says_so(place: Workplace) -> None:
    path = place.task(**KEYS)
    done = call(place, "preview", path).ok()
    assert "Invented 0?" in done.out
    assert done.out.splitlines()[1] == "(invented rows; `lm-eval fetch t` gets the data)"


def test_a_preview_with_the_data_shows_the_data_unless_asked_otherwise(place: Workplace) -> None:
    path = place.task(sample_rows="rows/t.jsonl")
    shown = call(place, "preview", path)
    assert "Q0?" in shown.out
    assert "(invented rows" not in shown.out
    asked = call(place, "preview", path, "--sample_rows")
    assert "Invented 0?" in asked.out
    assert "(invented rows;" in asked.out


def test_a_run_never_uses_them(place: Workplace) -> None:
    place.run("--tasks", place.task(**KEYS)).refused("owner/not_there")
    assert not place.written()
    kept = place.run("--tasks", place.task(sample_rows="rows/t.jsonl")).ok()
    assert "20 items" in kept.out
    assert "sample_rows" not in json.dumps(place.results())


def test_they_say_nothing_of_the_task(place: Workplace) -> None:
    def fingerprint(**keys: Any) -> str:
        config = TaskConfig(task="t", dataset_path="d.jsonl", test_split="test", **keys)

        return config.fingerprint()

    assert fingerprint() == fingerprint(sample_rows="rows/t.jsonl")


def test_validate_counts_them_as_invented(place: Workplace) -> None:
    path = place.task(**KEYS, skip_docs={"known": [17, "q9"]})
    done = call(place, "validate", "--tasks", path, "--sample_rows", "-o", "found.jsonl")
    assert done.out.startswith("ok       t: 3 docs rendered (invented rows)\n"), done.out + done.err
    found = json.loads((place.folder / "found.jsonl").read_text())
    assert found["docs"] == 3
    assert found["invented"] is True
    whole = call(place, "validate", "--all", "--include_path", ".", "--sample_rows").ok()
    assert "0 with errors" in whole.out
    without = call(place, "validate", "--tasks", path)
    assert without.code == 1
    assert "owner/not_there" in without.out


def test_local_data_stays_where_there_are_none(place: Workplace) -> None:
    done = call(place, "validate", "--tasks", place.task(), "--sample_rows")
    assert "t: 20 docs rendered\n" in done.out


@pytest.mark.parametrize(
    ("keys", "rows", "said"),
    [
        ({"sample_rows": ...}, ROWS, "it has no sample_rows to use instead of its data"),
        ({"sample_rows": "rows/u.jsonl"}, ROWS, "there is no file"),
        ({}, [{"question": "Only this?"}], "it has no column 'answer'"),
        ({}, [{**ROWS[0], "answer": "one"}], "'answer' holds strings, not ints"),
        ({"sample_rows": 3}, ROWS, "sample_rows must be a file of invented rows"),
        ({"sample_rows": {"rows": "x"}}, ROWS, "sample_rows must be a file of invented rows"),
    ],
)
def test_what_is_wrong_with_them_is_one_message(
    keys: dict[str, Any], rows: list[dict[str, Any]], said: str, place: Workplace
) -> None:
    write_rows(place, rows)
    done = call(place, "validate", "--tasks", place.task(**{**KEYS, **keys}), "--sample_rows")
    assert done.code == 1
    assert said in done.out
    assert "Traceback" not in done.out + done.err


FAMILY = {
    **KEYS,
    "task": "t_{{ subject }}",
    "each": {"subject": {"law": {"year": 1900}, "art": {"year": 2000}}},
    "where": "{{ field == subject and since == year }}",
    "columns": ["question", "in_law"],
}


def test_rows_of_a_family_have_the_values_of_each_task(place: Workplace) -> None:
    row = {**ROWS[0], "field": "{{ subject }}", "since": "{{year}}", "in_{{ subject }}": "1"}
    write_rows(place, [row, {**row, "question": "{{ subject }} in {{ year }}?"}])
    place.task(**FAMILY)
    manager = TaskManager(str(place.folder), sample_rows="always")
    law = manager.load(["t_law"])["tasks"]["t_law"]
    assert [doc["since"] for doc in law.eval_docs] == [1900, 1900]
    assert law.eval_docs[1]["question"] == "law in 1900?"
    art = call(place, "validate", "--tasks", "t_art", "--include_path", ".", "--sample_rows")
    assert "it has no column 'in_law'" in art.out
    write_rows(place, [{**row, "question": "{{ yaer }}?"}])
    wrong = call(place, "preview", "t_law", "--include_path", ".")
    assert "'yaer' is undefined. Did you mean 'year'?" in " ".join(wrong.err.split())


def test_examples_come_from_the_other_rows(place: Workplace) -> None:
    path = place.task(**KEYS, fewshot_split="dev", fewshot_config={"sampler": "first_n"})
    done = call(place, "preview", path, "--num_fewshot", "5").ok()
    questions = [line for line in done.out.splitlines() if line.startswith("Question: ")]
    assert [line[-2] for line in questions] == ["1", "2", "1", "2", "1", "0"]


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.text(max_size=9)), min_size=1))
def test_rows_outside_a_family_stay_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    filled = [{**dict.fromkeys("abc"), **row, "d": "{{ d }}"} for row in rows]
    text = "".join(json.dumps(row) + "\n" for row in filled)
    (folder / "r.jsonl").write_text(text, encoding="utf-8")
    config = TaskConfig(task="t", test_split="test", sample_rows="r.jsonl", doc_to_text="a")
    assert sample_splits(config, folder)["test"].to_list() == filled


def test_the_key_is_checked_when_a_task_is_made() -> None:
    with pytest.raises(ConfigError, match="sample_rows must be a file"):
        TaskConfig(task="t", sample_rows=["a.jsonl"])
