"""The short lines beside the findings of a comparison."""

from __future__ import annotations

import re

from lm_eval.lab.compare.details import facts
from lm_eval.lab.compare.statistics import compare
from lm_eval.lab.stored.measurement import CHOICES_HIDDEN, Measurement
from tests.support.comparison_cases import FAST, right, row, unread


def said(rows: list[Measurement], label: str) -> str:
    """What comes after a label; empty if that line is missing."""
    (block,) = compare(rows, FAST).blocks
    return dict(facts(block)).get(label, "")


def test_adherence_is_enforced_minus_free_whichever_is_better() -> None:
    free, read = unread(right(200, 0.6, 1), 0.4, 5)
    gain = [
        row("cot", free, read=read),
        row("cot+enforced", right(200, 0.6, 1), read=[True] * 200),
    ]
    loss = [
        row("cot", right(200, 0.6, 1), read=[True] * 200),
        row("cot+enforced", right(200, 0.3, 2)),
    ]
    share = round(100 * sum(read) / 200)
    number = r"\.\d\d \[−?\.\d\d, −?\.\d\d\]"
    assert re.fullmatch(
        rf"enforced − free: cot \+{number}, {share} % parsed free and 100 % enforced",
        said(gain, "Adherence"),
    )
    assert re.match(rf"enforced − free: cot −{number}", said(loss, "Adherence"))


def test_choices_that_only_the_enforced_format_has_are_mentioned() -> None:
    rows = [
        row("cot", right(60, 0.3, 1), choices=CHOICES_HIDDEN),
        row("cot+enforced", right(60, 0.6, 2), choices=CHOICES_HIDDEN),
    ]
    assert "(free, no choices are shown; enforced, the answer is" in said(rows, "Adherence")


def test_formats_that_are_not_twins_have_no_adherence() -> None:
    rows = [row("cot", right(60, 0.3, 1)), row("generate+enforced", right(60, 0.6, 2))]
    assert said(rows, "Adherence") == ""


def test_the_error_of_a_score_says_what_the_choice_of_format_adds() -> None:
    alike = [row("a", right(200, 0.5, 1)), row("b", right(200, 0.5, 1))]
    apart = [row("a", right(200, 0.9, 1)), row("b", right(200, 0.3, 2))]
    few = [row("a", [1, 0]), row("b", [0, 0])]
    assert said(alike, "Std. error").endswith("; the choice of format adds nothing measurable")
    assert "; with the choice of format ± " in said(apart, "Std. error")
    assert said(few, "Std. error") == ""
