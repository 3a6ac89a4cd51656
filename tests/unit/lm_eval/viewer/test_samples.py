"""What rows and pages show of single samples, of ours and of EleutherAI's harness."""

from __future__ import annotations

from typing import Any

import pytest

from lm_eval.lab.stored.view import scored_choices
from lm_eval.viewer.samples import (
    WORDS,
    answer_of,
    cut,
    gold_of,
    grouping_fields,
    question_of,
    text_row,
    utf16,
    whole_sample,
)


def scored(target: Any = "B", **more: Any) -> dict[str, Any]:
    """A sample of three scored choices, of which the second is the likeliest."""
    values = (-2.0, -1.0, -3.0)
    return {
        "doc_id": 0,
        "doc": {"question": "Which?"},
        "target": target,
        "arguments": {
            f"gen_args_{at}": {"arg_0": "Which?", "arg_1": f" {label}"}
            for at, label in enumerate("ABC")
        },
        "resps": [[[str(value), "False"]] for value in values],
        "filter": "none",
        "metrics": ["acc"],
        "acc": 1.0,
        **more,
    }


def replied(text: str, **more: Any) -> dict[str, Any]:
    return {
        "doc_id": 0,
        "doc": {"question": "Which?"},
        "target": "B",
        "arguments": {"gen_args_0": {"arg_0": "Which?", "arg_1": {"until": ["\n"]}}},
        "resps": [[text]],
        "filtered_resps": [text],
        "filter": "none",
        "metrics": ["acc"],
        "acc": 0.0,
        **more,
    }


def marks(sample: dict[str, Any]) -> list[tuple[bool, bool]]:
    return [(one["gold"], one["picked"]) for one in scored_choices(sample)]


@pytest.mark.parametrize("target", ["B", 1, ["B"], [1], "1"])
def test_the_gold_and_the_picked_choice(target: Any) -> None:
    assert marks(scored(target)) == [(False, False), (True, True), (False, False)]


def test_a_pick_that_the_score_contradicts_is_not_shown() -> None:
    assert marks(scored(acc=0.0)) == [(False, False), (True, False), (False, False)]


def test_a_pick_by_length() -> None:
    sample = scored("much longer", metrics=["acc_norm"], acc_norm=1.0)
    sample["arguments"]["gen_args_0"]["arg_1"] = " much longer"
    picked = [one["text"] for one in scored_choices(sample) if one["picked"]]
    assert picked == [" much longer"]


def test_what_the_sample_says_was_picked_counts() -> None:
    sample = scored(scored={"picked": 2, "by": "acc", "answer": "C"}, acc=0.0)
    assert [one["picked"] for one in scored_choices(sample)] == [False, False, True]
    assert answer_of(sample) == "C"


def test_older_files_have_lists_of_arguments() -> None:
    sample = scored()
    sample["arguments"] = [["Which?", f" {label}"] for label in "ABC"]
    sample["resps"] = [[[value, True]] for value in (-2.0, -1.0, -3.0)]
    assert [one["text"] for one in scored_choices(sample)] == [" A", " B", " C"]
    assert whole_sample(sample)["prompts"] == [{"text": "Which?", "start": 0}]


def test_different_prompts_are_shown_each() -> None:
    sample = scored()
    sample["arguments"]["gen_args_2"]["arg_0"] = "Other?"
    assert [one["text"] for one in whole_sample(sample)["prompts"]] == ["Which?", "Other?"]


def test_positions_are_those_of_javascript() -> None:
    text = "\U0001f600 is B"
    sample = replied(
        text, reading={"value": 1, "answer": "x", "rule": "r", "span": [5, 6], "no_answer": None}
    )
    (reply,) = whole_sample(sample)["replies"]
    assert reply["span"] == [6, 7]
    assert utf16("abc", 2) == 2


@pytest.mark.parametrize("span", [None, [3], [2, 1], [0, 99], "ab", [0.5, 1]])
def test_a_span_that_is_none(span: Any) -> None:
    sample = replied("B", reading={"value": 1, "rule": "r", "span": span, "no_answer": None})
    assert whole_sample(sample)["replies"][0]["span"] is None


def test_the_label_and_the_text_that_were_read() -> None:
    sample = replied(
        "B.",
        reading={"value": 1, "answer": "blue", "rule": "r", "span": [0, 1], "no_answer": None},
        read_with={"labels": ["A", "B"], "choices": ["red", "blue"], "gold": [0]},
    )
    assert (answer_of(sample), gold_of(sample)) == ("B", "A")
    shown = whole_sample(sample)
    assert shown["replies"][0]["answer"] == "B · blue"
    assert shown["options"] == ["A. red", "B. blue"]


def test_several_replies() -> None:
    readings = [{"value": "1", "answer": "1", "rule": "a", "span": None, "no_answer": None}] * 2
    sample = replied("1", reading=readings[0])
    sample |= {"resps": [["1", "2", "3"]], "finish": ["stop", "length"]}
    sample["readings"] = [*readings, {"no_answer": "empty"}]
    replies = whole_sample(sample)["replies"]
    assert [one["no_answer"] for one in replies] == [None, None, "empty"]
    assert [one["finish"] for one in replies] == ["stop", "length", None]


def test_messages() -> None:
    messages = [{"role": "system", "content": "Be."}, {"role": "user", "content": "Q"}]
    sample = replied("B")
    sample["arguments"]["gen_args_0"]["arg_0"] = messages
    (prompt,) = whole_sample(sample)["prompts"]
    assert prompt["messages"][1] == {"role": "user", "text": "Q"}


def test_examples_are_told_from_the_question() -> None:
    prompt = "Q: one\nA: 1\n\nQ: two\nA: 2\n\nQ: Which?\nA:"
    sample = replied("B", fewshot_docs=[{}, {}])
    sample["arguments"]["gen_args_0"]["arg_0"] = prompt
    (shown,) = whole_sample(sample)["prompts"]
    assert prompt[shown["start"] :] == "Q: Which?\nA:"
    sample["doc"] = {"question": "something else"}
    assert whole_sample(sample)["prompts"][0]["start"] == 0


@pytest.mark.parametrize(
    ("doc", "question"),
    [
        ({"question": " a\n b "}, "a b"),
        ({"id": "7", "story": "once upon a time"}, "once upon a time"),
        ("a text", "a text"),
        (None, "Which?"),
    ],
)
def test_a_question(doc: Any, question: str) -> None:
    assert question_of(replied("B", doc=doc)) == question


def test_the_log_likelihood_of_a_whole_text() -> None:
    sample = replied("x", arguments={"gen_args_0": {"arg_0": "Which?"}}, target="Which?")
    sample |= {"resps": [["-20.5"]], "filtered_resps": ["-20.5"]}
    shown = whole_sample(sample)
    assert [one["logprob"] for one in shown["choices"]] == [-20.5]
    assert shown["replies"] == []
    row = text_row(sample)
    assert (row["a"], row["r"], row["g"]) == ("", "", "")


def test_a_row_is_short_whatever_the_sample_is() -> None:
    row = text_row(replied("word " * 100_000, doc={"question": "w" * 10_000}))
    assert len(row["q"]) <= WORDS
    assert len(row["r"]) <= WORDS
    assert row["n"] == 500_000


def test_texts_are_cut_at_their_end() -> None:
    assert (cut("abc", 3), cut("abcd", 3), cut("a\nb", 5)) == ("abc", "ab…", "a b")


def test_fields_that_group() -> None:
    docs = [
        {"id": str(at), "subject": "ab"[at % 2], "level": at % 3, "question": f"{at}?", "answer": 1}
        for at in range(30)
    ]
    assert grouping_fields(docs) == ["subject", "level"]
    assert grouping_fields([]) == []


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"doc_id": "x", "doc": 3, "resps": "no", "arguments": 5, "metrics": "acc"},
        {"resps": [[]], "arguments": {"a": {}}, "reading": [], "read_with": 2},
        {"resps": [None], "arguments": [[1, 2]], "target": {"a": 1}, "fewshot_docs": {}},
    ],
)
def test_a_sample_that_lacks_everything_is_shown(broken: dict[str, Any]) -> None:
    assert text_row(broken)["why"] == ""
    assert whole_sample(broken)["choices"] == []
