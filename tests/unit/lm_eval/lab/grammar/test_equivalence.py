"""Each check refuses what it is there for, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.formats.compile import compile_format, get_format
from lm_eval.lab.grammar.equivalence import CHECKS, Probe, failed_check, parse
from lm_eval.lab.grammar.layout import Layout
from tests.support.lab_bases import BASES, base

MCQA, GENERATE = get_format("mcqa"), get_format("generate")


def failing(name: str, **changes: Any) -> list[str]:
    """The checks that a format with these changes fails."""
    given_base = base(name)
    probe = Probe(given_base, compile_format({"type": name, **changes}))
    return [check for check, holds in CHECKS.items() if not holds(probe)]


@pytest.mark.parametrize("name", BASES)
def test_a_base_keeps_every_check_beside_itself(name: str) -> None:
    assert failed_check(Probe(base(name), base(name))) is None


@pytest.mark.parametrize(
    ("check", "name", "changes"),
    [
        # Without a border between choices nobody can say where one ends.
        ("parses back", "mcqa", {"choice_format": "{choice}", "choice_delimiter": ""}),
        ("parses back", "mcqa", {"choice_format": "{label}. {choice} ({choice})"}),
        ("labels", "mcqa", {"choice_labels": ["A", "B", "C"]}),  # too few for nine choices
        ("labels", "generate", {"choice_labels": [f"x{'x' * n}" for n in range(9)]}),
        ("newlines", "mcqa", {"question_prefix": "Question\n", "section_separator": " "}),
        ("newlines", "mcqa", {"section_separator": "; "}),
        ("empty separator", "mcqa", {"question_prefix": "Question"}),
        ("empty separator", "mcqa", {"answer_prompt": "Answer", "target_delimiter": ""}),
        ("empty separator", "mcqa", {"choice_format": "{label}{choice}"}),
        ("empty separator", "mcqa", {"choice_delimiter": "", "section_separator": ""}),
        ("joint change", "mcqa", {"question_prefix": "Question - "}),
        ("joint change", "mcqa", {"choice_delimiter": "\n\n"}),
        ("joint change", "mcqa", {"question_prefix": "QUESTION: "}),
        ("joint change", "mcqa", {"question_prefix": None}),
        ("gold", "mcqa", {"choice_format": "- {choice}"}),  # labels that nobody sees are scored
        ("stop strings", "generate", {"generation_kwargs": {"until": ["C", "A"]}}),
        ("reads back", "generate", {"scorer": {"reader": "regex", "pattern": "(zzz)"}}),
        ("reads back", "generate", {"target_format": "not {label} but another"}),
        ("echo", "generate", {"answer_prompt": "The best answer is B."}),
    ],
)
def test_a_check_refuses_what_it_is_there_for(
    check: str, name: str, changes: dict[str, Any]
) -> None:
    assert check in failing(name, **changes)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("mcqa", {"question_prefix": "QUESTION:: ", "answer_prompt": "ANSWER::"}),
        ("mcqa", {"choice_format": "[{label}]{choice}"}),  # nothing runs together behind a sign
        ("mcqa", {"choice_labels": "numbers"}),
        ("mcqa", {"section_separator": " || ", "choice_delimiter": " || "}),
        ("mcq::gpqa", {"choice_delimiter": ""}),  # …(A) red(B) blue…
        ("generate", {"choice_labels": "numbers"}),
    ],
)
def test_what_asks_the_same_is_accepted(name: str, changes: dict[str, Any]) -> None:
    assert failing(name, **changes) == []


def test_labels_named_in_a_text_must_be_those_shown() -> None:
    spelt = compile_format({"type": "mcqa", "instruction": "Say A, B, C or D.\n"})
    assert failed_check(Probe(spelt, replace(spelt, choice_labels="numbers"))) == "labels"
    vitamin = compile_format({"type": "mcqa", "instruction": "A question on vitamin C.\n"})
    small = replace(vitamin, choice_labels=tuple("abcdefghi"))
    assert failed_check(Probe(vitamin, small)) is None


def test_a_field_inside_another_is_noticed() -> None:
    """A question that also stands among the words around it could be found in two places."""
    twice = replace(MCQA, answer_prompt="Kuvo zeti, 7 rano?")
    assert not CHECKS["fields apart"](Probe(twice, twice))


def test_what_a_text_reads_from_docs_does_not_matter() -> None:
    fmt = compile_format({"type": "mcqa", "instruction": "About {{ subject | upper }}:\n"})
    probe = Probe(fmt, replace(fmt, choice_format="({label}) {choice}"))
    assert failed_check(probe) is None


@given(st.lists(st.text("ab#", max_size=4), min_size=2, max_size=5), st.data())
def test_parsing_is_sure_or_refuses(pieces: list[str], data: st.DataObject) -> None:
    """What is parsed, put together, is the text; and no other way to cut it exists."""
    fields = [data.draw(st.text("ab#", min_size=1, max_size=4)) for _ in pieces[1:]]
    text = pieces[0] + "".join(f + p for f, p in zip(fields, pieces[1:], strict=True))
    found = parse(text, pieces)
    ways = list(_ways(text, pieces))
    assert fields in ways
    if found is not None:
        assert ways == [fields]
        assert found == fields


def _ways(text: str, pieces: list[str]) -> Any:
    """Every way to cut a text at these pieces into fields that are not empty."""
    if not text.startswith(pieces[0]):
        return
    rest = text[len(pieces[0]) :]
    if len(pieces) == 1:
        if not rest:
            yield []
        return
    for end in range(1, len(rest) + 1):
        for tail in _ways(rest[end:], pieces[1:]):
            yield [rest[:end], *tail]


def test_a_layout_filled_with_its_own_values_is_the_base() -> None:
    for name in BASES:
        layout = Layout(base(name))
        assert layout.fill(layout.own) == base(name)
