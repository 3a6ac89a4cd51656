"""What every format that reads text keeps when it is enforced: grammar and reader say the same."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from lm_eval.formats.compile import compile_format, format_names, get_format, shortest_yaml
from lm_eval.formats.grammar import MOST_ORDERED, Grammar, Hole
from lm_eval.formats.items import Item, build_item
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.models.local.enforcer import Enforcer, Pieces

READING = [name for name in format_names() if get_format(name).reads_text]
SCORING = [name for name in format_names() if not get_format(name).reads_text]
CHOICES = st.lists(
    st.text(min_size=1, max_size=12).map(str.strip).filter(bool),
    min_size=2,
    max_size=MOST_ORDERED,
    unique_by=str.casefold,
)
FREE = st.text(max_size=80) | st.sampled_from(
    [
        "",
        "So it is C.",
        "<think>A or",
        "The best answer is",
        "\\boxed{B} or",
        "Answer: A\n",
        "I'm sorry",
    ]
)


def enforced(name: str) -> PromptFormat:
    return get_format(f"{name}+enforced")


def item_of(fmt: PromptFormat, choices: list[str], gold: int, *, shown: bool = True) -> Item:
    """An item that fits the format; numbers are the answers where nothing else can be."""
    if fmt.grammar == "number":
        choices = [str(place + 10) for place in range(len(choices))]
    target: object = gold
    if fmt.answers == "order":
        target = [*range(gold, len(choices)), *range(gold)]
    item = build_item({}, "Which?", choices, target, answers=fmt.answers)
    return item if shown or fmt.answers != "text" else replace(item, choices=())


def filled(grammar: Grammar, answer: str) -> str:
    """A reply without its free text, with an answer in its hole."""
    said = [answer if isinstance(part, Hole) else part for part in grammar.parts]
    return (grammar.opening or "") + "".join(said)


@pytest.mark.parametrize("name", READING)
@given(choices=CHOICES, data=st.data(), shown=st.booleans())
def test_grammar_allows_the_target_that_the_format_writes(
    name: str, choices: list[str], data: st.DataObject, shown: bool
) -> None:
    fmt = enforced(name)
    item = item_of(fmt, choices, data.draw(st.integers(0, len(choices) - 1)), shown=shown)
    # A gold that is a text may hold anything, but not what ends the answer: the free reader cannot
    # read it either.
    if not item.choices:
        assume("\n" not in item.gold[0] and "\r" not in item.gold[0] and "}" not in item.gold[0])
        assume("$" not in item.gold[0])
    grammar = fmt.grammar_for(item)
    assert grammar is not None
    said = fmt.target_text(item)

    assert grammar.answers(said) is not None, (said, grammar)
    reading = fmt.read(said, item)
    right = list(item.gold[0]) if fmt.answers == "order" else item.gold[0]
    if fmt.answers == "text":
        assert reading.is_answer
    else:
        assert reading.value == right


@pytest.mark.parametrize("name", READING)
@given(choices=CHOICES, free=FREE, data=st.data(), shown=st.booleans())
def test_reader_reads_back_everything_that_the_grammar_allows(
    name: str, choices: list[str], free: str, data: st.DataObject, shown: bool
) -> None:
    fmt = enforced(name)
    item = item_of(fmt, choices, 0, shown=shown)
    grammar = fmt.grammar_for(item)
    assert grammar is not None
    (hole,) = grammar.holes
    pattern = (
        st.sampled_from(hole.choices)
        if hole.choices
        else st.from_regex(hole.pattern, fullmatch=True)
    )
    answer = data.draw(pattern)
    assume(grammar.opening is None or grammar.opening not in answer)
    reply = filled(grammar, answer)
    if grammar.opening is not None:
        reply = grammar.before_answer(free) + reply[len(grammar.opening) :]

    reading = fmt.read(reply, item, finish="stop")

    assert reading.is_answer, reading
    assert reading.rule == "enforced"
    start, end = reading.span or (0, 0)
    assert reply[start:end] == answer
    if fmt.answers == "choice":
        labels = fmt.labels(item)
        shown_as = labels if "{label}" in fmt.target_format else item.choices
        assert shown_as[reading.value].strip() == answer
    elif fmt.answers == "order":
        assert ", ".join(fmt.labels(item)[place] for place in reading.value) == answer


@pytest.mark.parametrize("name", READING)
@given(reply=st.text(max_size=60))
def test_a_reply_outside_the_grammar_has_no_answer(name: str, reply: str) -> None:
    fmt = enforced(name)
    item = item_of(fmt, ["red", "blue"], 0)
    grammar = fmt.grammar_for(item)
    assert grammar is not None
    assume(grammar.answers(reply) is None)
    assert fmt.read(reply, item).value is None


@pytest.mark.parametrize("name", READING)
def test_engine_allows_what_the_grammar_does(name: str) -> None:
    """The regular expression means to ``llguidance`` what it means here, byte for byte."""
    enforcer = Enforcer(Pieces(BYTES, [END], None, lambda text: list(text.encode())), [END])
    fmt = enforced(name)
    for shown in (True, False):
        item = item_of(fmt, ["red", "not blue (at all)", "gr[e]*n|", "été\\"], 0, shown=shown)
        grammar = fmt.grammar_for(item)
        assert grammar is not None
        assert enforcer.why_not_enforceable(grammar) is None
        answers = grammar.holes[0].choices or ("12", "-3.5", "10")
        if grammar.holes[0].name == "line":
            answers = ("Paris", "x^2 + 1", "C'est l'été, non?")
        for answer in answers:
            assert taken(enforcer, grammar, filled(replace(grammar, opening=None), answer))
        assert not taken(enforcer, grammar, "\n")


END = 256
BYTES = [bytes([byte]) for byte in range(END)] + [b""]


def taken(enforcer: Enforcer, grammar: Grammar, text: str) -> bool:
    """Whether a reply of this text is one that the engine allows, up to its end."""
    constraint = enforcer.constraint(grammar)
    for byte in text.encode():
        if constraint.is_complete or constraint.choose(partial(int, byte), even) != byte:
            return False
    return constraint.is_complete or constraint.choose(partial(int, END), even) in (None, END)


def even() -> np.ndarray:
    """Logits of a model that is indifferent."""
    return np.zeros(END + 1)


@pytest.mark.parametrize("name", READING)
def test_is_a_format_of_its_own(name: str) -> None:
    free, held = get_format(name), enforced(name)
    assert held.name == f"{name}+enforced"
    assert held.fingerprint != free.fingerprint
    item = item_of(free, ["red", "blue"], 0)
    assert held.question_turn(item) == free.question_turn(item)
    assert free.grammar_for(item) is None
    again = compile_format(yaml.safe_load(shortest_yaml(held)), name=held.name)
    assert again.fingerprint == held.fingerprint
    assert get_format(held.name) == held


@pytest.mark.parametrize("name", READING)
def test_grammar_counts_only_where_it_is_enforced(name: str) -> None:
    free = get_format(name)
    if free.answers == "text":
        declared = replace(free, grammar={"regex": "[a-z]+"})
        assert declared.fingerprint == free.fingerprint
        held = replace(declared, enforced=True)
        assert held.fingerprint != enforced(name).fingerprint


@pytest.mark.parametrize("name", SCORING)
def test_a_format_that_scores_cannot_be_enforced(name: str) -> None:
    with pytest.raises(Exception, match="cannot be enforced: it scores log-likelihoods"):
        enforced(name)
