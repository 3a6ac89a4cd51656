"""Tokens held to a grammar, with a vocabulary of single bytes: nothing passes that is not allowed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from lm_eval.errors import ModelError
from lm_eval.formats.grammar import NUMBER, Grammar, Hole
from lm_eval.models.local.enforcer import Enforcer, Pieces

END = 256
PIECES = [bytes([byte]) for byte in range(END)] + [b"", b""]
LETTERS = Grammar((Hole(choices=("New", "New York", "Paris")),))


@pytest.fixture(scope="module")
def enforcer() -> Enforcer:
    return Enforcer(Pieces(PIECES, [END], None, lambda text: list(text.encode())), [END])


def wanting(text: str) -> Callable[[int], np.ndarray]:
    """The logits of a model that wants to write a text; behind it, what comes first in the alphabet."""

    def logits(place: int) -> np.ndarray:
        values = -np.arange(len(PIECES), dtype=float)
        if place < len(text):
            values[ord(text[place])] = 1.0
        return values

    return logits


def reply(
    enforcer: Enforcer,
    grammar: Grammar,
    logits: Callable[[int], np.ndarray],
    sample: Callable[[np.ndarray], int] | None = None,
) -> str:
    constraint, text = enforcer.constraint(grammar), b""
    while not constraint.is_complete and len(text) < 50:
        values = logits(len(text))
        token = constraint.choose(lambda: int(values.argmax()), lambda: values, sample)  # noqa: B023
        if token is None or token == END:
            break
        text += PIECES[token]
    return text.decode()


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("Paris is", "Paris"),
        ("Rome", " New"),  # the first letter that is allowed, of those the likeliest
        ("New York!", "New York"),
        ("New.", "New"),  # whole, and the model goes on with something else
        (" Paris", " Paris"),
    ],
)
def test_the_likeliest_allowed_token_is_taken(enforcer: Enforcer, wanted: str, said: str) -> None:
    assert reply(enforcer, LETTERS, wanting(wanted)) == said


@pytest.mark.parametrize(("wanted", "said"), [("12 apples", "12"), ("-3.50", "-3.50"), ("7", "7")])
def test_a_number_ends_where_the_model_ends_it(enforcer: Enforcer, wanted: str, said: str) -> None:
    assert reply(enforcer, Grammar((NUMBER,)), wanting(wanted)) == said


def test_a_sampled_token_is_drawn_among_the_allowed_ones(enforcer: Enforcer) -> None:
    stream = np.random.default_rng(1)

    def sample(logits: np.ndarray) -> int:
        return int(stream.integers(len(logits)))

    replies = {reply(enforcer, LETTERS, wanting("x"), sample) for _ in range(60)}
    assert {text.strip() for text in replies} <= {"New", "New York", "Paris"}
    assert len(replies) > 2


def test_a_grammar_that_the_engine_cannot_read_is_told_before(enforcer: Enforcer) -> None:
    why = enforcer.why_not_enforceable(Grammar((Hole(pattern="(?=a)b"),)))
    assert why is not None
    assert "look-around" in why
    assert "\n" not in why


def test_a_grammar_with_a_lone_surrogate_is_told_before(enforcer: Enforcer) -> None:
    assert "lone surrogate" in (
        enforcer.why_not_enforceable(Grammar((Hole(pattern="a\ud800"),))) or ""
    )


def test_a_grammar_that_grows_too_large_is_an_error_and_not_a_free_reply(
    enforcer: Enforcer,
) -> None:
    grammar = Grammar((Hole(pattern="(?:a?){3000}a{3000}"),))
    with pytest.raises(
        ModelError, match=r"too many expressions constructed\. No reply was written"
    ):
        reply(enforcer, grammar, wanting("a" * 50))


def test_a_tokenizer_that_is_not_one_is_told() -> None:
    with pytest.raises(
        ModelError, match="cannot be enforced: llguidance does not know its tokenizer"
    ):
        Enforcer("{}", [0])
