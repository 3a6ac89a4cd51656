"""A real vLLM server over HTTP: letters, texts, replies, chats, enforced formats, Anthropic's messages.

Needs an environment of its own: ``make test-vllm``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("vllm") is None:
    pytest.skip("needs vLLM, in an environment of its own: make test-vllm", allow_module_level=True)

from lm_eval.cli import main
from lm_eval.formats.assemble import Chat, Message, Prompt
from lm_eval.models.gguf import default_weights
from lm_eval.models.huggingface import HFLM
from lm_eval.models.loading import load_model
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI
from lm_eval.models.providers.anthropic import AnthropicChat
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, Request, RollingRequest
from tests.support.command_line import Workplace
from tests.support.vllm_process import vllm_server

PER_TOKEN = 1e-3
CHOICES = {
    "What is the capital of France?": (" Paris", " a dog", " New York"),
    "Which animal barks?": (" a dog", " the old black cat", " Paris"),
}


@pytest.fixture(scope="module")
def hf() -> Iterator[HFLM]:
    model = load_model("hf", {"pretrained": str(default_weights()), "max_length": 2048})
    assert isinstance(model, HFLM)
    yield model
    model.close()


@pytest.fixture(scope="module")
def address(hf: HFLM) -> Iterator[str]:
    assert hf.loaded is not None
    with vllm_server(Path(hf.loaded.source.at), "smol") as address:
        yield address


@pytest.fixture(scope="module")
def texts(address: str, hf: HFLM) -> Iterator[LocalCompletionsAPI]:
    assert hf.loaded is not None
    model = LocalCompletionsAPI(
        model="smol",
        base_url=f"{address}/v1/completions",
        tokenizer=hf.loaded.source.at,
        num_concurrent=4,
    )
    yield model
    model.close()


@pytest.fixture(scope="module")
def chats(address: str) -> Iterator[LocalChatCompletion]:
    model = LocalChatCompletion(model="smol", base_url=f"{address}/v1/chat/completions")
    yield model
    model.close()


def answers(model: Any, requests: Sequence[Request]) -> list[Any]:
    by_place = dict(model.stream(list(requests)))
    return [by_place[place] for place in range(len(requests))]


def pairs(kind: str) -> list[Request]:
    requests: list[Request] = []
    for doc, (question, choices) in enumerate(CHOICES.items()):
        shown = "".join(f"{x}. {c.strip()}\n" for x, c in zip("ABC", choices, strict=True))
        context = Prompt((f"{question}\n{shown if kind == 'letters' else ''}Answer:",))
        texts = (" A", " B", " C") if kind == "letters" else choices
        requests += [
            LoglikelihoodRequest(kind, doc, n, context, text) for n, text in enumerate(texts)
        ]
    return requests


@pytest.mark.parametrize("kind", ["texts", "letters"])
def test_scores_are_those_of_hf(texts: LocalCompletionsAPI, hf: HFLM, kind: str) -> None:
    """The first of these is the server's first request for log-probs of a prompt, which is slow."""
    requests = pairs(kind)
    for ours, theirs in zip(answers(texts, requests), answers(hf, requests), strict=True):
        assert ours[0] == pytest.approx(theirs[0], abs=PER_TOKEN * theirs.tokens)
        assert ours[1] == theirs[1]


def test_whole_texts(texts: LocalCompletionsAPI, hf: HFLM) -> None:
    asked: list[Request] = [RollingRequest("t", 0, 0, "The capital of France is Paris.")]
    assert answers(texts, asked) == pytest.approx(answers(hf, asked), abs=0.01)


def test_replies(texts: LocalCompletionsAPI, hf: HFLM) -> None:
    prompts = [Prompt((f"The capital of {name} is",)) for name in ("France", "Italy")]
    kwargs = {"until": [".", "\n"], "max_gen_toks": 12}
    asked: list[Request] = [GenerateRequest("t", n, 0, p, kwargs) for n, p in enumerate(prompts)]
    assert answers(texts, asked) == answers(hf, asked)


def chat_requests(*chats: Chat, **kwargs: Any) -> list[Request]:
    kwargs = {"until": ["\n"], "max_gen_toks": 8, **kwargs}
    return [GenerateRequest("t", n, 0, chat, kwargs) for n, chat in enumerate(chats)]


USER = Message("user", "What is the capital of France? One word.")


def test_chats_that_the_server_renders(chats: LocalChatCompletion, hf: HFLM) -> None:
    asked = chat_requests(Chat((USER,)))
    assert answers(chats, asked) == answers(hf, asked)


def test_chats_with_the_start_of_an_answer(texts: LocalCompletionsAPI, hf: HFLM) -> None:
    """Rendered here: a chat endpoint does not continue a message."""
    asked = chat_requests(Chat((USER,)), Chat((USER, Message("assistant", "The capital is"))))
    assert texts.capabilities.chat_template
    assert answers(texts, asked) == answers(hf, asked)


@pytest.mark.parametrize("model", ["local-completions", "local-chat-completions"])
def test_enforced_formats_hold(
    address: str, hf: HFLM, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hf.loaded is not None
    path = "chat/completions" if model == "local-chat-completions" else "completions"
    arguments = f"model=smol,base_url={address}/v1/{path},tokenizer={hf.loaded.source.at}"
    command = ["run", "--tasks", "demo_mcq@generate+enforced", "--limit", "6", "--model", model]
    assert main([*command, "--model_args", arguments, "--output_path", str(tmp_path)]) == 0
    assert "100 %" in capsys.readouterr().out


@pytest.fixture(scope="module")
def messages(address: str) -> Iterator[AnthropicChat]:
    model = AnthropicChat(model="smol", base_url=f"{address}/v1/messages")
    yield model
    model.close()


def test_messages_of_anthropic(messages: AnthropicChat, hf: HFLM) -> None:
    asked = chat_requests(
        Chat((USER,)),
        Chat((Message("system", "You answer in one word."), USER)),
        Chat((USER, Message("assistant", "Paris"), Message("user", "And of Italy?"))),
    )
    assert answers(messages, asked) == answers(hf, asked)


@pytest.mark.parametrize("until", [["is"], ["\n", "is"], [" "]])
def test_messages_stop(messages: AnthropicChat, hf: HFLM, until: list[str]) -> None:
    """White space is not a stop string of this protocol, and counts all the same."""
    asked = chat_requests(Chat((USER,)), until=until, max_gen_toks=16)
    (reply,), (expected,) = answers(messages, asked), answers(hf, asked)
    assert (reply, reply.finish) == (expected, expected.finish) == (expected, "stop")
    (free,) = answers(messages, chat_requests(Chat((USER,)), until=[], max_gen_toks=16))
    assert any(stop in free for stop in until), "it was really cut"


def test_messages_that_are_cut(messages: AnthropicChat) -> None:
    (reply,) = answers(messages, chat_requests(Chat((USER,)), until=[], max_gen_toks=2))
    assert reply.finish == "length"


def test_messages_are_counted_as_chats_are(address: str, tmp_path: Path) -> None:
    """Two protocols of one server, asked the same: the same replies, and the same tokens."""
    ways = {"anthropic-chat": "messages", "local-chat-completions": "chat/completions"}
    counted, replies = [], []
    for model, path in ways.items():
        (tmp_path / model).mkdir()
        work = Workplace(tmp_path / model)
        arguments = f"model=smol,base_url={address}/v1/{path}"
        work.cli(
            *("run", "--tasks", "demo_mcq@generate", "--limit", "6", "--model", model),
            *("--model_args", arguments, "--output_path", str(work.output), "--log_samples"),
        ).ok()
        total = work.results()["accounting"]["total"]
        counted.append({name: total[name] for name in ("requests", "tokens_in", "tokens_out")})
        replies.append([row["resps"] for row in work.samples("demo_mcq@generate")])
    assert counted[0] == counted[1]
    assert counted[0]["tokens_in"] > 6 * 20
    assert replies[0] == replies[1]
