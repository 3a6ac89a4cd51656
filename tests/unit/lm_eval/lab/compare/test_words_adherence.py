"""Free against enforced, in words."""

from __future__ import annotations

from lm_eval.lab.compare.statistics import compare
from lm_eval.lab.compare.words import adherence_words, sentences
from lm_eval.lab.stored.measurement import CHOICES_HIDDEN
from tests.support.comparison_cases import FAST, right, row, unread


def test_the_gap_is_enforced_less_free_whichever_is_better() -> None:
    free, read = unread(right(200, 0.6, 1), 0.4, 5)
    better = [
        row("cot", free, read=read),
        row("cot+enforced", right(200, 0.6, 1), read=[True] * 200),
    ]
    worse = [
        row("cot", right(200, 0.6, 1), read=[True] * 200),
        row("cot+enforced", right(200, 0.3, 2)),
    ]
    (gain,) = compare(better, FAST).blocks
    (loss,) = compare(worse, FAST).blocks
    said = adherence_words(gain)
    assert said in sentences(gain)
    value = sum(better[1].scores) / 200 - sum(better[0].scores) / 200
    share = round(100 * sum(read) / 200)
    start = "Adherence gap (enforced less free, what not keeping to the format costs): "
    assert said.startswith(f"{start}cot {value:.2f} (between ")
    assert said.endswith(f", {share} % read free and 100 % enforced.")
    assert adherence_words(loss).startswith(f"{start}cot -")


def test_a_format_that_hides_the_choices_is_told() -> None:
    rows = [
        row("cot", right(60, 0.3, 1), choices=CHOICES_HIDDEN),
        row("cot+enforced", right(60, 0.6, 2), choices=CHOICES_HIDDEN),
    ]
    (block,) = compare(rows, FAST).blocks
    assert "cot shows no choices and the enforced answer is one of them" in adherence_words(block)


def test_formats_that_are_not_twins_have_no_gap() -> None:
    rows = [row("cot", right(60, 0.3, 1)), row("generate+enforced", right(60, 0.6, 2))]
    (block,) = compare(rows, FAST).blocks
    assert adherence_words(block) == ""
