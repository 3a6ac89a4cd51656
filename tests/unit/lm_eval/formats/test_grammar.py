"""A grammar in every notation that engines and servers take, and what is in a reply's holes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lm_eval.errors import ConfigError, FormatError
from lm_eval.formats.compile import compile_format
from lm_eval.formats.grammar import (
    NUMBER,
    Grammar,
    Hole,
    grammar_of,
    line,
    one_of,
    order_of,
    text_hole,
)

LETTERS = Hole(choices=("A", "B"))


def test_a_label_behind_a_phrase_has_two_phases() -> None:
    grammar = grammar_of("The best answer is {label}", lambda after: LETTERS, reasons_first=True)
    assert grammar == Grammar((" ", LETTERS), "The best answer is")
    assert grammar.regex == " (?:A|B)"
    assert grammar.texts == (" A", " B")
    assert grammar.gbnf == 'root ::= " " ("A" | "B")'


def test_without_reasons_the_words_before_an_answer_are_fixed() -> None:
    grammar = grammar_of("It is {label}!", lambda after: LETTERS, reasons_first=False)
    assert grammar == Grammar(("It is ", LETTERS, "!"))
    assert grammar.regex == " ?It is (?:A|B)!"
    assert grammar.answers("It is B!") == (("B", (6, 7)),)


def test_a_rationale_in_the_target_is_free_text() -> None:
    grammar = grammar_of("{rationale}\nSo: {answer}", lambda after: line(), reasons_first=False)
    assert grammar.opening == "So:"


def test_what_follows_the_answer_ends_a_line() -> None:
    grammar = grammar_of(r"\boxed{{{answer}}}", lambda after: line(after[:1]), reasons_first=True)
    assert grammar.opening == r"\boxed{"
    assert grammar.allows("x^2}")
    assert not grammar.allows("x}^2}")
    assert grammar.gbnf == r'root ::= ([^ \t\r\n}] [^\r\n}]*) "}"'


def test_a_schema_has_a_field_for_each_hole() -> None:
    labels = Hole(choices=("yes", "no"))
    grammar = Grammar(('["', labels, '", "', labels, '"]'))
    assert grammar.schema["properties"] == {"1": labels.schema, "2": labels.schema}
    assert grammar.schema["required"] == ["1", "2"]
    assert grammar.from_object('{"1": "no", "2": "yes"}') == '["no", "yes"]'
    assert grammar.texts is None


@pytest.mark.parametrize(
    "text", ["A", '{"answer": "C"}', '{"answer": "A", "more": 1}', "[]", '{"label": "A"}', ""]
)
def test_an_object_that_does_not_fit_the_schema_is_no_answer(text: str) -> None:
    assert Grammar((LETTERS,)).from_object(text) is None


def test_an_object_that_fits_stands_for_a_text() -> None:
    assert Grammar(("It is ", LETTERS)).from_object('{"answer": "A"}') == "It is A"


@pytest.mark.parametrize(
    ("text", "is_number"),
    [("0", 1), ("-12.5", 1), ("007", 0), ("1e5", 0), (".5", 0), ("12.", 0), ("", 0)],
)
def test_numbers(text: str, is_number: int) -> None:
    assert Grammar((NUMBER,)).allows(text) == bool(is_number)


def test_the_last_opening_counts() -> None:
    grammar = Grammar((" ", LETTERS), "Answer:")
    assert grammar.answers("Answer: x. Answer: B") == (("B", (19, 20)),)
    assert grammar.answers("Answer: B, or so") is None
    assert grammar.answers("B") is None


@pytest.mark.parametrize(
    ("free", "prompt"),
    [
        ("", "Answer:"),
        ("So it is.", "So it is.\nAnswer:"),
        ("So it is.\n\n", "So it is.\n\nAnswer:"),
    ],
)
def test_the_opening_comes_behind_free_text_on_a_line_of_its_own(free: str, prompt: str) -> None:
    assert Grammar((LETTERS,), "Answer:").before_answer(free) == prompt


@pytest.mark.parametrize(
    ("grammar", "text", "may"),
    [
        (Grammar((Hole(choices=("New York", "Paris")),)), " New", True),
        (Grammar((Hole(choices=("New York", "Paris")),)), "Newer", False),
        (Grammar(("It is ", NUMBER)), "It i", True),
        (Grammar(("It is ", NUMBER)), "It was", False),
        (Grammar((NUMBER,)), "", True),
    ],
)
def test_what_was_cut_off_may_be_the_beginning(grammar: Grammar, text: str, may: bool) -> None:
    assert grammar.may_become(text) is may


def test_orders_are_texts_up_to_six_choices() -> None:
    assert order_of("AB").choices == ("A, B", "B, A")
    with pytest.raises(
        FormatError, match="order of 7 choices cannot be enforced, only one of up to 6"
    ):
        order_of("ABCDEFG")


def test_an_empty_choice_cannot_be_enforced() -> None:
    with pytest.raises(FormatError, match="a choice has no text"):
        one_of(["a", " "])


def test_texts_are_choices_where_there_are_any_unless_declared() -> None:
    assert text_hole(None, ("a", "b"), "") == Hole(choices=("a", "b"))
    assert text_hole("line", ("a", "b"), "") == line()
    assert text_hole(None, (), "") == line()
    assert text_hole("number", ("a",), "") == NUMBER
    assert text_hole({"regex": "[xy]"}, (), "") == Hole(pattern="[xy]")
    with pytest.raises(FormatError, match="grammar is `choices`, and the doc has none"):
        text_hole("choices", (), "")


def test_strings_in_gbnf_are_escaped_as_in_json() -> None:
    said = Hole(choices=('a "b"\\\n',)).gbnf
    assert said == "(" + json.dumps('a "b"\\\n') + ")"
    assert Grammar((Hole(pattern="[ab]+"),)).gbnf is None


def test_a_wrong_grammar_is_told() -> None:
    wrong: list[Any] = ["nummer", 3, {"regexp": "a"}, {"regex": 3}, {}]
    wrong += [{"regex": pattern} for pattern in ("(", "(a)", "a*", "")]
    for value in wrong:
        with pytest.raises(ConfigError, match="grammar must be one of choices, number, line, or"):
            compile_format({"type": "cot", "grammar": value})
    with pytest.raises(ConfigError, match="Did you mean 'number'"):
        compile_format({"type": "cot", "grammar": "nummer"})
    fmt = compile_format({"type": "cot", "grammar": {"regex": "(?:a|b)"}})
    assert fmt.grammar == {"regex": "(?:a|b)"}


@pytest.mark.parametrize(
    ("grammar", "reply", "held"),
    [
        (Grammar((Hole(choices=("A", "B")),)), " A", " A"),
        (Grammar((Hole(choices=("A", "B")),)), "A.", None),
        (Grammar((Hole(choices=("A", "B")),)), "B\n", "B"),
        (Grammar((Hole(choices=("New", "New York")),)), "New York.", "New York"),
        (Grammar((Hole(choices=("New", "New York")),)), " New.", " New"),
        (Grammar((Hole(choices=("New", "New York")),)), "New is", None),
        (Grammar((Hole(choices=("-", "-]")),)), "-\\", "-"),
        (Grammar((NUMBER,)), "42", "42"),
        (Grammar((NUMBER,)), " 42 apples", " 42"),
        (Grammar((NUMBER,)), "4.5)", "4.5"),
        (Grammar((NUMBER,)), "4 and 5", None),
        (Grammar((NUMBER,)), "none", None),
        (Grammar((line(),)), "a dog\n", "a dog"),
        (Grammar((line(),)), "a dog\nand more", None),
        (Grammar((Hole(pattern="[a-z]+"),)), "dog\n\n", "dog"),
        (Grammar(("<", NUMBER, ">")), "<4>", "<4>"),
        (Grammar(("<", NUMBER, ">")), "<4> x", None),
        (Grammar((" ", NUMBER), "It is"), " 7 of", " 7"),
    ],
)
def test_a_reply_without_an_end_of_its_own_may_say_a_little_more(
    grammar: Grammar, reply: str, held: str | None
) -> None:
    assert grammar.held(reply) == held
    asked = grammar.structured_outputs()
    if held is not None and "regex" in asked:
        assert re.fullmatch(asked["regex"], reply)


def test_vllm_gets_texts_where_they_can_be_listed() -> None:
    grammar = Grammar((Hole(choices=("A", "B")),))
    assert grammar.structured_outputs() == {"choice": [" A", " B", "A", "B"]}
    assert grammar.structured_outputs(may_lead=False) == {"choice": ["A", "B"]}
    assert grammar.behind_opening()[1] == grammar
    one_begins_another = Grammar((Hole(choices=("New", "New York")),))
    assert set(one_begins_another.structured_outputs()) == {"regex"}
    behind = Grammar((" ", Hole(choices=("A", "B"))), "It is")
    assert behind.structured_outputs() == {"choice": [" A", " B"]}
