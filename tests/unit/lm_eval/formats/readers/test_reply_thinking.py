"""Thinking blocks: one rule for formats and for the judge, whatever the tags look like."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lm_eval.formats.readers import bind_reader, mask_thinking, read
from nugget_eval.common import parse_labels_multi_format, strip_thinking_reasoning_blocks

CHOICE = bind_reader({"reader": "choice", "phrase": "The best answer is"})
LABELS, CHOICES = list("ABCD"), ["London", "Berlin", "Paris", "Rome"]

# ``{draft}`` is in a thinking block or behind the end of the turn.
AROUND_AN_ANSWER = [
    "<scratchpad>{draft}</scratchpad>{answer}",
    "<analysis>{draft}</analysis>{answer}",
    "<Reflection>{draft}</REFLECTION>\n{answer}",
    "<chain_of_thought>{draft}</chain_of_thought>{answer}",
    "<cot>{draft}</cot>{answer}",
    "<inner_monologue>{draft}</inner_monologue>{answer}",
    "[analysis]{draft}[/analysis]{answer}",
    "[THINK]{draft}[/THINK]{answer}",
    "◁think▷{draft}◁/think▷{answer}",
    "＜think＞{draft}＜/think＞{answer}",
    "<thinking>{draft}</thinking>{answer}",
    "<reasoning lang='en'\n id=1>{draft}</reasoning>{answer}",
    "<|begin_of_thought|>{draft}<|end_of_thought|>{answer}",
    "<|channel|>analysis<|message|>{draft}<|end|><|channel|>final<|message|>{answer}<|return|>",
    "analysisMaybe {draft}.assistantfinal{answer}",
    "<scratchpad>{draft} <analysis>{draft}</scratchpad>{answer}",
    "{draft}</scratchpad>{answer}",
    "<think/>\n{answer}",
    '"<think>{draft}</think>{answer}"',
    "{answer}<|im_end|>\n<|im_start|>user\n{draft}",
    "{answer}</s>\n{draft}",
]


@pytest.mark.parametrize("reply", AROUND_AN_ANSWER)
def test_formats_and_the_judge_find_the_same_answer(reply: str) -> None:
    letters = reply.format(draft="The best answer is A", answer="C")
    assert read(letters, [CHOICE], labels=LABELS, choices=CHOICES).value == 2
    labels = reply.format(draft='["support"]', answer='["not_support"]')
    assert parse_labels_multi_format(labels, 1)[0] == ["not_support"]


@pytest.mark.parametrize(
    "reply",
    ["<scratchpad>It is C", "[analysis]It is C", "<think>It is C", "<cot>A</cot><analysis>It is C"],
)
def test_a_block_that_is_never_closed_is_a_reply_cut_off(reply: str) -> None:
    assert read(reply, [CHOICE], labels=LABELS, choices=CHOICES).reason == "truncated"


def test_a_channel_without_a_final_one_holds_no_answer() -> None:
    reply = "<|channel|>analysis<|message|>The best answer is C"
    assert read(reply, [CHOICE], labels=LABELS, choices=CHOICES).reason == "empty"


@pytest.mark.parametrize(
    "text",
    [
        "The `<think>` tag opens a thought, so the answer is C.",
        "See the [analysis](https://example.org) for why the answer is C.",
        "[analysis of bees] The answer is C.",
        "1 < cot(x) and x > 0, so the answer is C.",
        "-1 < cot x, and y > 3. The answer is C.",
        "The token `<|im_end|>` ends a turn. The answer is C.",
        "ChatML has no `<|channel|>` token. The answer is C.",
        "Not <s>London</s> but Paris: the answer is C.",
        "<thinker>a</thinker> The answer is C.",
    ],
)
def test_what_only_looks_like_a_tag_is_text(text: str) -> None:
    assert mask_thinking(text) == (text, False)
    assert strip_thinking_reasoning_blocks(text) == text
    assert read(text, [CHOICE], labels=LABELS, choices=CHOICES).value == 2


@pytest.mark.parametrize(
    ("prefix", "reply"),
    [
        ("<scratchpad>", "It is A.</scratchpad>C"),
        ("<|channel|>analysis<|message|>", "A?<|end|><|channel|>final<|message|>C<|return|>"),
    ],
)
def test_a_thought_that_the_prompt_opened_is_continued(prefix: str, reply: str) -> None:
    reading = read(reply, [CHOICE], labels=LABELS, choices=CHOICES, prefix=prefix)
    assert reading.value == 2
    assert reading.span is not None
    assert reply[slice(*reading.span)] == "C"


def test_what_follows_the_end_of_a_turn_belongs_to_no_free_answer() -> None:
    reader = bind_reader({"reader": "after_last", "phrase": "The final answer is"})
    reply = "The final answer is Paris<|im_end|>\n<|im_start|>user\nThe final answer is Rome"
    assert read(reply, [reader]).value == "Paris"


PIECES = (
    *("<scratchpad>", "</scratchpad>", "[analysis]", "[/analysis]", "<|channel|>", "<|message|>"),
    *("<|channel|>final<|message|>", "assistantfinal", "analysis ", "<|im_end|>", "</s>", "<s>"),
    *("\n[answer]", "A", " ", "\n", "`", '"', "[", "{", "＜think＞", "◁cot▷"),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_masking_blanks_characters_and_moves_none(text: str) -> None:
    masked = mask_thinking(text).text
    assert len(masked) == len(text)
    assert all(now in (was, " ") for was, now in zip(text, masked, strict=True))


@pytest.mark.parametrize("piece", PIECES)
def test_time_is_linear_in_the_length(piece: str) -> None:
    started = time.process_time()
    mask_thinking(piece * (400_000 // len(piece)))
    strip_thinking_reasoning_blocks("x " + piece * (400_000 // len(piece)))
    assert time.process_time() - started < 4
