"""Tokens of the ``hf`` backend: pairs, BOS, chats; a tokenizer but no weights."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

from lm_eval.errors import ModelError
from lm_eval.models.hf.tokens import HFTokens
from tests.support import tiny_models

TOKENIZER = tiny_models.make_tokenizer(chat_template=tiny_models.CHAT_TEMPLATE)
WITH_BOS = tiny_models.make_tokenizer(adds_bos=True)


def make_tokens(tokenizer: Any = TOKENIZER, **options: Any) -> HFTokens:
    return HFTokens(tokenizer, model_name="tiny", known=len(tokenizer), **options)


def encode(text: str) -> list[int]:
    return make_tokens().tokenize([text])[0]


def test_blanks_belong_to_the_continuation() -> None:
    moved, written = make_tokens().encode_pairs([("Answer: ", "Paris"), ("Answer:", " Paris")])
    assert moved == written == (encode("Answer:"), encode(" Paris"))


@pytest.mark.parametrize("context", ["", " \n"])
def test_an_empty_context_is_the_prefix_token(context: str) -> None:
    tokens = encode(context + "Paris")
    assert make_tokens().encode_pairs([(context, "Paris")]) == [([0], tokens)]
    assert make_tokens(prefix_token_id=9).encode_pairs([("", "Paris")]) == [([9], encode("Paris"))]
    # The prefix is there already.
    assert make_tokens().encode_pairs([("", "<s>Paris")]) == [([0], encode("Paris"))]


def test_bos_as_the_tokenizer_does_it_or_as_told_and_never_twice() -> None:
    plain = encode("Paris")
    assert make_tokens().encode(["Paris"]) == [plain]
    assert make_tokens(add_bos_token=True).encode(["Paris", "<s>Paris"]) == [[0, *plain]] * 2
    assert make_tokens(WITH_BOS).encode(["Paris", "<s>Paris"]) == [[0, *plain]] * 2
    assert make_tokens(WITH_BOS, add_bos_token=False).encode(["Paris"]) == [plain]
    assert make_tokens(WITH_BOS).adds_bos
    pairs = make_tokens(WITH_BOS).encode_pairs([("Answer:", " Paris")])
    assert pairs == [([0, *encode("Answer:")], encode(" Paris"))]


def test_half_a_surrogate_pair_is_a_replacement_character() -> None:
    assert encode("a\ud800b") == encode("a\ufffdb")


def test_a_token_the_model_does_not_know() -> None:
    tokens = HFTokens(TOKENIZER, model_name="tiny", known=100)
    with pytest.raises(ModelError, match=r"token \d+ .* knows only 100 tokens"):
        tokens.tokenize(["Which animal"])


def test_chats_with_and_without_an_open_answer() -> None:
    tokens = make_tokens()
    user = {"role": "user", "content": "hi"}
    asked = tokens.render_chat([user], add_generation_prompt=True)
    assert asked == "<s><|user|>\nhi</s>\n<|assistant|>\n"
    no_thinking = make_tokens(chat_arguments={"enable_thinking": False})
    asked = no_thinking.render_chat([user], add_generation_prompt=True)
    assert asked.endswith("<|assistant|>\n<think></think>")
    started = {"role": "assistant", "content": "The best answer is"}
    text = tokens.render_chat([user, started], add_generation_prompt=False)
    assert text.endswith("</s>\n<|assistant|>\nThe best answer is")


def test_a_template_that_refuses() -> None:
    refusing = tiny_models.make_tokenizer(chat_template="{{ raise_exception('No system role!') }}")
    with pytest.raises(ModelError, match=r"roles: system, user\): No system role!"):
        make_tokens(refusing).render_chat(
            [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}],
            add_generation_prompt=True,
        )
