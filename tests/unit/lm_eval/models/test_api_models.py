"""``TemplateAPI`` and OpenAI's endpoints over real sockets, a small deterministic model behind them."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import LmEvalWarning, ModelError, RequestError, UsageError
from lm_eval.formats.assemble import Chat, Message, Prompt
from lm_eval.models.api_models import TemplateAPI
from lm_eval.models.openai_completions import (
    LocalChatCompletion,
    LocalCompletionsAPI,
    OpenAIChatCompletion,
    OpenAICompletionsAPI,
)
from lm_eval.requests import (
    FailedRequest,
    GenerateRequest,
    LoglikelihoodRequest,
    Reply,
    RollingRequest,
)
from tests.support.servers.faulty import FaultyServer, Seen, always
from tests.support.servers.toy_openai import ToyModel, ToyServer, write_tokenizer

CANARY = "sk-canary-7f3a9c5512"
LETTERS = (" A", " B", " C", " D")
WORDS = (" yes", " no way", " B")


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tokenizer(tmp_path_factory.mktemp("tokenizer")))


@contextmanager
def served(kind: Any, server: FaultyServer | ToyServer, **arguments: Any) -> Iterator[Any]:
    """A model of this class behind a server; ``.server`` is that server."""
    server = server if isinstance(server, FaultyServer) else FaultyServer(server)
    with server:
        lm = kind(model="toy", base_url=f"{server.url}{kind.endpoint or '/x'}", **arguments)
        lm.server = server
        try:
            yield lm
        finally:
            lm.close()


def asked(count: int = 3, *, task: str = "t", **gen_kwargs: Any) -> list[GenerateRequest]:
    shared = {"max_gen_toks": 6, "until": ["\n"], **gen_kwargs}
    return [
        GenerateRequest(task, n, 0, Prompt((f"Hello, who are {n}",)), shared) for n in range(count)
    ]


def chats(count: int = 3, **gen_kwargs: Any) -> list[GenerateRequest]:
    shared = {"max_gen_toks": 6, **gen_kwargs}
    return [
        GenerateRequest("t", n, 0, Chat((Message("user", f"Hello {n}"),)), shared)
        for n in range(count)
    ]


def scored(choices: Sequence[str], count: int = 8) -> list[LoglikelihoodRequest]:
    requests = []
    for doc_id in range(count):
        context = Prompt((f"Is it so?\nAnswer {doc_id}:",))
        requests += [
            LoglikelihoodRequest("t", doc_id, n, context, text) for n, text in enumerate(choices)
        ]
    return requests


def expected(requests: Sequence[LoglikelihoodRequest], lead: int = 0) -> list[tuple[float, bool]]:
    """The scores of the toy model, one by one."""
    model = ToyModel()
    found = []
    for request in requests:
        before = [model.bos] * lead + model.encode(str(request.context))
        whole = [model.bos] * lead + model.encode(f"{request.context}{request.continuation}")
        rows = model.rows(whole[:-1], len(before) - 1)
        pairs = list(zip(rows, whole[len(before) :], strict=True))
        found.append(
            (sum(row[token] for row, token in pairs), all(row[t] == max(row) for row, t in pairs))
        )
    return found


def check_scores(lm: Any, choices: Sequence[str], **more: Any) -> int:
    """Compare with scores one by one; how many completions it took."""
    before = completions(lm)
    requests = scored(choices)
    answers = lm.loglikelihood(requests)
    wanted = expected(requests, **more)
    assert [score for score, _ in answers] == pytest.approx([s for s, _ in wanted], abs=1e-4)
    assert [greedy for _, greedy in answers] == [greedy for _, greedy in wanted]
    return completions(lm) - before


def completions(lm: Any) -> int:
    return sum(seen.path == "/v1/completions" for seen in lm.server.requests)


# Arguments


def test_the_defaults_are_those_of_the_document() -> None:
    lm = LocalCompletionsAPI(model="m", base_url="http://h/v1/completions")
    shown = (lm.num_concurrent, lm.timeout, lm.tokenized_requests, lm.max_length, lm.max_retries)
    assert shown == (1, 30.0, True, 2048, 3)
    assert (lm.max_gen_toks, lm.batch_size, lm.seed, lm.add_bos_token) == (256, 1, 1234, False)
    assert (lm.custom_prefix_token_id, lm.verify_certificate) == (None, True)
    other = LocalCompletionsAPI(
        pretrained="p", model="m", base_url="http://h/v1/completions", batch_size="auto"
    )
    assert (other.model, other.batch_size) == ("m", 1)
    assert LocalCompletionsAPI(pretrained="p", base_url="http://h/x").model == "p"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"base_url": None}, "needs base_url.*http://HOST:PORT/v1/completions"),
        ({"base_url": "localhost:8000/v1"}, "is not an http"),
        ({"model": None}, "needs the model's name"),
        ({"num_concurrent": 0}, "num_concurrent must be a whole number above 0 or auto"),
        ({"timeout": -1}, "timeout must be a number of seconds"),
        ({"tokenizer_backend": "hugingface"}, "Did you mean 'huggingface'"),
        ({"tokenized_requests": "maybe"}, "must be true or false"),
        ({"batch_size": 0}, "batch_size"),
        ({"max_lenght": 5}, "no argument 'max_lenght'. Did you mean 'max_length'"),
        ({"header": {}, "nonsense": 1}, "no argument 'nonsense'"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    given = {"model": "m", "base_url": "http://h/v1/completions", **arguments}
    with pytest.raises(UsageError, match=message):
        LocalCompletionsAPI.from_args(given, name="local-completions")


def test_flags_for_local_models_have_no_effect() -> None:
    given = {"model": "m", "base_url": "http://h/x", "device": "cuda:0"}
    with pytest.warns(LmEvalWarning, match="device has no effect"):
        LocalCompletionsAPI.from_args(given, name="local-completions")


def test_chat_takes_one_conversation_a_request() -> None:
    with pytest.raises(UsageError, match="batch_size must be 1"):
        LocalChatCompletion(model="m", base_url="http://h/v1/chat/completions", batch_size=4)


# Generation


def test_completions_equal_the_model_and_are_cut_at_stops(folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder) as lm:
        whole = lm.generate_until(asked())
        assert len({*map(str, whole)}) == 3
        assert [reply.finish for reply in whole] == ["length"] * 3
        stop = str(whole[0])[2:4]
        cut = lm.generate_until(asked(1, until=[stop]))[0]
        assert cut == str(whole[0]).partition(stop)[0]
        assert cut.finish == "stop"
        sent = lm.server.bodies[-1]
        assert sent["stop"] == [stop, "</s>"]
        assert sent["seed"] == 1234
        assert sent["max_tokens"] == 6


@pytest.mark.parametrize("kind", [LocalCompletionsAPI, LocalChatCompletion])
def test_a_server_that_ignores_stops_gives_the_same_answers(kind: Any) -> None:
    replies = []
    for ignores in (False, True):
        with served(kind, ToyServer(ignores_stop=ignores)) as lm:
            requests = asked(until=["A", "B", "q", "r", "C"])
            replies.append([(str(r), r.finish) for r in lm.generate_until(requests)])
    assert replies[0] == replies[1]


def test_chat_sends_messages_as_they_are_and_four_stops() -> None:
    messages = (Message("system", "Be brief."), Message("user", "Hi"))
    request = GenerateRequest("t", 0, 0, Chat(messages), {"until": list("abcdef"), "top_p": 0.5})
    with served(LocalChatCompletion, ToyServer()) as lm:
        lm.generate_until([request])
        sent = lm.server.bodies[0]
    assert sent["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]
    assert sent["stop"] == list("abcd")
    assert (sent["top_p"], sent["temperature"], sent["max_tokens"]) == (0.5, 0.0, 256)
    assert not {"until", "do_sample", "max_gen_toks"} & sent.keys()


def test_a_chat_endpoint_that_is_asked_for_scores_says_what_to_use() -> None:
    with served(LocalChatCompletion, ToyServer()) as lm:
        with pytest.raises(ModelError, match=r"a format such as @generate, or use a completions"):
            lm.loglikelihood(scored(WORDS, 1))
        assert not lm.server.bodies


def test_a_plain_prompt_is_what_the_user_says() -> None:
    with served(LocalChatCompletion, ToyServer()) as lm:
        lm.generate_until(asked(1))
        assert lm.server.bodies[0]["messages"] == [{"role": "user", "content": "Hello, who are 0"}]


@pytest.mark.parametrize(
    ("name", "is_reasoning"),
    [
        ("o1", True),
        ("o3-mini", True),
        ("openai/o4-mini", True),
        ("gpt-5", True),
        ("gpt-5.1-mini", True),
        ("gpt-3.5-turbo", False),
        ("gpt-4o", False),
        ("gpt-4.5-preview", False),
        ("qwen2.5-o1x", False),
    ],
)
def test_reasoning_models_of_openai_take_no_stop(
    name: str, is_reasoning: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    with FaultyServer(ToyServer()) as server:
        lm = OpenAIChatCompletion(model=name, base_url=f"{server.url}/v1/chat/completions")
        lm.generate_until(chats(1, until=["x"]))
        lm.close()
        sent = server.bodies[0]
    assert ("stop" not in sent) == is_reasoning
    assert sent["temperature"] == (1 if is_reasoning else 0.0)
    assert sent["max_completion_tokens"] == 6
    assert "max_tokens" not in sent


def _said(choice: dict[str, Any]) -> Reply:
    with served(LocalChatCompletion, ToyServer(chat=lambda body: choice)) as lm:
        return lm.generate_until(chats(1))[0]


def test_what_chat_replies_tell() -> None:
    thought = {"content": "A", "reasoning_content": "Let me think: B"}
    reply = _said({"message": thought})
    assert (reply, reply.finish, reply.reasoning) == ("A", "stop", "Let me think: B")
    empty = _said({"message": {"content": None, "reasoning": "hm"}, "finish_reason": "length"})
    assert (empty, empty.finish, empty.reasoning) == ("", "length", "hm")
    refused = _said({"message": {"content": None, "refusal": "I cannot help."}})
    assert (refused, refused.finish) == ("", "refused")
    filtered = _said({"message": {"content": ""}, "finish_reason": "content_filter"})
    assert (filtered, filtered.finish) == ("", "refused")
    parts = _said({"message": {"content": [{"type": "text", "text": "A"}, {"text": "B"}]}})
    assert parts == "AB"


def test_repeats_of_a_sampled_request_have_seeds_of_their_own() -> None:
    def seeds(**gen_kwargs: Any) -> list[int]:
        requests = [
            GenerateRequest("t", doc, n, Prompt(("Hi",)), gen_kwargs, repeats=3)
            for doc in range(2)
            for n in range(3)
        ]
        with served(LocalCompletionsAPI, ToyServer(), seed=7) as lm:
            lm.generate_until(requests)
            return [body["seed"] for body in lm.server.bodies]

    assert seeds(temperature=0.8) == [7, 8, 9] * 2
    assert seeds(temperature=0.8, seed=50) == [50, 51, 52] * 2
    assert seeds() == [7] * 6


def test_prompts_are_batched(folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder) as lm:
        one_by_one = lm.generate_until(asked(5))
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder, batch_size=2) as lm:
        assert lm.generate_until(asked(5)) == one_by_one
        assert [len(body["prompt"]) for body in lm.server.bodies] == [2, 2, 1]
        assert isinstance(lm.server.bodies[0]["prompt"][0][0], int)
    with served(LocalCompletionsAPI, ToyServer(), tokenizer_backend=None, batch_size=2) as lm:
        assert lm.generate_until(asked(5)) == one_by_one
        assert lm.server.bodies[0]["prompt"] == ["Hello, who are 0", "Hello, who are 1"]
        assert lm.server.bodies[-1]["prompt"] == "Hello, who are 4"


@pytest.mark.parametrize("switches", [{"refuses_batch": True}, {"answers_first_only": True}])
def test_a_batch_that_the_server_refuses_names_batch_size(switches: dict[str, bool]) -> None:
    with (
        served(LocalCompletionsAPI, ToyServer(**switches), batch_size=4) as lm,
        pytest.raises(RequestError, match=r"batch_size=4.*set batch_size=1"),
    ):
        lm.generate_until(asked(5))


def test_long_prompts_lose_their_beginning_and_are_counted(folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder, max_length=20) as lm:
        lm.generate_until(asked(1))  # 15 tokens, and 6 to generate
        assert lm.server.bodies[0]["prompt"] == [ToyModel().encode("Hello, who are 0")[-14:]]
        assert lm.describe()["truncated_requests"] == 1
        assert lm.describe()["truncated_tokens"] == 2
        assert "1 prompts were longer than max_length 20" in lm.warnings[0]
        with pytest.raises(UsageError, match="the window is 20"):
            lm.generate_until(asked(1, max_gen_toks=50))


def test_a_chat_is_rendered_for_a_completions_endpoint(folder: str) -> None:
    turns = (Message("user", "Hi"), Message("assistant", "The answer is"))
    for arguments in ({"tokenizer": folder, "tokenized_requests": False}, {}):
        with served(LocalCompletionsAPI, ToyServer(), **arguments) as lm:
            assert lm.capabilities.chat_template
            lm.generate_until(
                [GenerateRequest("t", n, 0, Chat(turns[: n + 1]), {}) for n in range(2)]
            )
            prompts = [body["prompt"] for body in lm.server.bodies if "max_tokens" in (body or ())]
            assert prompts == ["<user>Hi\n<assistant>", "<user>Hi\n<assistant>The answer is"]


def test_without_a_template_a_chat_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    bare = str(write_tokenizer(tmp_path / "bare", template=None))
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=bare) as lm:
        assert not lm.capabilities.chat_template
        with pytest.raises(ModelError, match=r"has no chat template.*local-chat-completions"):
            lm.generate_until(chats(1))
        assert lm.server.requests == []


# Scores


@pytest.mark.parametrize(
    "switches",
    [
        {},
        {"refuses_batch": True},
        {"answers_first_only": True},
        {"most_logprobs": 5},
        {"generates": False},
        {"top_after_sampling": True},
        {"has_usage": False},
    ],
    ids=lambda switches: "-".join(switches) or "able",
)
@pytest.mark.parametrize("sends", ["tokens", "text", "remote"])
def test_scores_equal_those_one_by_one(switches: dict[str, Any], sends: str, folder: str) -> None:
    arguments: dict[str, Any] = {} if sends == "remote" else {"tokenizer": folder}
    if sends == "text":
        arguments["tokenized_requests"] = False
    with served(LocalCompletionsAPI, ToyServer(**switches), num_concurrent=4, **arguments) as lm:
        check_scores(lm, LETTERS)
        check_scores(lm, WORDS)


def test_a_bos_token_that_the_server_adds_is_found(folder: str) -> None:
    arguments = {"tokenizer": folder, "tokenized_requests": False}
    with served(LocalCompletionsAPI, ToyServer(adds_bos=True), **arguments) as lm:
        check_scores(lm, LETTERS, lead=1)
        check_scores(lm, WORDS, lead=1)


def test_letters_take_one_request_a_doc_and_texts_too(folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder) as lm:
        assert check_scores(lm, LETTERS) == 8 + 3  # with the probe
        assert check_scores(lm, LETTERS) == 8
        assert check_scores(lm, WORDS) == 8
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder, top_logprobs=0) as lm:
        assert check_scores(lm, LETTERS) == 8 + 2
        assert all("logprobs" not in b or b["logprobs"] == 1 for b in lm.server.bodies)
    with served(LocalCompletionsAPI, ToyServer(refuses_batch=True), tokenizer=folder) as lm:
        check_scores(lm, LETTERS)
        assert check_scores(lm, WORDS) == 8 * len(WORDS)


def test_a_label_outside_the_likeliest_is_scored_by_echo(folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder, top_logprobs=2) as lm:
        assert check_scores(lm, (" A", " B", " C", " D", "z")) > 8 + 3


def test_tokens_of_equal_text_are_scored_by_echo(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "twins")
    described = json.loads((folder / "tokenizer.json").read_text())
    described["decoder"] = {
        "type": "Sequence",
        "decoders": [
            described["decoder"],
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    }
    (folder / "tokenizer.json").write_text(json.dumps(described))
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=str(folder)) as lm:
        assert lm.tokenizer.only_text(lm.tok_encode(" A")[0]) is None
        assert lm.tokenizer.only_text(lm.tok_encode("z")[0]) == "z"
        check_scores(lm, LETTERS)


def test_batches_of_several_docs(folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder, batch_size=4) as lm:
        check_scores(lm, LETTERS)
        assert check_scores(lm, LETTERS) == 2  # eight docs, a prompt each
    with (
        served(
            LocalCompletionsAPI, ToyServer(refuses_batch=True), tokenizer=folder, batch_size=4
        ) as lm,
        pytest.raises(RequestError, match=r"batch_size is 4\. Set batch_size=1"),
    ):
        lm.loglikelihood(scored(LETTERS))


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"shift": 1}, "are not aligned with its tokens"),
        ({"ignores_echo": True, "most_logprobs": 1}, "1 log-probs for a prompt of"),
        ({"most_logprobs": 0}, "refused the request.*logprobs may be at most 0"),
        ({"refuses_tokens": True}, "must be a string.*tokenized_requests=False"),
    ],
)
def test_a_server_that_cannot_score_is_an_error(
    switches: dict[str, Any], message: str, folder: str
) -> None:
    with served(LocalCompletionsAPI, ToyServer(**switches), tokenizer=folder) as lm:
        with pytest.raises(ModelError, match=message) as caught:
            lm.loglikelihood(scored(WORDS))
        assert "vLLM" in str(caught.value)
        assert "@generate" in str(caught.value)


@pytest.mark.parametrize("chat_shape", [False, True])
def test_letters_are_scored_without_echo_where_the_likeliest_are_told(
    chat_shape: bool, folder: str
) -> None:
    server = ToyServer(ignores_echo=True, chat_shape=chat_shape)
    with served(LocalCompletionsAPI, server, tokenizer=folder) as lm:
        check_scores(lm, LETTERS)
        with pytest.raises(ModelError, match="cannot score text"):
            lm.loglikelihood(scored(WORDS))


def test_rolling_scores_count_each_token_once(folder: str) -> None:
    text = "The quick brown fox jumps over the lazy dog, again and again."
    model = ToyModel()
    tokens = [model.bos, *model.encode(text)]
    wanted = 0.0
    for start in range(0, len(tokens) - 1, 18):  # 20 tokens, less one generated and one scored
        end = min(start + 18, len(tokens) - 1)
        sent = tokens[max(0, end - 18) : end + 1]
        rows = model.rows(sent[:-1], len(sent) - 1 - (end - start))
        wanted += sum(row[t] for row, t in zip(rows, sent[-(end - start) :], strict=True))
    requests = [RollingRequest("t", 0, 0, text), RollingRequest("t", 1, 0, "")]
    for arguments in ({}, {"tokenized_requests": False}):
        with served(
            LocalCompletionsAPI, ToyServer(), tokenizer=folder, max_length=20, **arguments
        ) as lm:
            found = lm.loglikelihood_rolling(requests)
        assert found == pytest.approx([wanted, 0.0], abs=1e-4)


def test_empty_contexts_blanks_and_empty_continuations(folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder) as lm:
        requests = [
            LoglikelihoodRequest("t", 0, 0, Prompt(("",)), "yes"),
            LoglikelihoodRequest("t", 0, 1, Prompt(("",)), ""),
            LoglikelihoodRequest("t", 1, 0, Prompt(("x ",)), "A"),
            LoglikelihoodRequest("t", 2, 0, Prompt(("x",)), " A"),
        ]
        (score, _), nothing, moved, same = lm.loglikelihood(requests)
        model = ToyModel()
        tokens = [model.bos, *model.encode("yes")]
        rows = model.rows(tokens[:-1], 0)
        wanted = sum(row[t] for row, t in zip(rows, tokens[1:], strict=True))
        assert score == pytest.approx(wanted, abs=1e-4)
        assert nothing == (0.0, True)
        assert moved == same
        assert "1 continuations have no token" in lm.warnings[0]


def test_a_long_context_is_cut_and_a_long_continuation_refused(folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder, max_length=20) as lm:
        long = Prompt(("one two three four five six",))
        ((score, _),) = lm.loglikelihood([LoglikelihoodRequest("t", 0, 0, long, " yes")])
        model = ToyModel()
        tokens = model.encode(f"{long} yes")[-19:]
        rows = model.rows(tokens[:-1], 19 - 5)
        wanted = sum(row[t] for row, t in zip(rows, tokens[-4:], strict=True))
        assert score == pytest.approx(wanted, abs=1e-4)
        assert lm.describe()["truncated_tokens"] == 12
        with pytest.raises(ModelError, match="doc 7: a continuation of 40 tokens"):
            lm.loglikelihood([LoglikelihoodRequest("t", 7, 0, Prompt(("x",)), "y" * 40)])


def test_add_bos_token_and_custom_prefix(folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder, add_bos_token=True) as lm:
        check_scores(lm, LETTERS, lead=1)
        assert lm.tok_encode("<s>x") == lm.tok_encode("x")
    lm = LocalCompletionsAPI(
        model="m", base_url="http://h/x", tokenizer=folder, custom_prefix_token_id=5
    )
    assert lm.prefix_token_id == 5


# Faults and costs


def test_usage_is_counted_for_each_task(folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder) as lm:
        lm.generate_until([*asked(2, task="one"), *asked(1, task="two")])
        one, two = lm.usage["one"], lm.usage["two"]
        assert (one.requests, one.tokens_in, one.tokens_out, one.tokens_cached) == (2, 32, 2, 4)
        assert (two.requests, two.tokens_in) == (1, 16)
    with served(LocalCompletionsAPI, ToyServer(has_usage=False), tokenizer=folder) as lm:
        lm.generate_until(asked(2))
        assert lm.usage["t"].tokens_in == 32


# Wrong input


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_is_one_request_and_the_servers_words(status: int, folder: str) -> None:
    for requests in (asked(20), scored(LETTERS)):
        for arguments in ({"tokenizer": folder}, {}):
            if status == 404 and not arguments:  # there may be no /tokenize
                continue
            server = FaultyServer(ToyServer(), faults=always(status))
            with (
                served(LocalCompletionsAPI, server, num_concurrent=8, **arguments) as lm,
                pytest.raises(RequestError, match="made to fail") as caught,
            ):
                list(lm.stream(requests))
            assert caught.value.stops_run
            assert len(server.requests) == 1
            assert ("set OPENAI_API_KEY" in str(caught.value)) == (status != 404)


def test_one_failed_request_does_not_stop_the_others() -> None:
    def plan(seen: Seen) -> Any:
        return always(400)(seen) if b"Hello 1" in seen.raw else None

    with served(LocalChatCompletion, FaultyServer(ToyServer(), faults=plan)) as lm:
        found = dict(lm.stream(chats(3)))
    assert isinstance(found[1], FailedRequest)
    assert found[1].error.status == 400
    assert [isinstance(found[n], Reply) for n in (0, 2)] == [True, True]


def test_a_reply_of_another_shape_fails_with_its_beginning() -> None:
    with served(LocalChatCompletion, FaultyServer(lambda path, body: (200, {"ok": 1}))) as lm:
        ((_, found),) = lm.stream(chats(1))
    assert isinstance(found, FailedRequest)
    assert "no list of choices: {'ok': 1}" in str(found.error)


def test_a_tokenizer_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    empty = tmp_path / "empty"
    empty.mkdir()
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "tokenizer.json").write_text("{}")
    for name, message in {
        str(empty): "tokenizer.json: there is none.*tokenizer=FOLDER.*tokenizer_backend=remote",
        str(broken): "broken/tokenizer.json cannot be read",
    }.items():
        with (
            served(LocalCompletionsAPI, ToyServer(), tokenizer=name) as lm,
            pytest.raises(ModelError, match=message),
        ):
            lm.loglikelihood(scored(LETTERS))
    with (
        served(LocalCompletionsAPI, ToyServer(has_tokenizer=False)) as lm,
        pytest.raises(ModelError, match=r"tokenizer 'toy' \(the model's name.*/tokenize does not"),
    ):
        lm.loglikelihood(scored(LETTERS))


def test_without_a_tokenizer_nothing_is_scored() -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer_backend="None") as lm:
        assert not lm.capabilities.loglikelihood
        assert not lm.capabilities.chat_template
        with pytest.raises(ModelError, match="cannot score"):
            lm.loglikelihood(scored(LETTERS))
    with served(LocalChatCompletion, ToyServer()) as lm:
        assert lm.capabilities.chat_only
        assert not lm.capabilities.loglikelihood
        assert not lm.capabilities.prefill


# Keys


def test_a_missing_key_is_named_before_anything_is_sent() -> None:
    for kind in (OpenAICompletionsAPI, OpenAIChatCompletion):
        with served(kind, ToyServer()) as lm:
            with pytest.raises(ModelError, match="OPENAI_API_KEY is not set"):
                lm.generate_until(chats(1))
            assert lm.server.requests == []


def test_the_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)

    def telling(path: str, body: Any) -> tuple[int, Any]:
        return 401, {"error": {"message": f"Incorrect API key provided: {CANARY}"}}

    with served(LocalChatCompletion, FaultyServer(telling)) as lm:
        with pytest.raises(RequestError, match=r"\*\*\*") as caught:
            lm.generate_until(chats(3))
        assert lm.server.requests[0].headers["authorization"] == f"Bearer {CANARY}"
        shown = f"{caught.value} {caught.value!r} {lm!r} {lm.describe()} {lm.identity()}"
    with served(
        LocalChatCompletion,
        FaultyServer(lambda path, body: (200, {"leak": CANARY})),
        header={"X-Key": CANARY},
        auth_token=CANARY,
    ) as lm:
        ((_, failed),) = lm.stream(chats(1))
        assert lm.server.requests[0].headers["x-key"] == CANARY
        shown += f"{failed} {lm!r} {lm.describe()} {lm.identity()} {lm.warnings} {lm.usage}"
    lm = LocalChatCompletion(
        model="m", base_url=f"https://user:{CANARY}@host/v1?api-key={CANARY}", auth_token=CANARY
    )
    shown += f"{lm!r} {lm.describe()} {lm.identity()}"
    assert CANARY not in shown


def test_identity_has_what_decides_answers_and_nothing_else() -> None:
    def identity(**arguments: Any) -> Any:
        given = {"model": "m", "base_url": "http://h/v1/completions", **arguments}
        return LocalCompletionsAPI(**given).identity()

    for name, value in {
        "num_concurrent": 9,
        "timeout": 5,
        "batch_size": 3,
        "max_retries": 9,
        "verify_certificate": False,
    }.items():
        assert identity(**{name: value}) == identity()
    for name, value in {
        "model": "other",
        "base_url": "http://other/v1/completions",
        "seed": 1,
        "max_length": 99,
        "max_gen_toks": 9,
        "tokenizer": "t",
        "add_bos_token": True,
        "revision": "old",
    }.items():
        assert identity(**{name: value}) != identity(), name


# Subclasses


class MyAPIModel(TemplateAPI):
    """The document's example, with its missing methods filled in."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(
            **{
                "model": "my-model",
                "base_url": "https://api.mymodel.com/v1/completions",
                "tokenizer_backend": "huggingface",
                "num_concurrent": 5,
                "max_retries": 5,
                "batch_size": 10,
                **kwargs,
            }
        )

    def _create_payload(
        self, messages: Any, generate: bool = False, **kwargs: Any
    ) -> dict[str, Any]:
        return {"ask": messages, "score": not generate}

    @staticmethod
    def parse_generations(outputs: Any, **kwargs: Any) -> list[str]:
        return [f"{said}!" for said in outputs["said"]]

    @staticmethod
    def parse_logprobs(
        outputs: Any, tokens: Any = None, ctxlens: Any = None, **kwargs: Any
    ) -> list[tuple[float, bool]]:
        found = zip(outputs["scores"], ctxlens, strict=True)
        return [(sum(scores[start:]), False) for scores, start in found]

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Mine": "yes"}


def my_api(path: str, body: Any) -> tuple[int, Any]:
    asked = body["ask"] if isinstance(body["ask"], list) else [body["ask"]]
    if not body["score"]:
        return 200, {"said": [len(one) for one in asked]}
    model = ToyModel()
    found = []
    for tokens in asked:
        rows = model.rows(tokens[:-1], 0)
        found.append([0.0, *(row[t] for row, t in zip(rows, tokens[1:], strict=True))])
    return 200, {"scores": found}


def test_the_documents_example_runs(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with served(MyAPIModel, FaultyServer(my_api)) as lm:
        # my-model is in no hub: prompts go out as text, and a note says so
        assert lm.generate_until(asked(3)) == ["16!"] * 3
        assert lm.server.requests[0].headers["x-mine"] == "yes"
        assert "sent as text" in lm.warnings[0]
    with served(MyAPIModel, FaultyServer(my_api), tokenizer=folder) as lm:
        requests = scored(WORDS)
        wanted = [score for score, _ in expected(requests)]
        assert [s for s, _ in lm.loglikelihood(requests)] == pytest.approx(wanted, abs=1e-4)


def test_the_documents_openai_snippet_runs(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    class Snippet(LocalCompletionsAPI):
        def __init__(
            self,
            base_url="https://api.openai.com/v1/completions",
            tokenizer_backend="tiktoken",
            **kwargs,
        ):
            super().__init__(base_url=base_url, tokenizer_backend=tokenizer_backend, **kwargs)

        @cached_property
        def api_key(self):
            key = os.environ.get("OPENAI_API_KEY", None)
            if key is None:
                raise ValueError(
                    "API key not found. Please set the OPENAI_API_KEY environment variable."
                )
            return key

    arguments = {"tokenizer_backend": "huggingface", "tokenizer": folder}
    with (
        served(Snippet, ToyServer(), **arguments) as lm,
        pytest.raises(ModelError, match="API key not found"),
    ):
        lm.generate_until(asked(1))
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    with served(Snippet, ToyServer(), **arguments) as lm:
        lm.generate_until(asked(1))
        assert lm.server.requests[0].headers["authorization"] == f"Bearer {CANARY}"
    assert Snippet(model="gpt-4").tokenizer_backend == "tiktoken"


def _own_headers(self: Any) -> dict[str, str]:
    return {"X-Mine": "yes"}


@pytest.mark.parametrize(
    "own",
    [
        {"header": property(_own_headers)},
        {"header": _own_headers},
        {"headers": _own_headers},
        {"headers": cached_property(_own_headers)},
    ],
)
def test_header_or_headers_may_be_overridden_in_any_way(own: dict[str, Any]) -> None:
    kind = type("Own", (LocalChatCompletion,), own)
    with served(kind, ToyServer()) as lm:
        lm.generate_until(chats(1))
        assert lm.server.requests[0].headers["x-mine"] == "yes"


def _posted(lm: Any, messages: Any, generate: bool, gen_kwargs: Any) -> Any:
    payload = lm._create_payload(
        lm.create_message(messages), generate=generate, gen_kwargs=gen_kwargs, seed=lm._seed
    )
    request = urllib.request.Request(lm.base_url, json.dumps(payload).encode())
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.loads(reply.read())


class OwnSync(LocalCompletionsAPI):
    def model_call(self, messages, *, generate=True, gen_kwargs=None, **kwargs):
        return _posted(self, messages, generate, gen_kwargs)


class OwnAsync(LocalCompletionsAPI):
    async def amodel_call(self, messages, *, generate=True, gen_kwargs=None, **kwargs):
        return await super().amodel_call(messages, generate=generate, gen_kwargs=gen_kwargs)


class HarnessAsync(LocalCompletionsAPI):
    async def amodel_call(
        self,
        session,
        sem,
        messages,
        *,
        generate=True,
        cache_keys=None,
        ctxlens=None,
        gen_kwargs=None,
        **kwargs,
    ):
        payload = self._create_payload(
            self.create_message(messages), generate=generate, gen_kwargs=gen_kwargs, seed=self._seed
        )
        async with sem, session.post(self.base_url, json=payload, headers=self.header) as response:
            outputs = await response.json()
        if generate:
            return self.parse_generations(outputs)
        return self.parse_logprobs(outputs=outputs, tokens=messages, ctxlens=ctxlens)


class HarnessSuper(LocalCompletionsAPI):
    async def amodel_call(self, session, sem, messages, **kwargs):
        return await super().amodel_call(session, sem, messages, **kwargs)


class SyncSuper(LocalCompletionsAPI):
    def model_call(self, messages, **kwargs):
        return super().model_call(messages, **kwargs)


@pytest.mark.parametrize("kind", [OwnSync, OwnAsync, HarnessAsync, HarnessSuper, SyncSuper])
def test_calls_may_be_overridden(kind: Any, folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder) as lm:
        wanted = lm.generate_until(asked(6))
    server = FaultyServer(ToyServer(), gathers=3)
    with served(kind, server, tokenizer=folder, num_concurrent=3) as lm:
        assert lm.generate_until(asked(6)) == wanted
        assert lm.usage["t"].requests == 6
        assert server.most_at_once == 3
        check_scores(lm, WORDS)


def test_what_a_subclass_raises_is_its_requests_failure() -> None:
    class Broken(LocalChatCompletion):
        def model_call(self, messages: Any, **kwargs: Any) -> Any:
            raise OSError("no such thing")

    with served(Broken, ToyServer()) as lm:
        ((_, found),) = lm.stream(chats(1))
        assert "Broken could not get an answer: OSError: no such thing" in str(found.error)

    class Wrong(LocalChatCompletion):
        def _create_payload(self, messages: Any, **kwargs: Any) -> Any:
            return {"x": messages["no"]}

    with (
        served(Wrong, ToyServer()) as lm,
        pytest.raises(ModelError, match=r"_create_payload.*Error"),
    ):
        lm.generate_until(chats(1))


def test_a_subclass_without_a_payload_says_so() -> None:
    with pytest.raises(ModelError, match="has no _create_payload"):
        TemplateAPI(model="m", base_url="http://h/x")


def test_arguments_of_a_subclass_decide_answers_too() -> None:
    class Own(LocalCompletionsAPI):
        def __init__(self, style: str = "", api_key: str = "", **kwargs: Any) -> None:
            super().__init__(**kwargs)

    given = {"model": "m", "base_url": "http://h/x"}
    made = [Own.from_args({**given, "style": style}, name="own") for style in "ab"]
    assert made[0].identity() != made[1].identity()
    secret = Own.from_args({**given, "api_key": CANARY}, name="own")
    assert CANARY not in str(secret.identity())
    with pytest.raises(UsageError, match=r"no argument 'stile'\. Did you mean 'style'"):
        Own.from_args({**given, "stile": "a"}, name="own")


def test_attributes_that_are_set_afterwards_count(folder: str) -> None:
    class Own(LocalCompletionsAPI):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.batch_size = 3

    with served(Own, ToyServer(), tokenizer="none", tokenizer_backend=None) as lm:
        lm.tokenizer_argument, lm.tokenizer_backend = folder, "huggingface"
        lm.tokenized_requests, lm.seed, lm.max_gen_toks, lm.max_length = True, 77, 2, 5
        none: dict[str, Any] = {}
        requests = [GenerateRequest("t", n, 0, Prompt((f"Hello {n}",)), none) for n in range(3)]
        assert len(lm.generate_until(requests)) == 3
        (sent,) = [request.body for request in lm.server.requests]
        assert (sent["seed"], sent["max_tokens"], len(sent["prompt"])) == (77, 2, 3)
        assert {len(prompt) for prompt in sent["prompt"]} == {3}


def test_a_window_that_follows_from_the_tokenizer(folder: str) -> None:
    """As harness subclasses have it: loading the tokenizer must not ask for the window."""

    class Own(LocalCompletionsAPI):
        @property
        def max_length(self) -> int:  # type: ignore[override]
            return len(self.tok_encode("Hello, who are you?"))

        @max_length.setter
        def max_length(self, value: int) -> None:
            pass

    with served(Own, ToyServer(), tokenizer=folder) as lm:
        (reply,) = lm.generate_until(asked(1, max_gen_toks=1))
        assert isinstance(reply, str)


def test_model_call_works_from_plain_code(folder: str) -> None:
    with served(LocalCompletionsAPI, ToyServer(), tokenizer=folder) as lm:
        outputs = lm.model_call(["Hello"], gen_kwargs={"max_gen_toks": 2})
        assert len(lm.parse_generations(outputs)) == 1


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        (LocalCompletionsAPI, "local-completions"),
        (LocalChatCompletion, "local-chat-completions"),
        (type("Mine", (LocalCompletionsAPI,), {}), "Mine"),
    ],
)
def test_messages_call_a_backend_as_users_do(backend: type[TemplateAPI], name: str) -> None:
    with pytest.raises(UsageError, match=rf"^{name} needs the model's name"):
        backend()
