"""Excerpts: the first difference of two texts, and marked places; nothing that a terminal obeys."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from lm_eval.lab.show.phrases import at_index, first_difference, marked, quoted
from lm_eval.support.terminal import visible

TEXTS = st.text(st.sampled_from("ab\n\u200b\x1b é"), max_size=30)


@given(TEXTS, TEXTS, TEXTS)
def test_first_difference_is_that_of_a_plain_search(start: str, one: str, other: str) -> None:
    one, other = start + one, start + other
    same = list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    assert first_difference(one, other) == len(same)


@given(TEXTS, st.integers(0, 30), st.integers(0, 30))
def test_short_texts_are_shown_whole(text: str, one: int, other: int) -> None:
    start, end = sorted((min(one, len(text)), min(other, len(text))))
    shown = marked(text, (start, end))
    before, inside, after = visible(text[:start]), visible(text[start:end]), visible(text[end:])
    assert shown == (f"{before}«{inside}»{after}" if text else "(nothing)")
    assert at_index(text, start) == f"{before}»{visible(text[start:])}"


def test_long_texts_are_cut_around_what_matters() -> None:
    text = "x" * 500 + "HERE" + "y" * 500
    assert marked(text, (500, 504), 3) == "…xxx«HERE»yyy…"
    assert at_index(text, 500, 3) == "…xxx»HER…"
    assert quoted(text, 5) == "“xxxx…”"
    assert quoted(" \n") == "(nothing)"


def test_a_span_beyond_the_text_is_cut() -> None:
    assert marked("abc", (2, 9)) == "ab«c»"
