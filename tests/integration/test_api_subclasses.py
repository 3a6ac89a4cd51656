"""Whatever a program overrides of a model behind a server, its requests and answers follow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

import lm_eval
from lm_eval.errors import LmEvalError
from lm_eval.formats.assemble import Chat, Message, Prompt
from lm_eval.models.openai_completions import (
    LocalChatCompletion,
    LocalCompletionsAPI,
    OpenAIChatCompletion,
)
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, RollingRequest
from tests.support.servers.faulty import FaultyServer
from tests.support.servers.toy_openai import ToyServer, write_tokenizer

WORDS = (" yes", " no way", " B")
TEXT = "Is It So?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@contextmanager
def served(kind: Any, **arguments: Any) -> Iterator[Any]:
    """A model of this class behind a server; ``.bodies()`` is what was sent."""
    with FaultyServer(ToyServer()) as server:
        lm = kind(model="toy", base_url=f"{server.url}{kind.endpoint}", **arguments)
        lm.bodies = lambda: [seen.body for seen in server.requests if seen.body]
        try:
            yield lm
        finally:
            lm.close()


def scored(context: str = f"{TEXT}\nAnswer:") -> list[LoglikelihoodRequest]:
    prompt = Prompt((context,))
    return [LoglikelihoodRequest("t", 0, n, prompt, text) for n, text in enumerate(WORDS)]


ROLLED = [RollingRequest("t", 0, 0, f"{TEXT} Yes, It Is.")]


def asked(text: str = "Hello, Who?", **gen_kwargs: Any) -> list[GenerateRequest]:
    kwargs = {"max_gen_toks": 6, "until": ["\n"], **gen_kwargs}
    return [GenerateRequest("t", 0, 0, Prompt((text,)), kwargs)]


def answers(lm: Any, requests: Sequence[Any]) -> list[Any]:
    """As a run asks."""
    return [answer for _, answer in sorted(lm.stream(requests))]


def numbers(lm: Any, requests: Sequence[Any]) -> list[float]:
    return [answer[0] if isinstance(answer, tuple) else answer for answer in answers(lm, requests)]


def test_list_methods_of_a_subclass_answer_and_may_call_ours(folder: str) -> None:
    class Doubled(LocalCompletionsAPI):
        def loglikelihood(self, requests, disable_tqdm=False):
            scores = super().loglikelihood(requests, disable_tqdm=disable_tqdm)
            return [(2 * score, greedy) for score, greedy in scores]

        def loglikelihood_rolling(self, requests, disable_tqdm=False):
            return [2 * score for score in super().loglikelihood_rolling(requests)]

        def generate_until(self, requests, disable_tqdm=False):
            assert requests[0].args == ("Hello, Who?", {"max_gen_toks": 6, "until": ["\n"]})
            return [reply + "!" for reply in super().generate_until(requests)]

    with (
        served(LocalCompletionsAPI, tokenizer=folder) as plain,
        served(Doubled, tokenizer=folder) as lm,
    ):
        for requests in (scored(), ROLLED):
            wanted = [2 * score for score in numbers(plain, requests)]
            assert numbers(lm, requests) == pytest.approx(wanted)
        assert answers(lm, asked()) == [reply + "!" for reply in answers(plain, asked())]


class Chatty(LocalChatCompletion):
    def generate_until(self, requests, disable_tqdm=False):
        return [str(request.args[0][-1]["content"]) for request in requests]


def test_generate_until_of_a_chat_endpoint() -> None:
    requests = [GenerateRequest("t", 0, 0, Chat((Message("user", "Hi"),)), {})]
    with served(Chatty) as lm:
        assert answers(lm, requests) == ["Hi"]
        assert lm.bodies() == []


@pytest.mark.parametrize("tokenized", [True, False])
def test_tok_encode(folder: str, tokenized: bool) -> None:
    class LowerCase(LocalCompletionsAPI):
        def tok_encode(self, string: str, **kwargs: Any) -> Any:
            return super().tok_encode(string.lower(), **kwargs)

    arguments = {"tokenizer": folder, "tokenized_requests": tokenized}
    with (
        served(LocalCompletionsAPI, tokenizer=folder) as plain,
        served(LowerCase, **arguments) as lm,
    ):
        rolled = [RollingRequest("t", 0, 0, ROLLED[0].text.lower())]
        assert numbers(lm, ROLLED) == pytest.approx(numbers(plain, rolled))
        assert numbers(lm, ROLLED) != pytest.approx(numbers(plain, ROLLED))
        if tokenized:
            lowered = [
                LoglikelihoodRequest("t", 0, n, Prompt((f"{TEXT}\nAnswer:".lower(),)), text.lower())
                for n, text in enumerate(WORDS)
            ]
            assert numbers(lm, scored()) == pytest.approx(numbers(plain, lowered))
            lm.generate_until(asked())
            assert lm.bodies()[-1]["prompt"] == [plain.tok_encode("hello, who?")]


def test_encode_pair_and_loglikelihood_tokens(folder: str) -> None:
    class NoContext(LocalCompletionsAPI):
        def _encode_pair(self, context: str, continuation: str) -> Any:
            return [self.prefix_token_id], super()._encode_pair(context, continuation)[1]

    class Fixed(LocalCompletionsAPI):
        def _loglikelihood_tokens(self, requests, disable_tqdm=False, **kwargs):
            return [(-float(len(tokens)), False) for _, _, tokens in requests]

    with (
        served(LocalCompletionsAPI, tokenizer=folder) as plain,
        served(NoContext, tokenizer=folder) as lm,
    ):
        pairs = [(("", ""), [plain.prefix_token_id], plain.tok_encode(word)) for word in WORDS]
        wanted = [score for score, _ in plain._loglikelihood_tokens(pairs)]
        assert numbers(lm, scored()) == pytest.approx(wanted)
        lengths = [-len(plain.tok_encode(word)) for word in WORDS]
        text = -len(plain.tok_encode(ROLLED[0].text))
    with served(Fixed, tokenizer=folder) as lm:
        assert numbers(lm, scored()) == lengths
        assert numbers(lm, ROLLED) == [text]


def test_decoding_of_prompts_that_are_sent_as_text(folder: str) -> None:
    class Loud(LocalCompletionsAPI):
        def decode_batch(self, tokens: Any) -> list[str]:
            return [text.replace("e", "a") for text in super().decode_batch(tokens)]

    with served(Loud, tokenizer=folder, tokenized_requests=False, max_length=20) as lm:
        lm.loglikelihood_rolling(ROLLED)
        assert any("Yas" in str(body["prompt"]) for body in lm.bodies())


def test_properties_without_a_setter(folder: str) -> None:
    class Own(LocalCompletionsAPI):
        model = property(lambda self: "toy-mini")
        max_length = property(lambda self: 12)
        max_gen_toks = property(lambda self: 3)
        batch_size = property(lambda self: 2)
        prefix_token_id = property(lambda self: 5)

    with served(Own, tokenizer=folder) as lm:
        none: dict[str, Any] = {}
        requests = [
            GenerateRequest("t", n, 0, Prompt((f"Hello, who are {n}",)), none) for n in range(4)
        ]
        answers(lm, requests)
        sent = lm.bodies()
        assert [(body["model"], body["max_tokens"], len(body["prompt"])) for body in sent] == [
            ("toy-mini", 3, 2)
        ] * 2
        assert {len(prompt) for body in sent for prompt in body["prompt"]} == {9}
        answers(lm, ROLLED)
        assert any(row[0] == 5 for body in lm.bodies() for row in body["prompt"])


def test_attributes_under_the_names_of_the_harness(folder: str) -> None:
    class Own(LocalCompletionsAPI):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self._max_gen_toks = 4

        def _create_payload(
            self, messages, generate=False, gen_kwargs=None, seed=1234, eos=None, **kw
        ):
            limit = (gen_kwargs or {}).pop("max_gen_toks", self._max_gen_toks)
            return {
                "model": self.model,
                "prompt": messages,
                "max_tokens": limit,
                "seed": self._seed,
            }

    with served(Own, tokenizer=folder) as lm:
        answers(lm, [GenerateRequest("t", 0, 0, Prompt(("Hello",)), {})])
        assert (lm.bodies()[0]["max_tokens"], lm.max_gen_toks) == (4, 4)
        lm._batch_size = 3
        assert lm.batch_size == 3


def test_eot_token_id_is_not_sent_and_that_is_said(folder: str) -> None:
    class Own(LocalCompletionsAPI):
        eot_token_id = property(lambda self: 3)

    with served(Own, tokenizer=folder) as lm:
        assert lm.warnings == [
            "eot_token_id of Own is not sent: replies end at the task's stop strings and at eos_string."
        ]


def test_what_nothing_would_call_is_refused_by_name() -> None:
    class Own(LocalCompletionsAPI):
        async def get_batched_requests(self, requests, cache_keys, **kwargs):
            return []

    with pytest.raises(LmEvalError, match=r"Own defines get_batched_requests, which nothing calls"):
        Own(model="m", base_url="http://h/v1/completions")


def test_a_whole_run_reports_the_replies_of_the_subclass(folder: str) -> None:
    class Own(LocalCompletionsAPI):
        def generate_until(self, requests, disable_tqdm=False):
            return ["Own reply"] * len(requests)

    with served(Own, tokenizer=folder) as lm:
        results = lm_eval.simple_evaluate(model=lm, tasks=["demo_mcq@generate"], limit=2)
        replies = [sample["resps"] for sample in results["samples"]["demo_mcq@generate"]]
        assert replies == [[["Own reply"]]] * 2


# -- think_end_token ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LocalChatCompletion, OpenAIChatCompletion])
def test_the_answer_of_a_chat_begins_behind_think_end_token(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    said = "It is 3.\nNo, 4.</think>\n\nThe answer is 4.\nDone"

    def reply(path: str, body: dict[str, Any]) -> tuple[int, Any]:
        message = {"role": "assistant", "content": said}
        return 200, {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    with FaultyServer(reply) as server:
        lm = kind(
            model="m", base_url=f"{server.url}/v1/chat/completions", think_end_token="</think>"
        )
        (answer,) = lm.generate_until(asked("2+2?"))
        assert (answer, answer.reasoning) == ("The answer is 4.", "It is 3.\nNo, 4.")
        lm.close()
