"""Docs that cannot be asked: left out and counted within a bound, told together above it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval import simple_evaluate
from lm_eval.api.task import ConfigurableTask
from lm_eval.cli import main
from lm_eval.errors import AmbiguousGoldError, FieldError, FormatError, UsageError
from lm_eval.requests.options import ranges
from lm_eval.run.plan import RunOptions
from lm_eval.run.prepare import askable, prepare
from tests.support.choice_task import choice_task

Keys = dict[str, Any]
FEW = "fewer than two choices"
NONE = "no gold answer"
NO_MATCH = "the target matches none of the choices"


def rows(count: int, **changes: Keys) -> list[Keys]:
    """Docs that can be asked, apart from ``d3={...}``: doc 3 with these keys."""
    docs: list[Keys] = [
        {"question": f"q{at}", "choices": ["x", "y", "z"], "answer": "xyz"[at % 3]}
        for at in range(count)
    ]
    for name, keys in changes.items():
        docs[int(name[1:])].update(keys)
    return docs


def task(docs: list[Keys], format_name: str | None = "mcqa", **keys: Any) -> ConfigurableTask:
    return choice_task(docs, format_name, **keys)


BROKEN = {
    "d7": {"answer": None},
    "d50": {"choices": ["x"]},
    "d51": {"answer": "w"},
    "d90": {"choices": None},
}


def test_docs_that_cannot_be_asked_are_left_out_and_counted() -> None:
    prepared = prepare(task(rows(400, **BROKEN)), RunOptions())
    assert prepared.num_docs == 396
    assert prepared.skipped.by_reason() == {
        NONE: [7],
        FEW: [50],
        NO_MATCH: [51],
        "no value for doc_to_choice": [90],
    }
    asked = [doc.doc_id for doc in prepared.asked()]
    assert asked == [at for at in range(400) if at not in (7, 50, 51, 90)]


def test_a_large_task_leaves_out_the_same_docs_when_it_is_built_again() -> None:
    held = prepare(task(rows(400, **BROKEN), num_fewshot=2), RunOptions())
    built = prepare(task(rows(400, **BROKEN), num_fewshot=2), RunOptions(), held_docs=0)
    assert len(built.docs) < 10
    assert [(d.doc_id, d.shots) for d in built.asked()] == [
        (d.doc_id, d.shots) for d in held.asked()
    ]
    assert built.skipped.counts() == held.skipped.counts()


def test_the_other_docs_keep_their_examples() -> None:
    """A format under which a doc can be asked shows the docs behind it the same examples."""
    docs = rows(200, d3={"choices": ["x"], "answer": "x"})
    keys: Keys = {"num_fewshot": 2, "fewshot_config": {"samples": rows(10)}}
    by_choice = prepare(task(docs, **keys), RunOptions())
    keys["doc_to_choice"] = None
    by_text = prepare(task(docs, "qa", **keys), RunOptions())
    shots = {doc.doc_id: doc.shots for doc in by_text.asked()}
    assert len(shots) == 200
    assert all(shots[doc.doc_id] == doc.shots for doc in by_choice.asked())


def test_an_example_that_cannot_be_shown_is_replaced() -> None:
    pool = rows(6, d2={"answer": None}, d4={"choices": []})
    some = task(rows(50), num_fewshot=3, fewshot_config={"samples": pool})
    shots = [doc.shots for doc in prepare(some, RunOptions()).asked()]
    assert all(len(set(drawn)) == 3 and not {2, 4} & set(drawn) for drawn in shots)


@pytest.mark.parametrize("bound", [3, "3", "0.5%", 0])
def test_more_than_the_bound_is_an_error_with_reasons_and_first_docs(bound: str | int) -> None:
    with pytest.raises(FormatError) as caught:
        prepare(task(rows(400, **BROKEN)), RunOptions(max_skipped=bound))
    message = str(caught.value)
    assert (
        f"Task 't@mcqa': 4 of 400 docs cannot be asked, and --max_skipped {bound} allows" in message
    )
    assert f"1 × {NONE}: doc 7" in message
    assert "doc 50: the list of choices holds one choice only ('x')" in message
    assert "--max_skipped" in message.splitlines()[-1]


def test_a_task_of_which_nothing_is_left_is_an_error() -> None:
    docs = rows(2, d0={"answer": None}, d1={"answer": None})
    with pytest.raises(FormatError, match="2 of 2 docs cannot be asked"):
        prepare(task(docs), RunOptions(max_skipped="100%"))


def test_ambiguity_is_never_skipped_and_told_for_all_docs_at_once() -> None:
    docs = rows(
        400, d5={"choices": ["B", "A"], "answer": "A"}, d9={"choices": ["B", "A"], "answer": "A"}
    )
    with pytest.raises(
        AmbiguousGoldError, match=r"doc 5: .*The same holds for 1 more: doc 9"
    ) as caught:
        prepare(task(docs), RunOptions(max_skipped="100%"))
    assert list(caught.value.docs.values()) == [[5, 9]]


def test_a_fault_of_the_task_stays_an_error() -> None:
    with pytest.raises(FieldError, match="'nothing' is not a column"):
        prepare(task(rows(400), doc_to_target="nothing"), RunOptions(max_skipped="100%"))


def test_tasks_without_a_format_keep_their_rules() -> None:
    plain = task(rows(400, d7={"answer": "w"}), None, output_type="multiple_choice")
    with pytest.raises(FormatError, match="not one of the 3 choices"):
        prepare(plain, RunOptions(max_skipped="100%"))


def test_a_bound_that_is_none() -> None:
    with pytest.raises(UsageError, match="--max_skipped few is neither a number of docs"):
        prepare(task(rows(4)), RunOptions(max_skipped="few"))


def test_orders_leave_out_the_same_docs() -> None:
    results = simple_evaluate("dummy", tasks=[task(rows(400, **BROKEN))], permute="pride")
    assert results["n-samples"]["t@mcqa"] == {"original": 400, "effective": 396}


def test_results_say_what_was_left_out() -> None:
    results = simple_evaluate("dummy", tasks=[task(rows(400, **BROKEN))])
    assert results["results"]["t@mcqa"]["skipped"][NONE] == 1
    assert sum(results["results"]["t@mcqa"]["skipped"].values()) == 4
    assert len(results["samples"]["t@mcqa"]) == 396
    with pytest.raises(FormatError, match="4 of 400"):
        simple_evaluate("dummy", tasks=[task(rows(400, **BROKEN))], max_skipped=0)


def test_sweeps_ask_what_can_be_asked() -> None:
    assert len(askable(task(rows(400, **BROKEN)), RunOptions())) == 396
    with pytest.raises(FormatError, match="4 of 400"):
        askable(task(rows(400, **BROKEN)), RunOptions(max_skipped=1))


def test_ranges() -> None:
    assert ranges([]) == ""
    assert ranges([4]) == "4"
    assert ranges([9, 0, 1, 2, 7, 8, 12]) == "0-2, 7-9, 12"


@pytest.fixture
def file(write: Callable[..., Path], tmp_path: Path) -> Path:
    lines = [json.dumps(row) for row in rows(400, **BROKEN)]
    write("q.jsonl", "\n".join(lines))
    return write(
        "q.yaml",
        "task: q\ndataset_path: q.jsonl\ntest_split: test\ndoc_to_text: question\n"
        "doc_to_choice: choices\ndoc_to_target: answer\nformats: mcqa\n",
    )


def test_validate_lists_every_bad_doc(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--tasks", str(file)]) == 0
    said = capsys.readouterr().out
    assert "ok       q: 396 docs rendered" in said
    assert f"1 doc that cannot be asked, {FEW}: 50" in said
    assert main(["validate", "--tasks", str(file), "--max_skipped", "1"]) == 1
    assert f"1 doc that cannot be asked, {NO_MATCH}: 51" in capsys.readouterr().out


def test_the_table_says_what_was_left_out(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--tasks", str(file), "--model", "dummy"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "q: 4 docs skipped: 1 × no gold answer, 1 × fewer than two choices" in said
    assert main(["run", "--tasks", str(file), "--model", "dummy", "--max_skipped", "1"]) == 1
