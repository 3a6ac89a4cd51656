"""Parts of the ``hf`` backend that need a tokenizer but no weights."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

from lm_eval.errors import ModelError
from lm_eval.models.hf.generation import BatchJob, Endings, GrowingRow
from lm_eval.models.hf.tokens import Tokens
from lm_eval.models.sampling import cut_at_stop
from lm_eval.models.tree.spans import continuation_span, rolling_spans
from tests.support import tiny_models

TOKENIZER = tiny_models.make_tokenizer(chat_template=tiny_models.CHAT_TEMPLATE)
WITH_BOS = tiny_models.make_tokenizer(adds_bos=True)


def make_tokens(tokenizer: Any = TOKENIZER, **options: Any) -> Tokens:
    return Tokens(tokenizer, model_name="tiny", known=len(tokenizer), **options)


def grow(
    ids: list[int], *until: str, limit: int = 10**6, think_end: str | int | None = None
) -> GrowingRow:
    """A text that was given these tokens one by one, until it ended."""
    special = {text: TOKENIZER.convert_tokens_to_ids(text) for text in TOKENIZER.all_special_tokens}
    if isinstance(think_end, str):
        think_end = special.get(think_end, think_end)
    endings = Endings(frozenset({1}), special, "</s>", think_end)
    job = BatchJob(0, [5], endings.stops(until), limit, stop_tokens=endings.stop_tokens(until))
    row = GrowingRow(job, make_tokens(), endings)
    for token in ids:
        if row.add(token):
            break
    return row


def encode(text: str) -> list[int]:
    return make_tokens().tokenize([text])[0]


PIECES = st.text("ab\n:é🦙 Q", max_size=12)


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
    read = make_tokens().decode(row.ids[:-1])
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


def test_blanks_belong_to_the_continuation() -> None:
    one, other = make_tokens().borders([("Answer: ", "Paris"), ("Answer:", " Paris")])
    assert (one.context, one.scored) == (other.context, other.scored)
    assert one.is_own


@pytest.mark.parametrize("context", ["", " \n"])
def test_an_empty_context_is_the_prefix_token(context: str) -> None:
    (border,) = make_tokens().borders([(context, "Paris")])
    assert border.context == (0,)
    assert border.scored == tuple(encode(context + "Paris"))
    (border,) = make_tokens(prefix_token_id=9).borders([("", "Paris")])
    assert border.context == (9,)
    (border,) = make_tokens().borders([("", "<s>Paris")])  # it is there already
    assert (border.context, border.scored) == ((0,), tuple(encode("Paris")))


def test_bos_as_the_tokenizer_does_it_or_as_told_and_never_twice() -> None:
    plain = encode("Paris")
    assert make_tokens().encode(["Paris"]) == [plain]
    assert make_tokens(add_bos_token=True).encode(["Paris", "<s>Paris"]) == [[0, *plain]] * 2
    assert make_tokens(WITH_BOS).encode(["Paris", "<s>Paris"]) == [[0, *plain]] * 2
    assert make_tokens(WITH_BOS, add_bos_token=False).encode(["Paris"]) == [plain]
    assert make_tokens(WITH_BOS).adds_bos
    (border,) = make_tokens(WITH_BOS).borders([("Answer:", " Paris")])
    assert border.context[0] == 0
    assert border.is_own


def test_merged_tokens_are_seen() -> None:
    (border,) = make_tokens().borders([("Questio", "n: What is the capital")])
    assert border.kind == "merged"
    assert TOKENIZER.decode([border.seam[0]]) == "Question"


def test_half_a_surrogate_pair_is_a_replacement_character() -> None:
    assert encode("a\ud800b") == encode("a\ufffdb")


def test_a_token_the_model_does_not_know() -> None:
    tokens = Tokens(TOKENIZER, model_name="tiny", known=100)
    with pytest.raises(ModelError, match=r"token \d+ .* knows only 100 tokens"):
        tokens.tokenize(["Which animal"])


def test_chats_with_and_without_an_open_answer() -> None:
    tokens = make_tokens()
    user = {"role": "user", "content": "hi"}
    asked = tokens.render_chat([user], add_generation_prompt=True, arguments={})
    assert asked == "<s><|user|>\nhi</s>\n<|assistant|>\n"
    no_thinking = {"enable_thinking": False}
    asked = tokens.render_chat([user], add_generation_prompt=True, arguments=no_thinking)
    assert asked.endswith("<|assistant|>\n<think></think>")
    started = {"role": "assistant", "content": "The best answer is"}
    text = tokens.render_chat([user, started], add_generation_prompt=False, arguments={})
    assert text.endswith("</s>\n<|assistant|>\nThe best answer is")


def test_a_template_that_refuses() -> None:
    refusing = tiny_models.make_tokenizer(chat_template="{{ raise_exception('No system role!') }}")
    with pytest.raises(ModelError, match=r"roles: system, user\): No system role!"):
        make_tokens(refusing).render_chat(
            [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}],
            add_generation_prompt=True,
            arguments={},
        )


@given(st.integers(0, 60), st.integers(1, 20))
def test_rolling_spans_score_each_token_once_in_full_windows(length: int, window: int) -> None:
    text = list(range(100, 100 + length))
    spans = list(rolling_spans(3, 0, text, window=window))
    assert [token for span in spans for token in span.targets] == text
    for span in spans:
        assert span.place == 3
        assert len(span.inputs) <= window
        assert len(span.targets) <= len(span.inputs) or not text
    assert all(len(span.inputs) == window for span in spans[:-1])


def test_a_long_context_loses_its_beginning() -> None:
    span, is_cut = continuation_span(0, [1, 2, 3], [4, 5], window=4)
    assert (span.inputs, is_cut) == ([1, 2, 3, 4], False)
    span, is_cut = continuation_span(0, [1, 2, 3], [4, 5], window=3)
    assert (span.inputs, span.targets, is_cut) == ([2, 3, 4], [4, 5], True)
