"""The checks of IFEval: the published rules, case by case, and against another implementation."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.registry import CHECKS
from lm_eval.scoring.checks import variants_of, verdicts
from tests.support.paths import ROOT

STORED = json.loads((ROOT / "tests/data/metrics/instructions.json").read_text(encoding="utf-8"))
"""Check, arguments, made reply, strict and loose verdict of lm_eval 0.4.13 (langdetect with seed 0,
sentences by Punkt without a trained model)."""
LANGUAGE = ("language:response_language", "change_case:english_capital")
LANGUAGE += ("change_case:english_lowercase",)


def follows(name, reply, **arguments):
    return CHECKS.get(name)(reply, **arguments)


def test_there_are_all_25():
    assert len(CHECKS) == 25
    assert {name for name, *_ in STORED} == set(CHECKS)


@pytest.mark.parametrize("name", sorted({case[0] for case in STORED}))
def test_stored_verdicts(name):
    if name in LANGUAGE:
        pytest.importorskip("langdetect")
    for _, arguments, reply, strict, loose in [case for case in STORED if case[0] == name]:
        found = verdicts(reply, [(name, arguments)])
        assert found["inst_level_strict_acc"] == [strict], (arguments, reply)
        assert found["inst_level_loose_acc"] == [loose], (arguments, reply)


CASES = [
    ("keywords:existence", {"keywords": ["Tea", "cup"]}, "TEAcups are nice", True),
    ("keywords:existence", {"keywords": ["c++"]}, "I like C++.", True),
    ("keywords:existence", {"keywords": ["tea", "cup"]}, "tea", False),
    (
        "keywords:frequency",
        {"keyword": "tea", "frequency": 2, "relation": "at least"},
        "Tea tea",
        True,
    ),
    (
        "keywords:frequency",
        {"keyword": "tea", "frequency": 2, "relation": "less than"},
        "Tea t",
        True,
    ),
    ("keywords:forbidden_words", {"forbidden_words": ["tea"]}, "Teas are fine", True),
    ("keywords:forbidden_words", {"forbidden_words": ["tea"]}, "No TEA.", False),
    (
        "keywords:letter_frequency",
        {"letter": "#", "let_frequency": 2, "let_relation": "at least"},
        "# one # two",
        True,
    ),
    (
        "keywords:letter_frequency",
        {"letter": "Q", "let_frequency": 1, "let_relation": "less than"},
        "no such letter",
        True,
    ),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "***a***b***", True),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a ***  *** b", False),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "tea"},
        'One.\n\n"Tea, please."',
        True,
    ),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "tea"},
        "One.\n\nTea",
        False,
    ),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye. p. s. more", True),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye. PS more", False),
    ("detectable_content:postscript", {"postscript_marker": "Note:"}, "NOTE: more", True),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b\n** c", True),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* **b**", True),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* * *", False),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Part", "num_sections": 2},
        "Part 1 a\nPart 2 b",
        True,
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": [1]}\n```', True),
    ("detectable_format:json_format", {}, "{'a': 1}", False),
    ("detectable_format:json_format", {}, "[" * 100_000, False),
    ("detectable_format:title", {}, "<<Tea>>\nIt is warm.", True),
    ("detectable_format:title", {}, "<<>>", False),
    ("detectable_format:constrained_response", {}, "Well: My answer is no.", True),
    ("combination:two_responses", {}, "a\n******\nb", True),
    ("combination:two_responses", {}, "a\n******\na", False),
    ("combination:two_responses", {}, "a******b******c", False),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Write. "}, "  WRITE. Tea", True),
    ("startend:end_checker", {"end_phrase": "Bye."}, 'Tea. "bye."', True),
    ("startend:quotation", {}, ' "Tea" ', True),
    ("startend:quotation", {}, '"', False),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "at least"},
        "DON'T go",
        True,
    ),
    ("punctuation:no_comma", {}, "Tea; milk", True),
    ("punctuation:no_comma", {}, "Tea, milk", False),
]


@pytest.mark.parametrize(("name", "arguments", "reply", "wanted"), CASES)
def test_cases(name, arguments, reply, wanted):
    assert follows(name, reply, **arguments) is wanted


class TestLanguage:
    def test_language_and_case(self):
        pytest.importorskip("langdetect")
        german = "Das ist ein kurzer Satz auf Deutsch, und er ist gut."
        assert follows("language:response_language", german, language="de")
        assert not follows("language:response_language", german, language="en")
        assert not follows("change_case:english_lowercase", german.lower())
        assert follows("change_case:english_lowercase", "this is a short sentence in english")
        assert follows("change_case:english_capital", "THIS IS A SHORT SENTENCE IN ENGLISH")
        assert not follows("change_case:english_capital", "This is not in capital letters")

    def test_a_reply_without_letters_counts_as_followed(self):
        pytest.importorskip("langdetect")
        assert follows("language:response_language", "1234", language="de")


class TestVerdicts:
    def test_nothing_follows_nothing(self):
        found = verdicts("  \n ", [("punctuation:no_comma", {})])
        assert found["inst_level_loose_acc"] == [False]
        assert found["prompt_level_strict_acc"] == 0.0

    def test_loose_leaves_out_the_first_line_and_asterisks(self):
        instructions = [("punctuation:no_comma", {}), ("startend:quotation", {})]
        found = verdicts('Sure, here it is:\n**"Tea"**', instructions)
        assert found["inst_level_strict_acc"] == [False, False]
        assert found["inst_level_loose_acc"] == [True, True]
        assert (found["prompt_level_strict_acc"], found["prompt_level_loose_acc"]) == (0.0, 1.0)

    def test_thinking_in_front_is_left_out(self):
        found = verdicts("<think>Commas, commas.</think>\n\nTea", [("punctuation:no_comma", {})])
        assert found["inst_level_strict_acc"] == [True]

    @given(st.text(st.sampled_from("ab*\n ,"), max_size=30))
    def test_strict_implies_loose_and_there_are_eight_variants(self, reply):
        assert len(variants_of(reply)) == 8
        found = verdicts(reply, [("punctuation:no_comma", {}), ("combination:two_responses", {})])
        strict, loose = found["inst_level_strict_acc"], found["inst_level_loose_acc"]
        assert all(after or not before for before, after in zip(strict, loose, strict=True))
