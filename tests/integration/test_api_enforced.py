"""Enforced formats over HTTP: what a server holds is found out, and every reply is checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import MissingExtraError
from lm_eval.formats.assemble import Chat, Context, Message, Prompt
from lm_eval.formats.grammar import NUMBER, Grammar, Hole
from lm_eval.models.gguf import GgufLM
from lm_eval.models.openai_completions import (
    LocalChatCompletion,
    LocalCompletionsAPI,
    OpenAIChatCompletion,
)
from lm_eval.requests import FailedRequest, GenerateRequest
from tests.support.command_line import Workplace
from tests.support.servers.faulty import FaultyServer
from tests.support.servers.held_server import HeldServer

LETTERS = Grammar((Hole(choices=("A", "B", "C", "D")),))
REASONED = Grammar((" ", Hole(choices=("A", "B"))), "The best answer is")
NUMBERED = Grammar((NUMBER,))
PLAIN = Prompt(("Question: Is snow white?\nA. yes\nB. no\nThe best answer is",))
CHAT = Chat((Message("user", "Is snow white?\nA. yes\nB. no"),))


@pytest.fixture(scope="module")
def lm() -> Iterator[GgufLM]:
    try:
        model = GgufLM(n_ctx=512, n_threads=1)
    except MissingExtraError as error:
        pytest.skip(f"needs cyllama and the default weights: {error.install}")
    yield model
    model.close()


def chats(url: str, **more: Any) -> LocalChatCompletion:
    return LocalChatCompletion(
        model="smollm2", base_url=f"{url}/v1/chat/completions", timeout=120, **more
    )


def completions(url: str, **more: Any) -> LocalCompletionsAPI:
    return LocalCompletionsAPI(
        model="smollm2", base_url=f"{url}/v1/completions", timeout=120,
        tokenizer_backend=None, **more,
    )  # fmt: skip


def asked(api: LocalCompletionsAPI, context: Context, grammar: Grammar) -> Any:
    assert api.why_not_enforceable(grammar) is None
    request = GenerateRequest("t", 0, 0, context, {"max_gen_toks": 16}, grammar=grammar)
    ((_, reply),) = api.stream([request])
    return reply


@pytest.mark.parametrize("knows", ["structured_outputs", "response_format"])
@pytest.mark.parametrize("refuses", [False, True], ids=["ignores", "refuses"])
def test_the_name_that_a_server_holds_is_found(lm: GgufLM, knows: str, refuses: bool) -> None:
    held = HeldServer(lm, [knows], refuses=refuses)
    with FaultyServer(held) as server:
        api = chats(server.url, max_retries=0)
        assert asked(api, CHAT, LETTERS) in list("ABCD")
        assert api.describe()["enforced_by"] == [knows]
        assert knows in held.bodies[-1]
        number = asked(api, CHAT, NUMBERED)
        assert NUMBERED.allows(number)
        api.close()


def test_a_server_that_ignores_every_name_cannot_hold(lm: GgufLM) -> None:
    with FaultyServer(HeldServer(lm, [])) as server:
        api = chats(server.url, max_retries=0)
        why = str(api.why_not_enforceable(LETTERS))
        api.close()
    assert "ignored or refused every request to enforce a reply" in why
    assert "structured_outputs, grammar, response_format" in why


def test_two_phases_over_completions_continue_the_text(lm: GgufLM) -> None:
    held = HeldServer(lm, ["structured_outputs"])
    with FaultyServer(held) as server:
        api = completions(server.url)
        reply = asked(api, PLAIN, REASONED)
        api.close()
    assert REASONED.answers(reply) is not None
    first, second = held.bodies[-2:]
    assert "The best answer is" in first["stop"]
    assert "structured_outputs" not in first
    assert second["prompt"].startswith(first["prompt"])
    assert second["prompt"].endswith("The best answer is")
    assert second["structured_outputs"] == {"choice": [" A", " B"]}


def test_two_phases_of_a_chat_are_two_turns(lm: GgufLM) -> None:
    held = HeldServer(lm, ["response_format"])
    with FaultyServer(held) as server:
        api = chats(server.url)
        reply = asked(api, CHAT, REASONED)
        api.close()
    assert REASONED.answers(reply) is not None
    roles = [message["role"] for message in held.bodies[-1]["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert held.bodies[-1]["messages"][-1]["content"] == "The best answer is"


def test_completions_may_begin_with_a_blank(lm: GgufLM) -> None:
    held = HeldServer(lm, ["structured_outputs"])
    with FaultyServer(held) as server:
        api = completions(server.url)
        reply = asked(api, PLAIN, LETTERS)
        api.close()
    assert reply.strip() in list("ABCD")
    assert held.bodies[-1]["structured_outputs"]["choice"][:5] == [" A", " B", " C", " D", "A"]
    assert "stop" not in held.bodies[-1]


def test_a_server_that_lets_go_is_an_error_and_not_an_answer(lm: GgufLM) -> None:
    with FaultyServer(HeldServer(lm, ["structured_outputs"], lets_go_after=1)) as server:
        api = chats(server.url, max_retries=1)
        reply = asked(api, CHAT, LETTERS)
        api.close()
    assert isinstance(reply, FailedRequest)
    assert "did not hold its reply (structured_outputs)" in str(reply.error)


def test_openai_is_asked_for_a_schema_alone(lm: GgufLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    held = HeldServer(lm, ["response_format"], refuses=True)
    with FaultyServer(held) as server:
        api = OpenAIChatCompletion(model="gpt-5", base_url=f"{server.url}/v1/chat/completions")
        assert asked(api, CHAT, LETTERS) in list("ABCD")
        api.close()
    assert all("response_format" in body for body in held.bodies)
    schema = held.bodies[-1]["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["properties"]["answer"]["enum"] == ["A", "B", "C", "D"]


def test_a_missing_key_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    Workplace(tmp_path).cli(
        *("run", "--model", "openai-chat-completions", "--model_args", "model=gpt-5"),
        *("--tasks", "demo_mcq@generate+enforced"),
    ).refused("OPENAI_API_KEY is not set")


def test_a_run_over_a_server_that_cannot_hold_is_one_message(lm: GgufLM, tmp_path: Path) -> None:
    with FaultyServer(HeldServer(lm, [])) as server:
        where = f"model=m,base_url={server.url}/v1/chat/completions,max_retries=0"
        Workplace(tmp_path).cli(
            *("run", "--model", "local-chat-completions", "--model_args", where),
            *("--tasks", "demo_mcq@generate+enforced", "--limit", "2"),
        ).refused(
            "ignored or refused every request", "Ask it as demo_mcq@generate, without +enforced."
        )


def test_llama_cpps_server_holds_replies_by_its_grammar(llama_server: str) -> None:
    api = chats(llama_server)
    assert asked(api, CHAT, LETTERS).strip() in list("ABCD")
    assert api.describe()["enforced_by"] == ["grammar"]
    assert NUMBERED.allows(asked(api, CHAT, NUMBERED))
    assert REASONED.answers(asked(api, CHAT, REASONED)) is not None
    awkward = Grammar((Hole(choices=('a "quoted" one', "été\\n", "x|y)")),))
    assert awkward.allows(asked(api, CHAT, awkward))
    assert "cannot express a regular expression" in str(
        api.why_not_enforceable(Grammar((Hole(pattern="[xy]+"),)))
    )
    api.close()
    plain = completions(llama_server)
    assert asked(plain, PLAIN, LETTERS).strip() in list("ABCD")
    plain.close()
