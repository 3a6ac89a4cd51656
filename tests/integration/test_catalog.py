"""``lm-eval ls tasks``: the list, what narrows it, and all about one benchmark."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Outcome, Workplace

FIELDS: dict[str, Any] = {
    "dataset_kwargs": ...,
    "test_split": "test",
    "sample_rows": "rows.jsonl",
    "metadata": {"version": 2},
}
QUIZ: dict[str, Any] = {
    **FIELDS,
    "task": "quiz_{{ language }}",
    "group": "quiz",
    "each": {"language": {"de": {"size": 10}, "fra_Latn": {"size": 5}, "Italian": {"size": 7}}},
    "areas": {"romance": ["fra_Latn", "Italian"]},
    "tag": ["knowledge", "multilingual"],
    "dataset_path": "owner/quiz",
    "dataset_name": "{{ language }}",
    "num_fewshot": 2,
    "metadata": {
        "summary": "Pub questions in three languages",
        "language": "{{ language }}",
        "n": "{{ size }}",
        "licence": "MIT",
        "gated": True,
        "paper": "2001.00001",
        "splits": {"train": 300, "test": 22},
        "baseline": 0.25,
        "convention": "mcqa, 2-shot: its authors",
    },
}
SUMS: dict[str, Any] = {
    **FIELDS,
    "task": "sums",
    "tag": "adding",
    "dataset_path": "owner/sums",
    "doc_to_choice": ...,
    "doc_to_target": "{{ choices[answer] }}",
    "formats": "cot",
    "metadata": {"summary": "Adding two numbers", "language": "en", "n": 1200, "licence": "CC0"},
}
LIST = """\
Task          Docs  Language  Kind     Asked as     Tags                    Licence     Summary
─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
tasks/
  quiz (3)      22  3 lang.   choices  mcqa 2-shot  knowledge multilingual  gated, MIT  Pub questions in three languages

tasks/more/
  plain                       choices  mcqa                                             plain.yaml
  sums       1,200  en        text     cot          adding                  CC0         Adding two numbers
"""  # noqa: E501


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    made = Workplace(tmp_path)
    row = {"question": "Which?", "choices": ["t", "u", "v", "w"], "answer": 1}
    rows = "".join(json.dumps({**row, "question": f"Which, {n}?"}) + "\n" for n in range(4))
    for folder in ("tasks", "tasks/more"):
        made.write(f"{folder}/rows.jsonl", rows)
    made.task("tasks/quiz.yaml", **QUIZ)
    made.task("tasks/more/sums.yaml", **SUMS)
    made.task("tasks/more/plain.yaml", task="plain")
    return made


def ls(place: Workplace, *words: str, code: int = 0) -> Outcome:
    done = place.cli("ls", "tasks", *words, "--include_path", "tasks")
    assert done.code == code, done.err
    return done


def shown(place: Workplace, *words: str) -> list[str]:
    """The names in the list."""
    return [json.loads(line)["name"] for line in ls(place, *words, "--json").out.splitlines()]


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the library had nothing in it."""
    from lm_eval.cli.tasks import ls as listing

    def only_ours(names: Any, library: Path) -> list[Any]:
        return [one for one in everything(names, library) if one.folder.startswith("tasks/")]

    everything = listing.listed_tasks
    monkeypatch.setattr(listing, "listed_tasks", only_ours)


@pytest.mark.usefixtures("alone")
def test_the_list(place: Workplace) -> None:
    done = ls(place)
    assert done.out.startswith(LIST), done.out
    assert "3 names, 5 tasks. One in full: lm-eval ls tasks NAME." in done.out


def test_the_library_comes_first(place: Workplace) -> None:
    lines = ls(place).out.splitlines()
    assert lines.index("demo") < lines.index("tasks/") < lines.index("tasks/more/")


@pytest.mark.usefixtures("alone")
def test_what_narrows_it(place: Workplace) -> None:
    assert shown(place, "--tag", "Adding") == ["sums"]
    assert shown(place, "--search", "pub") == ["quiz"]
    assert shown(place, "--search", "numbers", "adding") == ["sums"]
    assert shown(place, "--search", "fra_Latn") == ["quiz_fra_Latn"]
    for spelling in ("fr", "fra", "French", "fra_Latn", "FRA-latn"):
        assert "quiz_fra_Latn" in shown(place, "--language", spelling, "--search", "quiz")
    assert shown(place, "--language", "it", "--search", "pub") == ["quiz_Italian"]
    near = ls(place, "--search", "addink")
    assert "Nothing has 'addink'; searching for 'adding'." in near.err
    assert "sums" in near.out


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--tag", "addings"], "No task has the tag 'addings'. Did you mean 'adding'?"),
        (["--language", "xx"], "No task is in the language 'xx'."),
        (["--search", "zzzzqqq", "sums"], "No task has all of these words: zzzzqqq, sums."),
        (["sums", "--tag", "adding"], "Give names, or --search"),
        (["sumz"], "Unknown task 'sumz'. Did you mean 'sums'? Search with `lm-eval ls tasks"),
        (["qiz"], "Did you mean 'quiz'?"),
    ],
)
def test_nothing_found_is_one_message(words: list[str], said: str, place: Workplace) -> None:
    done = ls(place, *words, code=1)
    assert said in done.err
    assert done.err.count("\n") == 1


def test_only_tasks_have_such_lists(place: Workplace) -> None:
    for words in (["formats", "mcqa"], ["models", "--tag", "x"], ["tags", "--json"]):
        done = place.cli("ls", *words)
        assert (done.code, done.out) == (1, "")
        assert "that is for `lm-eval ls tasks`" in done.err


@pytest.mark.usefixtures("alone")
def test_json_has_everything(place: Workplace) -> None:
    lines = ls(place, "--search", "pub", "--json").out.splitlines()
    (quiz,) = map(json.loads, lines)
    assert quiz["tasks"] == ["quiz_de", "quiz_fra_Latn", "quiz_Italian"]
    assert (quiz["docs"], quiz["gated"], quiz["format"], quiz["shots"]) == (22, True, "mcqa", 2)
    assert quiz["languages"] == ["de", "fra_Latn", "Italian"]
    assert quiz["dataset"] == "owner/quiz"


@pytest.mark.parametrize("width", [24, 40, 60, 80, 100, 140])
def test_lines_fit_the_terminal(
    width: int, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    printed = ls(place).out.partition("\n\n1")[0]
    lines = [line for line in printed.splitlines() if " names, " not in line]
    assert max(map(len, lines)) <= width or width < 30
    for name in ("quiz (3)", "sums", "plain", "demo_mcq"):
        assert any(name in line for line in lines)


def test_all_about_one(place: Workplace) -> None:
    card = ls(place, "quiz").out
    for line in (
        "quiz: Pub questions in three languages",
        "  size        3 tasks, 22 docs",
        "  language    de, fra_Latn, Italian",
        "  data        owner/quiz, split test",
        "  homepage    https://huggingface.co/datasets/owner/quiz",
        "  asked as    mcqa, 2 shots (choices)",
        "  chance      .250",
        "  licence     MIT",
        "  gated       accept its owners' conditions on the hub, and set HF_TOKEN",
        "  paper       https://arxiv.org/abs/2001.00001",
        "  splits      train 300, test 22",
        "  convention  mcqa, 2-shot: its authors",
        "  tags        knowledge, multilingual",
        "  areas       quiz_romance (2)",
        "  tasks       quiz_de, quiz_fra_Latn, quiz_Italian",
        "  file        tasks/quiz.yaml",
        "The first prompt of quiz_de (invented rows):",
        "Question: Which, 0?",
        "right:    'B'",
        "Try:  lm-eval preview quiz_de@FORMAT",
    ):
        assert line in card.splitlines(), line
    fits = next(line for line in card.splitlines() if line.startswith("  also fits"))
    assert "cloze" in fits
    assert "ranking" not in fits
    one = ls(place, "quiz_fra_Latn").out
    assert "  size        5 docs" in one
    assert "  splits " not in one, "they are the family's"
    assert "owner/quiz (fra_Latn)" in one


@pytest.mark.usefixtures("alone")
def test_all_about_others(place: Workplace) -> None:
    place.write(
        "tasks/both.yaml", "group: both\ntask: [sums@boxed, quiz]\nmetadata: {summary: All, n: 7}\n"
    )
    both = ls(place, "both").out
    assert "both: All" in both
    assert "  size        4 tasks, 7 docs" in both
    assert "asked as" not in both
    assert "  tasks       sums@boxed, quiz_fra_Latn, quiz_Italian, quiz_de" in both
    assert "The first prompt of sums@boxed (invented rows)" in both
    assert "both" in shown(place, "--search", "all")
    tag = ls(place, "adding", "plain").out
    assert "The first prompt of sums (invented rows)" in tag
    assert "No prompt can be shown" not in tag
    place.task("tasks/more/bare.yaml", task="bare", dataset_path="owner/x", dataset_kwargs=...)
    assert "No prompt can be shown: Task 'bare': it has no sample_rows" in ls(place, "bare").out


def test_a_run_names_those_near_too(place: Workplace) -> None:
    place.run("--tasks", "quiz_fr_Latn", "--include_path", "tasks").refused(
        "Did you mean 'quiz_fra_Latn'?", "Search with `lm-eval ls tasks --search quiz_fr_Latn`"
    )


@pytest.mark.usefixtures("alone")
def test_a_changed_file_is_listed_as_it_is_now(place: Workplace) -> None:
    assert "Adding two numbers" in ls(place).out
    metadata = {"summary": "Adding three", "n": "many", "language": ["en", "de"]}
    path = place.task("tasks/more/sums.yaml", **{**SUMS, "metadata": metadata})
    os.utime(path, ns=(time.time_ns(), time.time_ns()))
    line = next(line for line in ls(place).out.splitlines() if "sums" in line)
    assert "Adding three" in line
    assert "en, de" in line
    assert "sums" in shown(place, "--language", "German")


@pytest.mark.parametrize("metadata", ["text", ["a"], {"n": True, "summary": ["x"], "gated": "no"}])
def test_strange_metadata_is_listed(metadata: Any, place: Workplace) -> None:
    place.task("tasks/odd.yaml", task="odd\x1b[31m", metadata=metadata)
    assert "odd\\x1b[31m" in ls(place).out
