"""The result screen without its limits, printed from a fixed set of results."""

from collections import Counter
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.reports.results_file import RunInfo
from lm_eval.requests.values import Usage
from lm_eval.run.plan import Outcome
from lm_eval.scoring.results import ReadingSummary
from lm_eval.screen.page import print_screen
from tests.support.consoles import printed_by
from tests.support.report_cases import GROUPS, RESULTS, result


def printed(results, groups=(), width=100):
    outcome = Outcome(list(results), list(groups), RunInfo(model="dummy"))
    return printed_by(partial(print_screen, outcome, compares=False, is_full=True), width)


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
def test_no_line_is_too_long_and_nothing_is_lost(width):
    text = printed(RESULTS, GROUPS, width)
    assert max(map(len, text.splitlines())) <= width
    parts = [".483", "[.36, .61]", ".604", "9 cut off", ".317", "80 %", "14,042", "any \\u202eof"]
    assert [part for part in parts if part not in " ".join(text.split())] == []


@given(st.text(st.characters(codec=None), max_size=60))
def test_text_from_outside_is_shown_not_obeyed(text):
    hostile = result(
        f"demo@{text}",
        alias=text,
        notes=[text],
        usage=Usage(requests=1),
        readings=ReadingSummary(2, 1, Counter(unreadable=1), examples=[(0, "unreadable", text)]),
    )
    output = printed([hostile])
    assert "\x1b" not in output
    assert "\u202e" not in output
    assert "\x07" not in output
    output.encode("utf-8")


def test_markup_is_text():
    assert "[red]x[/red] :smile:" in printed([result("[red]x[/red]", alias="[red]x[/red] :smile:")])


def test_few_unread_replies_are_no_remark():
    for read, is_said in ((95, False), (94, True)):
        readings = ReadingSummary(100, read, Counter(empty=100 - read))
        assert ("without an answer" in printed([result(readings=readings)])) == is_said


def test_no_replies_and_no_score():
    assert "without an answer" not in printed([result(readings=ReadingSummary())])
    assert "–" in printed([result("demo@mcqa", metrics={})])
