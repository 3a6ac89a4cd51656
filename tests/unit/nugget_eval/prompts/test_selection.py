"""Which prompt type is chosen for which nuggets."""

from __future__ import annotations

from nugget_eval.prompts.selection import hardness, select_prompt_type

SIMPLE = ["The sky is blue", "Cats purr", "Bees make honey"]
MODERATE = ["The bridge is 300 metres long", "Cats and dogs sleep", "Opened in 1932"]
COMPLEX = [
    "In 1998, 40 percent of the farms and 3 of the mills did not reopen",
    "No member may vote by proxy unless 5 days have passed since 3 March 2020 or the chair agrees",
]
FOUND = {  # numbers, dates, negation, conjunctions, length
    "It opened in 1932": (0, 1, 0, 0, 0),
    "It opened on 2021-05-03": (0, 1, 0, 0, 0),
    "It opened on 5 May 2021 with 3 lanes": (1, 1, 0, 0, 0),
    "About half of them left": (1, 0, 0, 0, 0),
    "He did not, and won't, pay": (0, 0, 1, 1, 0),
    "Nothing notable or known": (0, 0, 0, 1, 0),
    "Sie kamen nicht am 3. März": (0, 1, 1, 0, 0),
    "Llegaron sin agua el 4 de julio y se fueron": (0, 1, 1, 1, 0),
    "该桥于1932年建成，不对卡车开放": (0, 1, 1, 0, 0),
    "It cost 1932.50 dollars": (1, 0, 0, 0, 0),
    "In the 1930s": (0, 1, 0, 0, 0),
    "The handle of the sandal": (0, 0, 0, 0, 0),
    "this and that or those but these": (0, 0, 0, 2, 0),
    "word " * 21: (0, 0, 0, 0, 1),
    "word " * 20: (0, 0, 0, 0, 0),
    "桥" * 42: (0, 0, 0, 0, 1),
}


def test_harder_nuggets_get_more_reasoning() -> None:
    chosen = [select_prompt_type(nuggets) for nuggets in (SIMPLE, MODERATE, COMPLEX)]
    assert chosen == ["no_reasoning", "short_cot", "optimized"]


def test_what_is_found_in_a_nugget() -> None:
    found = {nugget: tuple(hardness(nugget).values()) for nugget in FOUND}
    assert {nugget: points for nugget, points in found.items() if points != FOUND[nugget]} == {}


def test_a_nugget_of_a_megabyte_is_no_trouble() -> None:
    assert select_prompt_type(["and 1932 " * 100_000]) == "optimized"
