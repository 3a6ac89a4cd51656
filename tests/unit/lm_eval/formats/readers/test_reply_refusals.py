"""Refusals: what is one for a format is one for the judge, and it never hides an answer."""

from __future__ import annotations

import pytest

from lm_eval.formats.readers import bind_reader, read
from nugget_eval.common import read_labels

CHOICE = bind_reader("choice")
VERBS = [
    *("help", "assist", "answer", "provide", "comply", "choose", "select", "continue", "discuss"),
    *("engage", "fulfill", "respond", "judge", "evaluate", "assign", "label", "complete", "assess"),
]
REFUSALS = [
    *(f"I cannot {verb} this." for verb in VERBS),
    "I can't do that.",
    "I’m sorry, this is not something for me.",
    "I am not able to say.",
    "As an AI, I have no opinion.",
    "I must decline.",
    "<think>" + "Should I? " * 100 + "</think>\nI will not engage with this.",
    "Hm. " * 120 + "I refuse to answer.",
]


@pytest.mark.parametrize("reply", REFUSALS)
def test_formats_and_the_judge_see_the_same_refusals(reply: str) -> None:
    assert read(reply, [CHOICE], labels=list("ABCD")).reason == "refused"
    assert read_labels(reply, 2).error_type == "refusal"


@pytest.mark.parametrize("reply", ["I cannot see it.", "No.", "Hm. " * 200 + "I refuse to answer."])
def test_what_is_merely_unread_is_no_refusal(reply: str) -> None:
    assert read(reply, [CHOICE], labels=list("ABCD")).reason == "unreadable"
    assert read_labels(reply, 2).error_type == "format_error"


@pytest.mark.parametrize("verb", VERBS)
def test_an_answer_after_an_apology_is_read(verb: str) -> None:
    reply = f"I cannot {verb} more than this. The answer is C."
    assert read(reply, [CHOICE], labels=list("ABCD")).value == 2
    assert read_labels(f'I cannot {verb} more.\n["support"]', 1).labels == ("support",)
