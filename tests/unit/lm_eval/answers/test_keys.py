"""A key changes with everything that decides an answer, and with nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lm_eval.answers import keys
from lm_eval.answers.keys import RequestKeys
from lm_eval.formats.assemble import Chat, Message, Prompt
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, RollingRequest

IDENTITY = {"model": "m", "seed": 1}
GENERATE = GenerateRequest("t", 3, 0, Prompt(("a", "b")), {"until": ["\n"], "top_p": 0.5})
SCORE = LoglikelihoodRequest("t", 3, 0, Prompt(("a", "b")), " c")
CHAT = Chat((Message("user", "ab"),))


def key(request: Any, *, by_place: bool = False, **identity: Any) -> bytes | None:
    return RequestKeys({**IDENTITY, **identity}, by_place=by_place).of(request)


@pytest.mark.parametrize(
    "other",
    [
        replace(GENERATE, context=Prompt(("abc",))),
        replace(GENERATE, context=CHAT),
        replace(GENERATE, context=Chat((*CHAT.messages, Message("assistant", "")))),
        replace(GENERATE, context=Chat((Message("system", "ab"),))),
        replace(GENERATE, gen_kwargs={"until": ["\n"], "top_p": 0.6}),
        replace(GENERATE, gen_kwargs={"until": ["\n"], "top_p": 0.5, "seed": 1}),
        replace(GENERATE, index=1, repeats=2),
        replace(GENERATE, media={"visual": ["a.png"]}),
        SCORE,
        replace(SCORE, continuation=" d"),
        replace(SCORE, context=Prompt(("ab ",)), continuation="c"),
        RollingRequest("t", 3, 0, "ab"),
    ],
)
def test_what_decides_an_answer_decides_the_key(other: Any) -> None:
    assert key(GENERATE) != key(other)
    assert key(other) == key(replace(other))
    assert key(SCORE, seed=2) != key(SCORE) == key(SCORE, seed=1)


@pytest.mark.parametrize(
    "other",
    [
        replace(GENERATE, context=Prompt(("ab",))),
        replace(GENERATE, gen_kwargs={"top_p": 0.5, "until": ["\n"]}),
        replace(GENERATE, task="other"),
        replace(GENERATE, doc_id=4),
        replace(GENERATE, index=1),
        replace(GENERATE, index=2, repeats=2),
    ],
)
def test_who_asks_decides_it_only_where_answers_are_not_shared(other: Any) -> None:
    assert key(GENERATE) == key(other)
    is_same = other.task == "t" and (other.doc_id, other.index) == (3, 0)
    assert (key(GENERATE, by_place=True) == key(other, by_place=True)) is is_same


def test_one_maker_gives_the_same_keys_in_any_order() -> None:
    requests = [SCORE, GENERATE, replace(SCORE, continuation="x"), replace(GENERATE, context=CHAT)]
    keys = RequestKeys(IDENTITY, by_place=True)
    forwards = [keys.of(request) for request in requests]
    assert forwards == [keys.of(request) for request in reversed(requests)][::-1]
    assert forwards == [key(request, by_place=True) for request in requests]


def test_media_without_a_stable_form_are_not_kept() -> None:
    class Picture:
        def tobytes(self) -> bytes:
            return b"pixels"

    assert key(replace(GENERATE, media={"visual": [Picture()]})) == key(
        replace(GENERATE, media={"visual": [Picture()]})
    )
    assert key(replace(GENERATE, media={"visual": [object()]})) is None


@pytest.mark.parametrize(
    "texts",
    [(), ("a",), ("Grüße\n", 'say "no"', "\u2028 \ud800 \U0001f600\x00"), ("", "\\", "</s>")],
)
def test_a_chat_is_hashed_as_its_canonical_json(texts: tuple[str, ...]) -> None:
    roles: Any = ("system", "user", "assistant")
    chat = Chat(tuple(Message(roles[n % 3], text) for n, text in enumerate(texts)))
    assert keys._chat_bytes(chat) == keys.canonical(chat.as_dicts()).encode()
