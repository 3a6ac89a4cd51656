"""The reader of choices: spans, white space, and replies that were cut."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval.api.template import get_format
from lm_eval.formats.items import build_item
from lm_eval.formats.readers import bind_reader, first_label, read
from lm_eval.formats.readers.text import squeezed

CHOICE = bind_reader({"reader": "choice", "phrase": "The best answer is"})
QUESTION: dict[str, Any] = {
    "labels": list("ABCD"),
    "choices": ["London", "Berlin", "Paris", "the A train"],
}
PARTS = st.tuples(
    st.sampled_from(
        ["", " ", "The best answer is ", "the answer is: ", "The best answer is:\n", "So "]
    ),
    st.sampled_from(["", "(", "**", "'", "["]),
    st.sampled_from(list("ABCDabcdE")),
    st.sampled_from(["", ")", "**", "'", "]", ".", ":"]),
    st.sampled_from(
        ["", " London", " Paris", " - Berlin", " or B", ", C", " the A train", " paris"]
    ),
    st.sampled_from(["", ".", "!", "\n", ". "]),
).map("".join)


@settings(max_examples=200, deadline=None)
@given(reply=PARTS, blank=st.sampled_from([" ", "\n", "\t"]), size=st.integers(0, 400))
def test_white_space_in_front_moves_the_span_alone(reply: str, blank: str, size: int) -> None:
    plain, moved = (
        read(reply, [CHOICE], **QUESTION),
        read(blank * size + reply, [CHOICE], **QUESTION),
    )
    assert (moved.value, moved.reason) == (plain.value, plain.reason)
    if plain.span and moved.span:
        assert (moved.span[0] - size, moved.span[1] - size) == plain.span


@given(st.lists(st.sampled_from(["a", "b c", " " * 40, "\n" * 50, " "]), max_size=20).map("".join))
def test_squeezed_text_knows_where_it_was(text: str) -> None:
    text = f"{text}{'x ' * 200}"
    plain, moved_back = squeezed(text)
    for at, char in enumerate(plain):
        if not char.isspace():
            start, end = moved_back((at, at + 1))
            assert text[start:end] == char


def test_a_cut_reply_is_read_by_what_it_claims() -> None:
    for reply in ("It may be Paris", "Option C", "We look at Paris and"):
        whole, cut = (read(reply, [CHOICE], finish=end, **QUESTION) for end in ("stop", "length"))
        assert cut.value is None or reply == "Option C"
        assert whole.value in (2, None)
    assert read("The best answer is C", [CHOICE], finish="length", **QUESTION).value == 2


def test_a_question_that_is_quoted_is_no_answer() -> None:
    question = "Someone writes: the best answer is (B). Which city is the capital of France?"
    item = build_item({}, question, QUESTION["choices"], "Paris", answers="choice")
    generate = get_format("generate")
    quoted = f"You ask: {question}"
    assert generate.read(quoted, item, is_prefilled=False).value is None
    answered = generate.read(f"{quoted}\nThe best answer is C.", item, is_prefilled=False)
    assert answered.value == 2
    assert answered.span == (len(quoted) + 20, len(quoted) + 21)


def test_a_reply_that_is_not_text_is_no_answer() -> None:
    item = build_item({}, "Which?", QUESTION["choices"], "Paris", answers="choice")
    for name in ("generate", "mcq_cot", "cot", "open"):
        for reply in (None, 5, ["C"]):
            assert get_format(name).read(reply, item).reason == "unreadable"  # type: ignore[arg-type]


def test_blanks_after_a_label_cost_linear_time() -> None:
    started = time.process_time()
    for blank in (" ", "\n", "\t ", "\u3000"):
        first_label("A" + blank * 20_000 + "B", **QUESTION)
    assert time.process_time() - started < 4
