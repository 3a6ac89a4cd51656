"""Tokens of the ``hf`` backend: borders, BOS, chats; a tokenizer but no weights."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

from lm_eval.errors import ModelError
from lm_eval.models.hf.tokens import Tokens
from tests.support import tiny_models

TOKENIZER = tiny_models.make_tokenizer(chat_template=tiny_models.CHAT_TEMPLATE)
WITH_BOS = tiny_models.make_tokenizer(adds_bos=True)


def make_tokens(tokenizer: Any = TOKENIZER, **options: Any) -> Tokens:
    return Tokens(tokenizer, model_name="tiny", known=len(tokenizer), **options)


def encode(text: str) -> list[int]:
    return make_tokens().tokenize([text])[0]


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
