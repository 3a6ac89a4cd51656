"""What every registered format keeps: it reads what it writes, and prints itself back."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.errors import LmEvalError
from lm_eval.formats.assemble import Joints, spoken
from lm_eval.formats.compile import compile_format, format_names, get_format, shortest_yaml
from lm_eval.formats.items import Item, build_item
from lm_eval.formats.languages import in_language
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.formats.readers import bind_reader
from lm_eval.registry import FORMATS, METRICS
from lm_eval.scoring import metrics  # noqa: F401  # registers them

NAMES = format_names()
READING = [name for name in NAMES if get_format(name).reads_text]

# Words that no reader takes for a label, a refusal or a number; the data may hold anything else.
WORD = st.text("bcdefghjklmnopqrstuvwxyzäöüßéñçа中日", min_size=2, max_size=9)
CHOICE = st.lists(WORD, min_size=1, max_size=3).map(" ".join)
CHOICES = st.lists(CHOICE, min_size=2, max_size=30, unique_by=str.casefold)
QUESTION = st.text(max_size=60)
BLANK = "_"
NUMERIC = ("gsm8k",)
"""Formats whose answers are numbers only."""
ANY_CHOICE = st.text(min_size=1, max_size=12).map(str.strip).filter(bool)


def item_for(fmt: PromptFormat, question: str, choices: list[str], gold: int) -> Item:
    """An item that fits the format; for an order, one that starts with the gold."""
    places = list(range(len(choices)))
    if fmt.name in NUMERIC:
        choices = [str(place + 10) for place in places]
    if fmt.fills_blank:
        question = f"{question.replace(BLANK, '')} {BLANK} after the blank"
    target: Any = places[gold:] + places[:gold] if fmt.answers == "order" else gold
    doc = {"question": question, "choices": choices, "target": target}
    return build_item(doc, question, choices, target, answers=fmt.answers)


def cut(fmt: PromptFormat, choices: list[str]) -> list[str]:
    """As many choices as the format can label."""
    limit = len(fmt.choice_labels) if isinstance(fmt.choice_labels, tuple) else len(choices)
    return choices[:limit]


def right(fmt: PromptFormat, item: Item) -> Any:
    return list(item.gold[0]) if fmt.answers == "order" else item.gold[0]


@pytest.mark.parametrize("name", READING)
@given(question=QUESTION, choices=CHOICES, data=st.data())
def test_reading_the_target_it_writes_gives_the_gold(
    name: str, question: str, choices: list[str], data: st.DataObject
) -> None:
    fmt = get_format(name)
    choices = cut(fmt, choices)
    item = item_for(fmt, question, choices, data.draw(st.integers(0, len(choices) - 1)))
    shot = fmt.shot_turn(item)

    prefilled = fmt.read(" " + str(shot.answer), item)
    assert prefilled.is_answer, prefilled
    assert prefilled.value == right(fmt, item)
    assert prefilled.rule
    assert prefilled.span is not None

    whole = fmt.read(spoken(shot), item, is_prefilled=False)
    assert whole.value == right(fmt, item), whole
    start, end = whole.span or (0, 0)
    assert spoken(shot)[start:end].strip()


@pytest.mark.parametrize("name", READING)
@given(reply=st.text(" \t\r\n\u00a0\u3000", max_size=5), is_prefilled=st.booleans())
def test_empty_reply_is_no_answer(name: str, reply: str, is_prefilled: bool) -> None:
    fmt = get_format(name)
    reading = fmt.read(reply, item_for(fmt, "q", ["one", "two"], 1), is_prefilled=is_prefilled)
    assert not reading.is_answer
    assert reading.value is None
    assert reading.reason == "empty"


@pytest.mark.parametrize("name", READING)
@given(question=QUESTION, choices=st.lists(ANY_CHOICE, min_size=2, max_size=30, unique=True))
def test_labels_are_read_whatever_the_choices_say(
    name: str, question: str, choices: list[str]
) -> None:
    """Where a label is written, the texts behind the labels do not matter."""
    fmt = get_format(name)
    if not fmt.shows_labels:
        return
    choices = cut(fmt, choices)
    item = item_for(fmt, question, choices, len(choices) // 2)
    reading = fmt.read(" " + fmt.target_text(item), item)
    assert reading.value == right(fmt, item), reading


@pytest.mark.parametrize("name", READING)
def test_echo_of_the_prompt_is_no_answer(name: str) -> None:
    """The prompt's own ``[answer]`` and its list of choices are not a model's answer.

    For formats that read a part of the reply; one that reads all of it reads an echo too.
    """
    fmt, _ = in_language(get_format(name), None, task="t")
    if fmt.scorer is not None and fmt.scorer.name == "whole_reply":
        return
    item = item_for(fmt, "Which one?", ["red", "blue", "green", "white"], 0)
    last_line = fmt.question_turn(item).user.rpartition("\n")[2]
    if last_line == item.question:  # which is not the format's
        return
    for is_prefilled in (False, True):
        assert fmt.read(last_line, item, is_prefilled=is_prefilled).value is None


@pytest.mark.parametrize("name", NAMES)
def test_prints_itself_as_shortest_yaml(name: str) -> None:
    fmt = get_format(name)
    text = shortest_yaml(fmt)
    again = compile_format(yaml.safe_load(text), name=fmt.name)
    assert again.fingerprint == fmt.fingerprint
    # No field can be left out: it is the shortest.
    data = yaml.safe_load(text)
    for key in data.keys() - {"name", "type", "summary"}:
        less = {k: v for k, v in data.items() if k != key}
        try:
            changed = compile_format(less, name=fmt.name)
        except LmEvalError:
            continue
        assert changed.fingerprint != fmt.fingerprint, f"{key} is not needed"


@pytest.mark.parametrize("name", NAMES)
def test_a_builtin_is_one_line_of_yaml(name: str) -> None:
    if FORMATS.place(name) == "built in":
        assert yaml.safe_load(shortest_yaml(get_format(name))) == {"type": name}


def test_fingerprints_differ_between_formats() -> None:
    prints = {name: get_format(name).fingerprint for name in NAMES}
    assert len(set(prints.values())) == len(prints), prints
    assert all(len(p) == 12 and int(p, 16) >= 0 for p in prints.values())


CHANGED: dict[str, tuple[Any, Any]] = {
    "version": (99, 98),
    "output_type": ("generate_until", "multiple_choice"),
    "answers": ("text", "choice"),
    "blank_position": ("inline", "end"),
    "scored": ("texts", "labels"),
    "scored_format": ("{{ _choice }}!", None),
    "choice_labels": (("x1", "x2", "x3", "x4", "x5"), None),
    "scorer": (bind_reader({"reader": "regex", "pattern": "x(.)"}), None),
    "generation_kwargs": ({"until": ["§"], "max_gen_toks": 7}, {}),
    "metrics": (("acc", "f1_macro"), ("acc",)),
    "words": ({"xx": {"question": "x"}}, {}),
}


def changed_value(fmt: PromptFormat, name: str) -> Any:
    """Another value of the field's type."""
    value = getattr(fmt, name)
    if isinstance(value, bool):
        return not value
    if name in CHANGED:
        return next(other for other in CHANGED[name] if other != value)
    return f"{value or ''}§"


NOT_MEASURED = ("name", "summary", "kind", "num_fewshot", "filters", "grammar")
"""A grammar counts where it is enforced: test_enforced.py."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "field", [f.name for f in fields(PromptFormat) if f.name not in NOT_MEASURED]
)
def test_fingerprint_changes_with_every_behaviour_field(name: str, field: str) -> None:
    fmt = get_format(name)
    changed = replace(fmt, **{field: changed_value(fmt, field)})
    assert getattr(changed, field) != getattr(fmt, field)
    assert changed.fingerprint != fmt.fingerprint


@pytest.mark.parametrize("name", NAMES)
def test_name_and_summary_do_not_change_the_fingerprint(name: str) -> None:
    fmt = get_format(name)
    for kind in ("general", "convention"):
        changed = replace(fmt, name="other", summary="other", kind=kind)
        assert changed.fingerprint == fmt.fingerprint


@pytest.mark.parametrize("name", NAMES)
def test_is_plain_data_and_frozen(name: str) -> None:
    fmt = get_format(name)
    assert json.loads(json.dumps(fmt.as_data())) == fmt.as_data()
    with pytest.raises(AttributeError):
        fmt.name = "other"  # type: ignore[misc]


@pytest.mark.parametrize("name", NAMES)
def test_its_metrics_exist_and_fit(name: str) -> None:
    fmt = get_format(name)
    assert fmt.metrics[0] == "acc" or fmt.kind == "special"
    for metric in fmt.metrics:
        assert METRICS.get(metric.rpartition("=")[2]).fits(reads_text=fmt.reads_text)
    if fmt.reads_text:
        assert "acc_read" in fmt.metrics


@pytest.mark.parametrize("name", NAMES)
@given(question=QUESTION, choices=CHOICES)
def test_question_and_choices_come_through_unchanged(
    name: str, question: str, choices: list[str]
) -> None:
    fmt = get_format(name)
    choices = cut(fmt, choices)
    item = item_for(fmt, question, choices, 0)
    turn = fmt.question_turn(item)
    asked = item.question.strip() if fmt.strip_question else item.question
    if fmt.fills_blank:
        pairs = zip(fmt.filled_turns(item), fmt.continuations(item), strict=True)
        filled = [f"{user} {rest}" for user, rest in pairs]
        wanted = asked.partition(BLANK)
        assert filled == [f"{wanted[0]}{choice} {wanted[2].strip()}" for choice in choices]
        return
    if not fmt.show_question and fmt.kind != "special":
        assert all(asked in one for one in fmt.continuations(item))
        return
    if fmt.show_question:
        assert asked in turn.user
    if fmt.shows_labels:
        assert all(choice in turn.user for choice in choices)


@pytest.mark.parametrize("name", NAMES)
def test_shot_ends_with_what_the_question_asks_for(name: str) -> None:
    """A shot's user text is the question's: only the answer is added."""
    fmt = get_format(name)
    item = item_for(fmt, "q", ["one", "two", "three"], 1)
    joints = Joints(fmt.target_delimiter, fmt.fewshot_delimiter)
    assert fmt.shot_turn(item).user == fmt.question_turn(item).user
    assert joints.shot_text(fmt.shot_turn(item)).endswith(
        fmt.target_text(item) + fmt.fewshot_delimiter
    )
