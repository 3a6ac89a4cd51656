"""``task@*``: formats that can be filled on every doc, and why the others are left out."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest

from lm_eval.errors import LmEvalWarning, UsageError
from lm_eval.tasks.loader import every_format
from tests.support.choice_task import choice_config

Keys = dict[str, Any]


def rows(count: int, **changes: Keys) -> list[Keys]:
    docs: list[Keys] = [
        {"question": f"q{at}", "choices": ["w", "x", "y", "z"], "answer": at % 4}
        for at in range(count)
    ]
    for name, keys in changes.items():
        docs[int(name[1:])].update(keys)
    return docs


def formats(docs: list[Keys], **keys: Any) -> tuple[list[str], str]:
    """The formats that are taken, and what is said about the others."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tasks = every_format(choice_config(docs, **keys), parity=False)
    assert all(issubclass(one.category, LmEvalWarning) for one in caught)
    return [str(task.format_name) for task in tasks], "\n".join(str(one.message) for one in caught)


def test_a_format_that_fails_on_one_late_doc_is_left_out() -> None:
    """Templates drop the choices beyond their labels, and with them this gold."""
    taken, said = formats(rows(30, d29={"choices": list("vwxyz"), "answer": 4}))
    assert "mcqa" in taken
    assert "mcq::mmlu" not in taken
    assert "mcq::mmlu: doc 29: the right choice is number 5 of 5" in said


def test_golds_that_cannot_be_read_leave_cot_out() -> None:
    worked = [{"question": "q", "answer": f"So it is {n}.\n#### {n}"} for n in range(20)]
    taken, said = formats(worked, doc_to_choice=None)
    assert taken == ["continuation"]  # which scores the text and reads none
    assert re.search(r"(?s)cot.*: doc 0: .*split\('####'\)\[-1\]", said)
    line = "{{ answer.split('####')[-1].strip() }}"
    assert formats(worked, doc_to_choice=None, doc_to_target=line)[0] == [
        "cot",
        "qa",
        "open",
        "boxed",
        "continuation",
    ]


def test_a_doc_that_no_format_can_ask_leaves_none_out() -> None:
    taken, said = formats(rows(300, d7={"choices": ["w"]}, d8={"answer": None}))
    assert {"mcqa", "cloze", "generate", "cot"} <= set(taken)
    assert "doc 7" not in said


def test_no_format_at_all_says_why() -> None:
    with pytest.raises(UsageError, match=r"(?s)on every doc:.*may mean more than one choice"):
        formats([{**row, "answer": str(1 + row["answer"])} for row in rows(8)])


def test_a_task_s_own_formats_are_all_taken_without_a_word() -> None:
    assert formats(rows(4), formats={"cloze": None, "ranking": None}) == (["cloze", "ranking"], "")
