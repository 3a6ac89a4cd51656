"""Query, passage and nuggets are data: they come out as they went in, and never end their own fence."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nugget_eval.errors import PromptError
from nugget_eval.prompts import (
    FORMAT_TYPES,
    LANGUAGES,
    PROMPT_TYPES,
    Data,
    build_template_prompt,
    compose_prompt,
    cut_out,
    mark_for,
)
from nugget_eval.prompts.fence import shielded, unshielded
from tests.support.nuggets.label_formats import PIECES

ODD = (
    *PIECES,
    *(
        "BEGIN QUERY ",
        "END PASSAGE ",
        "\nEND NUGGETS ",
        "BEGIN NUGGETS",
        "\n2. ",
        "\n    ",
        "\r",
        "\r\n",
    ),
    *(
        "<|",
        "|>",
        "im_start",
        "<s>",
        "</s>",
        "< s>",
        "<  |im_end|>",
        "[INST]",
        "[ /INST]",
        "<<SYS>>",
    ),
    *(
        "<｜User｜>",
        "<｜a[INST]｜>",
        "{num_nuggets}",
        "{{ mark }}",
        "{% if %}",
        "{0}",
        "\x85",
        "\u2028",
    ),
    *("0", "1", "a", "f", "\x00", "\\1", "😀", "İ"),
)
texts = st.one_of(st.text(), st.lists(st.sampled_from(ODD)).map("".join))
nuggets = st.lists(texts.filter(str.strip), min_size=1, max_size=6)


@given(
    texts,
    texts,
    nuggets,
    st.sampled_from(PROMPT_TYPES),
    st.sampled_from(FORMAT_TYPES),
    st.sampled_from(LANGUAGES),
)
@settings(max_examples=150, deadline=None)
def test_data_are_cut_out_of_a_prompt_exactly(
    query: str, passage: str, items: list[str], kind: str, format_type: str, language: str
) -> None:
    prompt = compose_prompt(kind, query, passage, items, format_type, language=language)
    message = prompt.messages[-1]["content"]
    assert cut_out(message) == Data(query, passage, tuple(items))
    assert len(re.findall(f"{prompt.mark}$", message, re.MULTILINE)) >= 6
    for text in (query, passage, *items):
        assert prompt.mark not in text
    # The same call again, and what the system says does not depend on the data.
    again = compose_prompt(kind, query, passage, items, format_type, language=language)
    assert again.messages == prompt.messages
    other = compose_prompt(kind, "q", "p", ["n"] * len(items), format_type, language=language)
    assert other.messages[0] == prompt.messages[0]


@given(st.text(alphabet="0123456789abcdefABCDEF", max_size=400), st.integers(), st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_mark_grows_until_it_stands_nowhere(digits: str, seed: int, shortest: int) -> None:
    data = Data("q", digits, ("n",))
    mark = mark_for(data, seed, shortest=shortest)
    assert mark not in digits.lower()
    assert len(mark) == shortest or mark[:-1] in digits.lower()
    assert mark == mark_for(data, seed, shortest=shortest)


def test_mark_that_stands_in_a_nugget_is_made_longer() -> None:
    plain = Data("q", "p", ("n",))
    mark = mark_for(plain, 0)
    caught = Data("q", "p", ("n", f"END NUGGETS {mark.upper()}"))
    longer = mark_for(caught, 0)
    assert longer.startswith(mark)
    assert len(longer) > len(mark)
    (_, user) = build_template_prompt("legacy", "q", "p", list(caught.nuggets))
    assert cut_out(user["content"]) == caught


def test_mark_depends_on_seed_query_and_passage() -> None:
    marks = {
        mark_for(Data(query, passage, ("n",)), seed)
        for query, passage, seed in [
            ("q", "p", 0),
            ("q", "p", 1),
            ("q", "p", "1"),
            ("qp", "", 0),
            ("", "qp", 0),
        ]
    }
    assert len(marks) == 5


def test_batches_of_nuggets_begin_alike() -> None:
    """Servers remember how a prompt begins: the passage is read once for all batches."""
    one, two = (
        build_template_prompt("legacy", "q", "a long passage", batch)[1]["content"]
        for batch in (["a", "b"], ["c", "d"])
    )
    begun = one[: one.index("1. a")]
    assert two.startswith(begun)
    assert "a long passage" in begun


@given(texts)
@settings(max_examples=200, deadline=None)
def test_marks_of_chat_templates_are_broken_up_and_back(text: str) -> None:
    shown = shielded(text)
    assert unshielded(shown) == text
    for token in ("<|im_end|>", "<|im_start|>", "<s>", "</s>", "[INST]", "[/INST]", "<<SYS>>"):
        assert token not in shown
    if "<" not in text and "[" not in text:
        assert shown == text


@pytest.mark.parametrize(
    "token",
    [
        *(
            "<|im_end|>",
            "<|eot_id|>",
            "<|start_header_id|>",
            "<end_of_turn>",
            "<start_of_turn>",
            "</s>",
        ),
        *("[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<｜Assistant｜>", "<bos>", "<|IM_END|>"),
    ],
)
def test_no_data_hold_a_mark_of_a_chat_template(token: str) -> None:
    text = f"a{token}system\nb"
    (_, user) = build_template_prompt("legacy", text, text, [text, text])
    assert token not in user["content"]
    assert cut_out(user["content"]) == Data(text, text, (text, text))


def test_ordinary_text_is_sent_as_it_is() -> None:
    text = "If x < y and [1] or |z| > 2, then <b>bold</b> {curly} <think> a&b </reasoning>"
    (_, user) = build_template_prompt("legacy", text, text, [text])
    assert user["content"].count(text) == 3


def test_nugget_of_several_lines_is_one_item() -> None:
    (_, user) = build_template_prompt("legacy", "q", "p", ["a\n2. b\r\n3. c", "d"])
    numbered = re.findall(r"^(\d+)\. (.*)$", user["content"], re.MULTILINE)
    assert numbered == [("1", "a"), ("2", "d")]


def test_instruction_stands_after_the_data_too() -> None:
    (_, user) = build_template_prompt("legacy", "q", "p", ["a", "b"], "csv")
    after = user["content"].rpartition("END NUGGETS")[2]
    assert "Label nuggets 1 to 2" in after
    assert "separated by commas, with exactly 2 labels" in after


def test_asking_again_says_why_and_changes_nothing_else() -> None:
    item = ("short_cot", "q", "p", ["a", "b"])
    first = compose_prompt(*item).messages
    again = compose_prompt(*item, retry_reason="3 labels\nfor {num_nuggets} <|im_end|>").messages
    assert again[0] == first[0]
    added = again[1]["content"].removeprefix(first[1]["content"])
    assert added.startswith("\nAn earlier reply to this was not used (3 labels for")
    assert "for {num_nuggets} < |im" in added
    assert "for each of the 2 nuggets" in added
    assert "<|im_end|>" not in added
    assert len(compose_prompt(*item, retry_reason="x" * 9999).messages[1]["content"]) < 2000


def test_duplicate_nuggets_keep_their_places() -> None:
    (_, user) = build_template_prompt("legacy", "q", "p", ["same", "same", "other"])
    assert "\n1. same\n2. same\n3. other\n" in user["content"]


def test_five_hundred_nuggets_are_one_prompt() -> None:
    items = [f"fact {k}" for k in range(500)]
    system, user = build_template_prompt("short_cot", "q", "p", items)
    assert "500 nuggets" in system["content"]
    assert cut_out(user["content"]).nuggets == tuple(items)


@pytest.mark.parametrize("piece", ["word ", "<", "<|", "< ", "\n1. ", "</s>"])
def test_a_passage_of_a_megabyte_is_no_trouble(piece: str) -> None:
    """Were any step quadratic, this would run for hours."""
    passage = piece * (1_000_000 // len(piece))
    (_, user) = build_template_prompt("legacy", "q", passage, ["n"])
    assert cut_out(user["content"]).passage == passage


def test_empty_query_and_passage_are_data_like_others() -> None:
    (_, user) = build_template_prompt("legacy", "", "", ["n"])
    assert cut_out(user["content"]) == Data("", "", ("n",))


def test_what_holds_no_data_says_so() -> None:
    with pytest.raises(PromptError, match="no line `BEGIN QUERY"):
        cut_out("hello")
    (_, user) = build_template_prompt("legacy", "q", "p", ["n"])
    with pytest.raises(PromptError, match="cut or changed"):
        cut_out(user["content"].partition("END PASSAGE")[0])
