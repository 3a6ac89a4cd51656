"""The demo tasks' data: a slip in an answer key or an uneven key would bend every demo score."""

import json
from collections import Counter
from itertools import permutations
from typing import Any

import pytest
import yaml

from tests.support.paths import SOURCE

DEMO = SOURCE / "lm_eval" / "tasks" / "library" / "demo"
MCQ, MCQ_FEWSHOT = "demo_mcq.jsonl", "demo_mcq_fewshot.jsonl"
SHORT, SHORT_FEWSHOT = "demo_short.jsonl", "demo_short_fewshot.jsonl"

mcq_files = pytest.mark.parametrize("name", [MCQ, MCQ_FEWSHOT])
short_files = pytest.mark.parametrize("name", [SHORT, SHORT_FEWSHOT])
all_files = pytest.mark.parametrize("name", [MCQ, MCQ_FEWSHOT, SHORT, SHORT_FEWSHOT])


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DEMO / name).read_text("utf-8").splitlines()]


def repeated(values: list[str]) -> list[str]:
    return [value for value, n in Counter(v.casefold() for v in values).items() if n > 1]


def test_there_are_enough_items() -> None:
    assert len(read(MCQ)) >= 72
    assert len({doc["subject"] for doc in read(MCQ)}) >= 8
    assert len(read(MCQ_FEWSHOT)) == 8
    assert len(read(SHORT)) >= 32
    assert len(read(SHORT_FEWSHOT)) == 6


@mcq_files
def test_mcq_schema(name: str) -> None:
    for doc in read(name):
        assert list(doc) == ["id", "subject", "question", "choices", "answer"], doc
        texts = [doc["id"], doc["subject"], doc["question"], *doc["choices"]]
        assert all(type(text) is str and text and text == text.strip() for text in texts), doc
        assert len(doc["choices"]) == 4, doc
        assert type(doc["answer"]) is int, doc
        assert doc["answer"] in range(4), doc


@short_files
def test_short_schema(name: str) -> None:
    for doc in read(name):
        assert list(doc) == ["id", "subject", "question", "answer"], doc
        assert all(type(text) is str and text == text.strip() for text in doc.values()), doc
        assert doc["answer"].isalnum(), doc  # one word or one whole number


@mcq_files
def test_right_answers_stand_equally_often_at_each_place(name: str) -> None:
    places = Counter(doc["answer"] for doc in read(name))
    assert set(places) == set(range(4))
    assert len(set(places.values())) == 1, places


def test_right_answers_are_balanced_within_each_subject() -> None:
    counts = Counter((doc["subject"], doc["answer"]) for doc in read(MCQ))
    assert set(counts.values()) == {2}, counts


def test_any_four_neighbours_in_step_are_balanced() -> None:
    """So `--limit` of a multiple of four stays balanced."""
    places = [doc["answer"] for doc in read(MCQ)]
    for start in range(0, len(places), 4):
        assert sorted(places[start : start + 4]) == [0, 1, 2, 3], start


@mcq_files
def test_no_choice_repeats_or_contains_another(name: str) -> None:
    for doc in read(name):
        choices = [choice.casefold() for choice in doc["choices"]]
        clashes = [(a, b) for a, b in permutations(choices, 2) if a in b]
        assert not clashes, (doc["id"], clashes)


@mcq_files
def test_no_choice_reads_as_a_label(name: str) -> None:
    for doc in read(name):
        assert not [c for c in doc["choices"] if len(c) == 1 and c.isalpha()], doc


@mcq_files
def test_choices_are_of_similar_length(name: str) -> None:
    for doc in read(name):
        lengths = [len(choice) for choice in doc["choices"]]
        assert max(lengths) - min(lengths) <= 5, doc


def test_length_does_not_give_the_answer_away() -> None:
    """Picking the longest (or shortest) choice must not beat chance by much."""
    docs = read(MCQ)
    for pick in (max, min):
        hits = sum(pick(doc["choices"], key=len) == doc["choices"][doc["answer"]] for doc in docs)
        assert hits / len(docs) < 0.4, (pick, hits)


@all_files
def test_ids_are_unique(name: str) -> None:
    assert repeated([doc["id"] for doc in read(name)]) == []


def test_no_question_repeats_in_any_file() -> None:
    files = (MCQ, MCQ_FEWSHOT, SHORT, SHORT_FEWSHOT)
    assert repeated([doc["question"] for name in files for doc in read(name)]) == []


@pytest.mark.parametrize("task", ["demo_mcq", "demo_short"])
def test_task_files_name_data_and_fields_that_exist(task: str) -> None:
    config = yaml.safe_load((DEMO / f"{task}.yaml").read_text("utf-8"))
    assert config["task"] == task
    files = config["dataset_kwargs"]["data_files"]
    assert files == {"test": f"{task}.jsonl", "fewshot": f"{task}_fewshot.jsonl"}
    for name in files.values():
        for doc in read(name):
            assert {v for k, v in config.items() if k.startswith("doc_to_")} <= set(doc)


def test_group_has_both_tasks() -> None:
    group = yaml.safe_load((DEMO / "demo.yaml").read_text("utf-8"))
    assert group["group"] == "demo"
    assert group["task"] == ["demo_mcq", "demo_short"]
