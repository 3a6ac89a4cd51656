"""Which prompt type is chosen for which nuggets, and that the reason is given and logged."""

from __future__ import annotations

import logging

import pytest

from nugget_eval.errors import PromptError
from nugget_eval.prompts import PROMPT_TYPES, complexity, select_prompt_type

SIMPLE = ["The sky is blue", "Cats purr", "Bees make honey"]
MODERATE = ["The bridge is 300 metres long", "Cats and dogs sleep", "Opened in 1932"]
COMPLEX = [
    "In 1998, 40 percent of the farms and 3 of the mills did not reopen",
    "No member may vote by proxy unless 5 days have passed since 3 March 2020 or the chair agrees",
]


@pytest.mark.parametrize(
    ("nuggets", "chosen"),
    [(SIMPLE, "no_reasoning"), (MODERATE, "short_cot"), (COMPLEX, "optimized")],
)
def test_harder_nuggets_get_more_reasoning(
    nuggets: list[str], chosen: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="nugget_eval.prompts"):
        selection = select_prompt_type(nuggets)
    assert selection.prompt_type == chosen
    assert selection.prompt_type in PROMPT_TYPES
    assert selection.reason in caplog.text
    assert chosen in caplog.text


def test_models_that_think_get_room_for_it() -> None:
    assert select_prompt_type(COMPLEX, is_reasoning_model=True).prompt_type == "long_cot"
    assert select_prompt_type(SIMPLE, is_reasoning_model=True).prompt_type == "no_reasoning"


def test_reason_counts_what_was_found() -> None:
    reason = select_prompt_type(COMPLEX).reason
    assert "of 2: numbers in 2, dates in 2, negation in 2, conjunctions in 2" in reason
    assert "nothing that makes them hard" in select_prompt_type(SIMPLE).reason


@pytest.mark.parametrize(
    ("nugget", "number", "date", "negation", "conjunctions"),
    [
        ("It opened in 1932", False, True, False, 0),
        ("It opened on 2021-05-03", False, True, False, 0),
        ("It opened on 5 May 2021 with 3 lanes", True, True, False, 0),
        ("About half of them left", True, False, False, 0),
        ("He did not, and won't, pay", False, False, True, 1),
        ("Nothing notable or known", False, False, False, 1),
        ("Sie kamen nicht am 3. März", False, True, True, 0),
        ("Llegaron sin agua el 4 de julio y se fueron", False, True, True, 1),
        ("该桥于1932年建成，不对卡车开放", False, True, True, 0),
        ("It cost 1932.50 dollars", True, False, False, 0),
        ("In the 1930s", False, True, False, 0),
        ("The handle of the sandal", False, False, False, 0),
    ],
)
def test_what_is_found_in_a_nugget(
    nugget: str, number: bool, date: bool, negation: bool, conjunctions: int
) -> None:
    found = complexity(nugget)
    assert (found.has_number, found.has_date, found.has_negation) == (number, date, negation)
    assert found.conjunctions == conjunctions


def test_length_counts_words_also_without_spaces() -> None:
    assert complexity("word " * 21).points == 1
    assert complexity("word " * 20).points == 0
    assert complexity("桥" * 42).words == 21


@pytest.mark.parametrize("wrong", [[], "a nugget"])
def test_no_list_no_choice(wrong: object) -> None:
    with pytest.raises(PromptError, match="list of nuggets"):
        select_prompt_type(wrong)  # type: ignore[arg-type]


def test_a_nugget_of_a_megabyte_is_no_trouble() -> None:
    assert select_prompt_type(["and 1932 " * 100_000]).prompt_type in PROMPT_TYPES
