"""Where a text of the ``hf`` backend ends: stop strings, ending tokens, reasoning; no weights."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

from lm_eval.models.hf.endings import BatchJob, Endings, GrowingRow
from lm_eval.models.hf.tokens import HFTokens
from lm_eval.requests.options import cut_at_stop
from tests.support import tiny_models

TOKENIZER = tiny_models.make_tokenizer()
TOKENS = HFTokens(TOKENIZER, model_name="tiny", known=len(TOKENIZER))
PIECES = st.text("ab\n:é🦙 Q", max_size=12)


def grow(
    ids: list[int], *until: str, limit: int = 10**6, think_end: str | int | None = None
) -> GrowingRow:
    """A text that was given these tokens one by one, until it ended."""
    special = {text: TOKENIZER.convert_tokens_to_ids(text) for text in TOKENIZER.all_special_tokens}
    if isinstance(think_end, str):
        think_end = special.get(think_end, think_end)
    endings = Endings(frozenset({1}), special, "</s>", think_end)
    job = BatchJob(0, [5], endings.stops(until), limit, stop_tokens=endings.stop_tokens(until))
    row = GrowingRow(job, TOKENS, endings)
    for token in ids:
        if row.add(token):
            break
    return row


def encode(text: str) -> list[int]:
    return TOKENS.tokenize([text])[0]


@given(PIECES, st.text("ab\n:é🦙 Q", min_size=1, max_size=4), PIECES, st.data())
def test_stop_strings_are_found_wherever_tokens_begin(
    before: str, stop: str, after: str, data: st.DataObject
) -> None:
    """Tokens as the tokenizer makes them, or as bytes: the text always ends before the stop string."""
    text = before + stop + after
    if data.draw(st.booleans()):
        ids = encode(text)
    else:  # the longest way: every byte a token
        ids = [token for character in text for token in encode(character)]
    row = grow(ids, stop)
    assert row.finish == "stop"
    assert row.reply() == cut_at_stop(text, [stop])
    # It ends with the token that completes the stop string, not later.
    read = TOKENS.decode(row.ids[:-1])
    assert stop not in read


@given(PIECES)
def test_a_text_without_a_stop_string_runs_to_its_limit(text: str) -> None:
    ids = encode(text)
    row = grow(ids, "\u2603", limit=max(1, len(ids)))
    assert row.reply() == text
    assert row.finish == ("length" if ids else None)


def test_several_stop_strings_are_cut_in_turn() -> None:
    assert grow(encode("one\nQ: two"), "Q:", "\n").reply() == "one"


def test_tokens_that_end_a_text() -> None:
    row = grow([*encode("yes"), 1, *encode("no")], "\n")
    assert (row.reply(), row.finish) == ("yes", "stop")
    mark = TOKENIZER.convert_tokens_to_ids("<think_end>")
    row = grow([*encode("yes"), mark, *encode("no")], "<think_end>")  # special, so not in any text
    assert (row.reply(), row.finish) == ("yes", "stop")


@pytest.mark.parametrize("think_end", ["<think_end>", "</think>"])
def test_reasoning_is_kept_apart_and_no_stop_string_counts_in_it(think_end: str) -> None:
    row = grow(encode(f"Hm.\n\nSo B?{think_end}\nAnswer: A\n\nmore"), "\n\n", think_end=think_end)
    reply = row.reply()
    assert (reply, reply.reasoning, reply.finish) == ("Answer: A", "Hm.\n\nSo B?", "stop")


def test_reasoning_without_an_end_is_cut_like_any_text() -> None:
    row = grow(encode("Hm.\n\nSo B?"), "\n\n", think_end="</think>", limit=len(encode("Hm.\n\nSo")))
    assert (row.reply(), row.reply().reasoning, row.finish) == ("Hm.", None, "length")
