"""Models over HTTP with real weights behind them: scores as in process, and llama.cpp's own server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lm_eval.errors import MissingExtraError, ModelError
from lm_eval.formats.assemble import Chat, Message, Prompt
from lm_eval.models.gguf import GgufLM
from lm_eval.models.openai_completions import LocalChatCompletion, LocalCompletionsAPI
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, RollingRequest
from tests.support.servers.faulty import FaultyServer
from tests.support.servers.gguf_server import gguf_server

QUESTIONS = {
    "What is the capital of France?": (" Paris", " a dog", " New York"),
    "Which animal barks?": (" a dog", " the old black cat", " Paris"),
}
LETTERS = (" A", " B", " C", " D")


@pytest.fixture(scope="module")
def lm() -> Iterator[GgufLM]:
    try:
        model = GgufLM(n_ctx=512, n_threads=1)
    except MissingExtraError as error:
        pytest.skip(f"needs cyllama and the default weights: {error.install}")
    yield model
    model.close()


def _letters() -> list[LoglikelihoodRequest]:
    requests = []
    for doc_id, (question, choices) in enumerate(QUESTIONS.items()):
        shown = "".join(f"{x}. {c.strip()}\n" for x, c in zip("ABC", choices, strict=True))
        context = Prompt((f"{question}\n{shown}Answer:",))
        requests += [
            LoglikelihoodRequest("t", doc_id, n, context, letter)
            for n, letter in enumerate(LETTERS)
        ]
    return requests


def _texts() -> list[LoglikelihoodRequest]:
    requests = []
    for doc_id, (question, choices) in enumerate(QUESTIONS.items()):
        context = Prompt((f"Q: {question}\nA:",))
        requests += [
            LoglikelihoodRequest("t", doc_id, n, context, text) for n, text in enumerate(choices)
        ]
    return requests


def _same(found: list[tuple[float, bool]], wanted: list[tuple[float, bool]]) -> None:
    assert [s for s, _ in found] == pytest.approx([s for s, _ in wanted], abs=1e-4)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in wanted]


@pytest.mark.parametrize(
    "switches", [{}, {"refuses_batch": True, "most_logprobs": 20}], ids=["able", "less_able"]
)
def test_scores_over_http_equal_scores_in_process(lm: GgufLM, switches: dict[str, Any]) -> None:
    letters, texts = (_letters(), _texts()) if not switches else (_letters()[:4], _texts()[:3])
    wanted = lm.loglikelihood(letters), lm.loglikelihood(texts)
    with FaultyServer(gguf_server(lm, **switches)) as server:
        api = LocalCompletionsAPI(
            model="smollm2", base_url=f"{server.url}/v1/completions", timeout=120
        )
        _same(api.loglikelihood(letters), wanted[0])
        _same(api.loglikelihood(texts), wanted[1])
        api.close()


def test_rolling_scores_and_text_over_http_equal_those_in_process(lm: GgufLM) -> None:
    texts = [RollingRequest("t", 0, 0, "The sun rises in the east.")]
    chat = Chat((Message("user", "Say hello."),))
    asked = [GenerateRequest("t", 0, 0, chat, {"max_gen_toks": 5})]
    wanted = lm.loglikelihood_rolling(texts), lm.generate_until(asked)
    with FaultyServer(gguf_server(lm)) as server:
        api = LocalCompletionsAPI(
            model="smollm2", base_url=f"{server.url}/v1/completions", timeout=120
        )
        assert api.loglikelihood_rolling(texts) == pytest.approx(wanted[0], abs=1e-4)
        assert api.generate_until(asked) == wanted[1]
        assert api.chat_template == lm.chat_template
        api.close()
        chats = LocalChatCompletion(
            model="smollm2", base_url=f"{server.url}/v1/chat/completions", timeout=120
        )
        assert chats.generate_until(asked) == wanted[1]
        chats.close()


def test_llama_cpps_server_generates(llama_server: str) -> None:
    asked = [GenerateRequest("t", 0, 0, Prompt(("The capital of France is",)), {"max_gen_toks": 4})]
    api = LocalCompletionsAPI(
        model="smollm2", base_url=f"{llama_server}/v1/completions", timeout=120
    )
    (text,) = api.generate_until(asked)
    assert text.startswith(" Paris")
    chat = GenerateRequest("t", 0, 0, Chat((Message("user", "Say hello."),)), {"max_gen_toks": 8})
    (rendered,) = api.generate_until([chat])  # its /tokenize and /props serve as the tokenizer
    usage = api.usage["t"]
    assert (usage.requests, usage.tokens_out > 0, usage.tokens_in > 5) == (2, True, True)
    api.close()
    chats = LocalChatCompletion(
        model="smollm2", base_url=f"{llama_server}/v1/chat/completions", timeout=120
    )
    (said,) = chats.generate_until([chat])
    chats.close()
    assert said.finish == "length"
    assert said.strip() == rendered.strip()


def test_llama_cpps_server_scores_letters_and_refuses_texts(llama_server: str, lm: GgufLM) -> None:
    api = LocalCompletionsAPI(
        model="smollm2", base_url=f"{llama_server}/v1/completions", timeout=120
    )
    with pytest.raises(ModelError, match=r"cannot score text \(echo with logprobs\).*llama\.cpp's"):
        api.loglikelihood(_texts())
    found, wanted = api.loglikelihood(_letters()), lm.loglikelihood(_letters())
    api.close()
    # Another build of llama.cpp adds up in another order, which quantised weights magnify.
    assert [s for s, _ in found] == pytest.approx([s for s, _ in wanted], abs=0.5)
