"""Readers: golden tables of odd replies, properties that hold for any reply, and bad specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import lm_eval
from lm_eval.errors import ConfigError, UnknownNameError
from lm_eval.formats.compile import get_format
from lm_eval.formats.items import build_item
from lm_eval.formats.readers import (
    NO_ANSWER,
    BoundReader,
    Reading,
    as_choice,
    bind_reader,
    mask_thinking,
    read,
    register_reader,
)
from lm_eval.formats.readers.text import fold, words
from lm_eval.registry import READERS

GOLDEN = Path(lm_eval.__file__).parent / "formats/readers/odd_answers"
TABLES = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in GOLDEN.glob("*.yaml")}
BUILT_IN = [name for name in READERS if READERS.place(name).startswith("lm_eval.")]
SPECS: dict[str, Any] = {name: TABLES[name]["reader"] for name in BUILT_IN}
CHOICE = bind_reader({"reader": "choice", "phrase": "The best answer is"})
LABEL_STYLES = {
    "letters": list("ABCDEFGHIJ"),
    "lower": list("abcdefghij"),
    "numbers": [str(i) for i in range(1, 13)],
    "roman": ["I", "II", "III", "IV", "V", "VI"],
    "brackets": ["(a)", "(b)", "(c)", "(d)"],
    "dots": ["A.", "B.", "C."],
    "long": ["A", "B", "Z", "AA", "AB"],
    "full-width": ["Ａ", "Ｂ", "Ｃ"],
    "words": ["yes", "no", "maybe"],
    "two words": ["Option 1", "Option 2", "Option 10"],
    "signs": ["-1", "0", "1"],
}


def golden_rows() -> list[Any]:
    return [
        pytest.param({**table, **row}, id=f"{name}-{i}-{row['text'][:40]!r}")
        for name, table in sorted(TABLES.items())
        for i, row in enumerate(table["rows"])
    ]


def read_row(row: dict[str, Any], text: str) -> Reading:
    return read(
        text,
        [bind_reader(row["reader"])],
        labels=row.get("labels", ()),
        choices=row.get("choices", ()),
        prefix=row.get("prefix"),
        finish=row.get("finish"),
    )


# --------------------------------------------------------------------------------- golden tables


@pytest.mark.parametrize("row", golden_rows())
def test_golden(row: dict[str, Any]) -> None:
    reading = read_row(row, row["text"])
    assert (reading.value, reading.reason) == (row.get("value"), row.get("reason"))
    if "rule" in row:
        assert reading.rule == row["rule"]


@pytest.mark.parametrize("row", [param for param in golden_rows() if "value" in param.values[0]])
def test_span_lies_in_reply(row: dict[str, Any]) -> None:
    reading = read_row(row, row["text"])
    assert reading.rule is not None
    assert reading.span is not None
    start, end = reading.span
    assert 0 <= start < end <= len(row["text"])


@pytest.mark.parametrize("row", golden_rows())
def test_space_around_changes_nothing(row: dict[str, Any]) -> None:
    if "completion" in row["reader"].values() if isinstance(row["reader"], dict) else False:
        return  # where indentation counts
    plain, padded = read_row(row, row["text"]), read_row(row, f"\n  {row['text']} \n")
    assert (padded.value, padded.reason) == (plain.value, plain.reason)


def test_every_reader_has_a_table() -> None:
    assert set(BUILT_IN) <= set(TABLES)
    assert sum(len(table["rows"]) for table in TABLES.values()) >= 120


def test_every_row_says_what_is_expected() -> None:
    for table in TABLES.values():
        for row in table["rows"]:
            assert ("value" in row) != ("reason" in row), row


# --------------------------------------------------------------------------------- properties

ANY_TEXT = st.text(st.characters(), max_size=200)  # lone surrogates and NUL included
PIECES = st.lists(
    st.sampled_from(
        (
            *'AB*{}", \n1./-$[²１Ｃ\x00\ud800\u202e',
            "'",
            "(C)",
            "**",
            "\\boxed{",
            *("The best answer is", "not", "or", "wait", "Paris", "answer:", "<think>", "</think>"),
        )
    ),
    max_size=30,
).map("".join)
FORMS = """{0}
 {0}
{0}.
({0})
**{0}**
{0}. {1}
{0}) {1}
\\boxed{{{0}}}
{1}
Answer: {0}
The best answer is {0}
The best answer is: **{0}**.
The best answer is {1}.
Let us see. Final answer: {0}
<think>{2}</think>{0}""".splitlines()
REPLIES = ANY_TEXT | PIECES


@pytest.mark.parametrize("name", sorted(SPECS))
@settings(max_examples=150, deadline=None)
@given(text=REPLIES, prefix=st.none() | PIECES)
def test_any_reply_is_read_or_says_why(name: str, text: str, prefix: str | None) -> None:
    labels, choices = ["A", "B", "C"], ["London", "Berlin", "Paris"]
    reading = read(text, [bind_reader(SPECS[name])], labels=labels, choices=choices, prefix=prefix)
    assert (reading.value is None) == (reading.reason is not None)
    if reading.is_answer:
        assert reading.span is not None
        assert 0 <= reading.span[0] < reading.span[1] <= len(text)


@pytest.mark.parametrize("style", sorted(LABEL_STYLES))
@settings(max_examples=60, deadline=None)
@given(data=st.data(), words=st.lists(st.text("pqrstuvw", min_size=5), min_size=12, unique=True))
def test_plain_target_is_read_back(style: str, data: st.DataObject, words: list[str]) -> None:
    labels = LABEL_STYLES[style]
    choices = words[: len(labels)]
    place = data.draw(st.integers(0, len(labels) - 1))
    form = data.draw(st.sampled_from(FORMS))
    reply = form.format(labels[place], choices[place], labels[0])
    assert read(reply, [CHOICE], labels=labels, choices=choices).value == place


@pytest.mark.parametrize("style", sorted(LABEL_STYLES))
def test_continued_prefix_is_read_back(style: str) -> None:
    labels = LABEL_STYLES[style]
    choices = [f"text{i}x" for i in range(len(labels))]
    for place, label in enumerate(labels):
        for reply in (label, f" {label}", f" {label}.", f" {label}. {choices[place]}"):
            reading = read(
                reply, [CHOICE], labels=labels, choices=choices, prefix="The best answer is"
            )
            assert reading.value == place, reply


@settings(max_examples=100, deadline=None)
@given(st.integers(-(10**12), 10**12))
def test_numbers_are_read_back(value: int) -> None:
    reader = [bind_reader("number")]
    for reply in (f"{value}", f"{value:,}", f"It is {value:,}.", f"**{value}.00**", f"${value}$"):
        assert read(reply, reader).value == str(value)


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(5)), st.sampled_from([" > ", ", ", " ", "\n", '", "']))
def test_orders_are_read_back(order: list[int], joint: str) -> None:
    labels = list("ABCDE")
    reply = joint.join(labels[i] for i in order)
    assert read(reply, [bind_reader("ranking")], labels=labels).value == order


@given(st.text(" \t\r\n\u3000\xa0\u200b", max_size=20))
def test_white_space_is_empty(text: str) -> None:
    assert read(text, [CHOICE], labels=["A"], choices=["x"]).reason == "empty"


@given(REPLIES)
def test_masking_and_folding_keep_length(text: str) -> None:
    assert len(mask_thinking(text).text) == len(text)
    assert len(fold(text)) == len(text)


@given(REPLIES)
def test_words_know_where_they_stand(text: str) -> None:
    found = words(text)
    for start, (low, high) in zip(found.starts, found.spans, strict=True):
        word = found.line[start : found.line.index(" ", start)]
        assert words(text[low:high]).key.endswith(word) or word in words(f"x {text[low:high]}").line


@given(REPLIES)
def test_span_slice_holds_the_evidence(text: str) -> None:
    choices = ["London", "Berlin", "Paris"]
    reading = read(text, [CHOICE], labels=["A", "B", "C"], choices=choices)
    if reading.is_answer and reading.span is not None:
        evidence = fold(text[slice(*reading.span)]).casefold()
        assert "abc"[reading.value] in evidence or choices[reading.value].casefold() in evidence


# --------------------------------------------------------------------------------- size

MEGABYTE = 1_000_000
LONG = {
    "brackets": ("[", None),
    "braces": ("{", None),
    "json": ('{"a":', None),
    "closed braces": ("{}", None),
    "phrase": ("The best answer is ", None),
    "echo": ('"The best answer is [answer]" where ', None),
    "quoted phrase": ('"The best answer is ', None),
    "placeholder": ("The best answer is [the answer letter", None),
    "think": ("<think>", "truncated"),
    "closing think": ("</think>", None),
    "mixed tags": ("<think></reasoning>", "truncated"),
    "boxed": ("\\boxed{", None),
    "boxed a": ("\\boxed{a", None),
    "bold": ("**a", None),
    "stars": ("*", None),
    "spaces": (" ", "empty"),
    "digits": ("7", None),
    "commas": ("1,", None),
    "thousands": ("1 000 ", None),
    "slashes": ("1/", None),
    "labels": ("A, ", None),
    "texts": ("not Paris ", None),
    "quotes": ("'answer': '", None),
    "cues": ("answer is not ", None),
    "verdict": ("C is the ", None),
    "newlines": ("\nA.", None),
    "sentences": ("aa. A", None),
    "dollars": ("$x", None),
    "surrogates": ("\ud800", None),
    "right to left": ("\u202eא", None),
    "NUL": ("\x00", None),
    "blank lines": ("\n", "empty"),
    "articles": ("a A ", None),
    "denials": ("not A but ", None),
    "conditions": ("the answer would be A if ", None),
    "second thoughts": ("wait, it is A ", None),
    "verdicts": ("A is correct. ", None),
    "fields": ('"answer": "', None),
    "turns": ("\nUser: x", None),
    "entities": ("&lt;", None),
    "chinese": ("答案是", None),
    "hindi": ("उत्तर ", None),
    "emoji": ("✅", None),
}


def long_text(name: str) -> str:
    """A megabyte of what is named in the documentation, less of the rest: the suite stays quick."""
    size = MEGABYTE if name in ("brackets", "phrase", "think", "boxed") else MEGABYTE // 20
    piece = LONG[name][0]
    return piece * (size // len(piece))


@pytest.mark.parametrize("name", sorted(LONG))
def test_a_long_reply_is_read_in_linear_time(name: str) -> None:
    text, reason = long_text(name), LONG[name][1]
    for spec in SPECS.values():
        reading = read(
            text, [bind_reader(spec)], labels=list("ABCD"), choices=["London", "Paris", "x", "a a"]
        )
        assert reading.is_answer == (reading.value is not None)
        if reason is not None:
            assert reading.reason == reason


@pytest.mark.parametrize("name", sorted(set(LONG) - {"think", "mixed tags", "turns"}))
def test_an_answer_behind_a_long_text_is_found(name: str) -> None:
    text = f"{long_text(name)}\n\nThe best answer is C."
    assert (
        read(text, [CHOICE], labels=list("ABCD"), choices=["London", "Berlin", "Paris"]).value == 2
    )


@pytest.mark.parametrize("size", [1_000, MEGABYTE])
@pytest.mark.parametrize(
    "reply", ["The best answer is A{}x", "A{}C", "The best answer is{}", "{}A"]
)
def test_white_space_costs_nothing(reply: str, size: int) -> None:
    """A masked thought is white space: a rule that began anew at each blank would not return."""
    for blank in (" ", "\n", " \n\t"):
        text = reply.format(blank * (size // len(blank)))
        reading = read(text, [CHOICE], labels=list("ABCD"), choices=["London", "Berlin", "Paris"])
        if reading.span is not None:
            assert text[slice(*reading.span)] in ("A", "C")


@pytest.mark.parametrize("digits", ["1," * 500_000 + "1", "1" * MEGABYTE + ",1", "1 " * 500_000])
def test_digits_are_read_in_linear_time(digits: str) -> None:
    assert read(digits, [bind_reader("number")]).reason == "ambiguous" or digits.endswith(" ")


def test_a_thousand_choices_are_read_in_time() -> None:
    labels = [str(i) for i in range(1, 1001)]
    choices = [f"choice number {i} of many" for i in range(1, 1001)]
    prose = "Each choice has a number, and many of these are alike. " * 2_000
    for reply, value in ((prose, None), (f"{prose}The best answer is 77.", 76), (choices[5], 5)):
        assert read(reply, [CHOICE], labels=labels, choices=choices).value == value
    classes = bind_reader("label_text")
    assert read(f"{prose}Label: {choices[5]}", [classes], labels=choices).value == 5


def test_choices_of_100_000_characters_are_read_in_time() -> None:
    choices = ["be " * 33_000 + end for end in "wxyz"]
    for reply, value in (
        ("be " * 60_000, None),
        ("The best answer is C.", 2),
        (choices[1], 1),
        (f"The best answer is {choices[1]}", 1),
    ):
        assert read(reply, [CHOICE], labels=list("ABCD"), choices=choices).value == value


# --------------------------------------------------------------------------------- specs


@pytest.mark.parametrize(
    "spec",
    [
        "choice",
        {"reader": "after_last", "phrase": "So"},
        ["first_label", {"reader": "number"}],
        {"reader": "regex", "pattern": "(a)|(b)", "group": 2, "which": "first"},
    ],
)
def test_spec_comes_back(spec: Any) -> None:
    bound = bind_reader(spec)
    assert bind_reader(bound.as_spec()) == bound
    assert hash(bound) == hash(bind_reader(yaml.safe_load(yaml.safe_dump(bound.as_spec()))))


def test_spec_is_plain_data() -> None:
    spec = [{"reader": "after_last", "phrase": "So"}, "number"]
    assert bind_reader(spec).as_spec() == spec
    assert bind_reader({"reader": "number"}).as_spec() == "number"


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ({"reader": "after_last", "phrse": "x"}, ["'phrse'", "Did you mean 'phrase'"]),
        ({"reader": "after_last"}, ["Reader 'after_last'", "needs `phrase`"]),
        ({"reader": "number", "which": "lst"}, ["'lst'", "Did you mean 'last'", "first"]),
        ({"reader": "after_last", "phrase": 3}, ["phrase must be a text, not 3"]),
        ({"reader": "after_last", "phrase": " "}, ["phrase must be a text, not ' '"]),
        ({"reader": "choice", "labels": ["A"]}, ["unknown key 'labels'", "phrase"]),
        ({"reader": "regex", "pattern": "(a"}, ["'(a'", "position 0"]),
        ({"reader": "regex", "pattern": "a", "group": 1}, ["no group 1", "0 to 0"]),
        ({"reader": "regex", "pattern": "(?P<x>a)", "group": "y"}, ["no group 'y'", "x"]),
        ({"reader": "regex", "pattern": "a{99999999999}"}, ["a{99999999999}"]),
        ({"phrase": "x"}, ["does not say which reader", "after_last"]),
        ([], ["[]", "a list of these"]),
        (None, ["None", "after_last"]),
        (3, ["3"]),
    ],
)
def test_bad_spec_says_what_is_valid(spec: Any, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        bind_reader(spec)
    for part in parts:
        assert part in str(caught.value)


def test_unknown_reader_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'after_last'") as caught:
        bind_reader("afer_last")
    assert caught.value.nearest == "after_last"


def test_a_stranger_enters_by_the_same_door(monkeypatch: pytest.MonkeyPatch) -> None:
    # Gone after the test: the docs list every reader there is.
    monkeypatch.setattr(READERS, "_entries", dict(READERS._entries))

    @register_reader("test_shout")
    def shout(text: str, *, mark: str = "!") -> Reading:
        """Read what stands before the mark."""
        end = text.find(mark)
        return Reading(text[:end], "test_shout", (0, end)) if end > 0 else NO_ANSWER

    assert read("hey! you", [bind_reader("test_shout")], labels=["A"]).value == "hey"
    bound = bind_reader({"reader": "test_shout", "mark": "?"})
    assert bound == BoundReader("test_shout", (("mark", "?"),))
    assert read("hey! you", [bound]).reason == "unreadable"


def test_text_becomes_a_choice() -> None:
    reading = Reading("(c)", "after_last", (3, 6))
    assert as_choice(reading, ["A", "B", "C"], []) == Reading(2, "after_last", (3, 6))
    assert as_choice(Reading("z", "regex", (0, 1)), ["A"], ["x"]).reason == "unreadable"
    assert as_choice(NO_ANSWER, ["A"], ["x"]) is NO_ANSWER


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("B. That is right.", 1),
        ("The answer is B. That is right, it is the second one.", 1),
        ("B. It's correct.", 1),
        ("The answer is B. That isn't right. The answer is C.", 2),
        ("The answer is B. That isn't right.", None),
        ("The answer is B. That is wrong.", None),
    ],
)
def test_a_confirmed_answer_stays_and_a_withdrawn_one_goes(reply: str, value: int | None) -> None:
    item = build_item({}, "Q?", ["w", "x", "y", "z"], 0, answers="choice")
    assert get_format("generate").read(reply, item, is_prefilled=False).value == value
