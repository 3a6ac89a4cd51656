"""``where`` and ``fewshot_match``: which rows a task is about, and which examples a doc gets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.api.task import ConfigurableTask, TaskConfig
from lm_eval.cli import main
from lm_eval.errors import (
    AmbiguousGoldError,
    ConfigError,
    DataError,
    FieldError,
    KnownBadDocError,
    LmEvalWarning,
    UsageError,
)
from lm_eval.requests import PromptOptions, build_requests
from lm_eval.requests.options import SkippedDocs, allowed_count
from lm_eval.tasks.keys.rows import RowFilter
from lm_eval.tasks.loader import every_format
from tests.support.command_line import run_inside

SUBJECTS = ("biology", "physics", "law")
ROWS = [
    {
        "subject": SUBJECTS[n % 3],
        "Level No": n,
        "question": f"q{n}",
        "choices": ["x", "y"],
        "answer": n % 2,
    }
    for n in range(30)
]


def task(rows: Any = ROWS, **keys: Any) -> ConfigurableTask:
    fields: dict[str, Any] = {
        "task": "t",
        "custom_dataset": lambda: {"test": rows, "dev": list(reversed(rows))},
        "test_split": "test",
        "doc_to_text": "question",
        "doc_to_choice": "choices",
        "doc_to_target": "answer",
        "formats": "mcqa",
    }
    return ConfigurableTask(TaskConfig(**{**fields, **keys}))


@pytest.mark.parametrize(
    "where",
    [
        "{{ subject == 'law' }}",
        "{{ doc.subject == 'law' }}",
        "{{ doc['subject'] == 'law' }}",
        "{{ subject not in ['biology', 'physics'] }}",
        "{{ doc['Level No'] % 3 == 2 }}",
    ],
)
def test_rows_that_the_task_is_about(where: str) -> None:
    asked = task(where=where)
    assert [doc["question"] for doc in asked.eval_docs] == [f"q{n}" for n in range(2, 30, 3)]
    assert asked.rows_total == 30
    assert len(asked.fewshot_docs) == 10


def test_a_column_of_true_and_false() -> None:
    rows = [{**row, "is_fine": row["subject"] == "law"} for row in ROWS]
    assert len(task(rows, where="is_fine").eval_docs) == 10


def test_the_pool_may_have_rows_of_its_own() -> None:
    law = "{{ subject == 'law' }}"
    both = task(where=law, fewshot_split="dev", fewshot_config={"where": None})
    assert (len(both.eval_docs), len(both.fewshot_docs)) == (10, 30)
    other = task(fewshot_split="dev", fewshot_config={"where": law})
    assert (len(other.eval_docs), len(other.fewshot_docs)) == (30, 10)


def test_where_that_keeps_nothing_names_what_there_is() -> None:
    with pytest.raises(DataError, match=r"none of the 30 rows.*Did you mean 'biology'.*law"):
        len(task(where="{{ subject == 'bioligy' }}").eval_docs)


def test_where_that_is_not_true_or_false() -> None:
    with pytest.raises(FieldError, match=r"row 0 of split 'test'.*neither true nor false"):
        len(task(where="{{ subject }}").eval_docs)
    with pytest.raises(FieldError, match=r"Did you mean 'subject'"):
        len(task(where="{{ subjct == 'law' }}").eval_docs)
    for wrong in ("{{ subject }} == law", ["law"], 3):
        with pytest.raises(ConfigError, match=r"where cannot be.*one expression"):
            task(where=wrong)
    with pytest.raises(ConfigError, match=r"fewshot_match cannot be \['subject'\]"):
        task(fewshot_match=["subject"])


@given(values=st.lists(st.one_of(st.none(), st.integers(-2, 2), st.text(max_size=2)), max_size=8))
def test_the_quick_way_keeps_what_the_template_would(values: list[Any]) -> None:
    """One column compared with one value is not run as a template, and must not show."""
    rows = [{"c": value} for value in [*values, "a", 1]]
    for wanted in ("'a'", "1", "1.0", "true"):
        quick = RowFilter(f"{{{{ c == {wanted} }}}}").kept(rows, split="s")
        slow = RowFilter(f"{{{{ (c == {wanted}) and true }}}}")
        assert quick == slow.kept(rows, split="s")


def test_examples_have_the_value_of_the_doc() -> None:
    asked = task(fewshot_match="subject", fewshot_split="dev")
    for doc_id, doc in enumerate(asked.eval_docs):
        shots = [asked.fewshot_docs[place] for place in asked.shots(doc_id, 4)]
        assert len(shots) == 4
        assert {shot["subject"] for shot in shots} == {doc["subject"]}


def test_a_task_of_one_subject_shows_the_same_examples() -> None:
    whole = task(fewshot_match="subject", fewshot_split="dev")
    law = task(where="{{ subject == 'law' }}", fewshot_split="dev")
    of_whole = {
        doc["question"]: [whole.fewshot_docs[at] for at in whole.shots(doc_id, 3)]
        for doc_id, doc in enumerate(whole.eval_docs)
    }
    for doc_id, doc in enumerate(law.eval_docs):
        assert [law.fewshot_docs[at] for at in law.shots(doc_id, 3)] == of_whole[doc["question"]]


def test_an_example_that_cannot_be_shown_is_replaced_by_one_of_the_same_subject() -> None:
    rows = [{**row, "answer": None if row["question"] == "q29" else row["answer"]} for row in ROWS]
    asked = task(
        rows, fewshot_match="subject", fewshot_split="dev", fewshot_config={"sampler": "first_n"}
    )
    shots = [asked.fewshot_docs[place] for place in asked.shots(2, 3)]
    assert [shot["question"] for shot in shots] == ["q20", "q26", "q23"]


def test_too_few_examples_of_one_value() -> None:
    with pytest.raises(
        UsageError, match=r"holds 10 usable docs.*Only examples with 'biology' count"
    ):
        task(fewshot_match="subject", fewshot_split="dev").shots(0, 11)
    rows = [{**row, "subject": "art"} for row in ROWS[:1]]
    other = task(rows, fewshot_match="subject", fewshot_config={"samples": ROWS})
    with pytest.raises(UsageError, match=r"no example for docs with 'art'.*biology, physics, law"):
        other.shots(0, 1)


def test_fingerprints_know_both_keys() -> None:
    plain = task()
    assert task(where="{{ subject == 'law' }}").fingerprint != plain.fingerprint
    assert task(fewshot_match="subject").fingerprint != plain.fingerprint


def test_the_command_line_counts_rows(write: Callable[..., Path], tmp_path: Path) -> None:
    write("rows.jsonl", ROWS)
    file = write(
        "law.yaml",
        "task: law\ndataset_path: rows.jsonl\ntest_split: test\ndoc_to_text: question\n"
        "doc_to_choice: choices\ndoc_to_target: answer\nformats: mcqa\n"
        "where: \"{{ subject == 'law' }}\"\n",
    )
    checked = run_inside(tmp_path, main, ["validate", "--tasks", str(file)])
    assert "law: 10 docs rendered, of 30 rows" in checked.out
    run_inside(tmp_path, main, ["run", "-M", "dummy", "--tasks", str(file), "--output_path", "out"])
    (results,) = (tmp_path / "out").rglob("results_*.json")
    counts = json.loads(results.read_text(encoding="utf-8"))["n-samples"]
    assert counts == {"law": {"original": 10, "effective": 10, "rows": 30}}


def test_docs_that_are_known_to_be_bad() -> None:
    rows = [{**row, "id": f"id{n}"} for n, row in enumerate(ROWS)]
    reasons = {"wrong key": [3], "two keys": ["id5"], "hard": "{{ doc['Level No'] > 27 }}"}
    asked = task(rows, skip_docs=reasons)
    skipped = SkippedDocs()
    (_, *_) = list(build_requests(asked, range(30), PromptOptions(), skipped))
    assert skipped.by_reason() == {
        "skip_docs: hard": [28, 29],
        "skip_docs: wrong key": [3],
        "skip_docs: two keys": [5],
    }
    skipped.check("t", 30, 0)  # they do not count
    with pytest.raises(
        KnownBadDocError, match=r"Task 't', doc 3: the task leaves it out.*wrong key"
    ):
        asked.ask(3)


def test_known_bad_docs_are_no_examples() -> None:
    asked = task(skip_docs={"odd": "{{ doc['Level No'] % 2 == 1 }}", "listed": [0, 2, 4]})
    for doc_id in range(6, 30, 2):
        assert all(shot % 2 == 0 and shot > 4 for shot in asked.shots(doc_id, 3))
    other = task(skip_docs={"odd": "{{ doc['Level No'] % 2 == 1 }}"}, fewshot_split="dev")
    places = [place for doc_id in range(0, 30, 2) for place in other.shots(doc_id, 3)]
    assert all(other.fewshot_docs[place]["Level No"] % 2 == 0 for place in places)


def test_every_format_is_judged_without_known_bad_docs() -> None:
    rows = [*ROWS, {**ROWS[0], "choices": ["only one"]}]
    config = task(rows, skip_docs={"one option": "{{ choices | length < 2 }}"}, formats=None).config
    with pytest.warns(LmEvalWarning, match=r"ranking: doc 0"):
        names = [made.format_name for made in every_format(config, parity=False)]
    assert {"mcqa", "cloze", "cot"} <= set(names)


@pytest.mark.parametrize(
    ("reasons", "message"),
    [
        ({"x": [30]}, r"skip_docs \(x\) names doc 30, which is not there.*0 to 29"),
        ({"x": [-1]}, r"names doc -1"),
        ({"x": ["id3"]}, r"no column `id`"),
    ],
)
def test_bad_docs_that_are_not_there(reasons: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        task(skip_docs=reasons).ask(0)


@pytest.mark.parametrize("reasons", [[3], {}, {"x": 3}, {"x": [True]}, {"x": "text"}, {"x": [[1]]}])
def test_bad_docs_that_are_not_named(reasons: Any) -> None:
    with pytest.raises(ConfigError, match=r"skip_docs (must map|has)"):
        task(skip_docs=reasons)


def test_a_lower_case_letter_among_upper_case_ones_is_one_bad_doc() -> None:
    """As in ruin_names of BIG-bench hard, where a title with commas was split into options."""
    rows = [{**row, "answer": "AB"[n % 2]} for n, row in enumerate(ROWS)]
    rows[7]["answer"] = "b"
    skipped = SkippedDocs()
    assert len(list(build_requests(task(rows), range(30), PromptOptions(), skipped))) == 29
    assert [*skipped.by_reason().values()] == [[7]]
    lower = [{**row, "answer": "ab"[n % 2]} for n, row in enumerate(ROWS)]
    with pytest.raises(AmbiguousGoldError, match=r"only upper-case letters"):
        task(lower).ask(0)


@pytest.mark.parametrize(
    ("bound", "count"), [("5", 5), ("5%", 10), ("0.02", 4), (0.05, 10), (0, 0)]
)
def test_a_bound_is_a_number_or_a_share(bound: Any, count: int) -> None:
    assert allowed_count(bound, 200, flag="--max_skipped", what="docs") == count
