"""Sentences and words, counted as IFEval counts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.scoring.checks import (
    count_capital_words,
    count_sentences,
    count_words,
    words_apart,
)

SENTENCES = [
    ("", 0),
    ("One", 1),
    ("One. Two. Three.", 3),
    ("One! Two? Three", 3),
    ("What?! Yes.", 2),
    ("Mr. Smith met Dr. Jones.", 1),
    ("He lives in the U.S. The climate is mild.", 2),
    ("It is used, e.g. in tea. It is good.", 2),
    ("J. R. Smith wrote it. Then he left.", 2),
    ("It costs 3.50 euros. Cheap.", 2),
    ("Wait... what is it?", 1),
    ("Wait... What is it?", 2),
    ('He said "Stop." Then he left.', 2),
    ("1. First. 2. Second.", 4),
    ("1. solar kits: they give light.\n2. clinics: they give care.", 2),
    ("* one\n* two\n* three", 1),
    ("See No. 5 for it. Is that a no. Yes.", 3),
    ("Go to www.example.com now. Bye.", 2),
]


@pytest.mark.parametrize(("text", "wanted"), SENTENCES)
def test_sentences(text, wanted):
    assert count_sentences(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("DON'T", ["DO", "N'T"]),
        ("IT'S OK.", ["IT", "'S", "OK", "."]),
        ("CANNOT", ["CAN", "NOT"]),
        ("A-B AND/OR", ["A-B", "AND/OR"]),
        ("(YES), no!", ["(", "YES", ")", ",", "no", "!"]),
        ("5,000 and 12:30", ["5,000", "and", "12:30"]),
    ],
)
def test_words_apart(text, wanted):
    assert words_apart(text) == wanted


def test_capital_words_and_words():
    assert count_capital_words("NASA and the U.S. DON'T agree") == 4
    assert count_words("It's five_words, or-six") == 5


@given(st.lists(st.sampled_from(["Tea is warm.", "Is it?", "Yes!"]), max_size=8))
def test_plain_sentences_are_counted_one_by_one(sentences):
    assert count_sentences(" ".join(sentences)) == len(sentences)


@given(st.text())
def test_any_text_has_a_count(text):
    assert count_sentences(text) >= (1 if text.strip() else 0)
    assert count_capital_words(text) >= 0
