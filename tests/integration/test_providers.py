"""Native APIs of providers: whole runs, keys, reasoning, costs, errors; their packages as oracles."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import ModelError, UsageError
from lm_eval.models.providers.anthropic import AnthropicChat
from lm_eval.models.providers.azure import AzureOpenAIChat
from lm_eval.models.providers.gemini import GeminiChat
from tests.support.command_line import Outcome, Workplace
from tests.support.servers.faulty import Fault, FaultyServer, Plan, Seen, first
from tests.support.servers.toy_providers import THOUGHT, ToyProviders

KEY = "canary-0123456789-abcdef"


@dataclass(frozen=True)
class Provider:
    """One of the APIs: how it is asked for, and where its key travels."""

    model: str
    path: str
    variable: str
    header: str
    more: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.model


ANTHROPIC = Provider("anthropic-chat", "/v1/messages", "ANTHROPIC_API_KEY", "x-api-key")
GEMINI = Provider("gemini", "/v1beta", "GEMINI_API_KEY", "x-goog-api-key")
AZURE = Provider(
    "azure-openai", "", "AZURE_OPENAI_API_KEY", "api-key", {"api_version": "2024-10-21"}
)
ALL = [ANTHROPIC, GEMINI, AZURE]
VARIABLES = (
    *("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "AZURE_OPENAI_API_KEY"),
    *("OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION"),
)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def work(tmp_path: Path) -> Workplace:
    place = Workplace(tmp_path)
    place.task()
    return place


@pytest.fixture(params=ALL, ids=str)
def provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Provider:
    chosen: Provider = request.param
    monkeypatch.setenv(chosen.variable, KEY)
    return chosen


def run(
    work: Workplace, provider: Provider, server: FaultyServer, *more: str, **arguments: Any
) -> Outcome:
    pairs = {
        "model": "toy-1",
        "base_url": server.url + provider.path,
        "num_concurrent": 4,
        **provider.more,
        **arguments,
    }
    return work.cli(
        *("run", "--tasks", "t@generate", "--include_path", str(work.folder), "--log_samples"),
        *("--gen_kwargs", "max_gen_toks=8", "--output_path", str(work.output)),
        *("--model", provider.model, *more),
        *("--model_args", ",".join(f"{key}={value}" for key, value in pairs.items())),
    )


def rows(work: Workplace) -> list[dict[str, Any]]:
    [path] = work.output.rglob("samples_*.jsonl")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    path.unlink()
    return sorted(found, key=lambda row: row["doc_id"])


def replies(work: Workplace) -> list[Any]:
    return [row["resps"] for row in rows(work)]


def wants_key(provider: Provider) -> Plan:
    """401 for whoever sends another key, or none; it quotes the key."""

    def plan(seen: Seen) -> Fault | None:
        key = seen.headers.get(provider.header)
        return None if key == KEY else Fault(401, message=f"invalid {provider.header}: {key}")

    return plan


def test_replies_are_those_of_the_same_model_over_openai(
    work: Workplace, provider: Provider
) -> None:
    openai = Provider("local-chat-completions", "/v1/chat/completions", "", "")
    with FaultyServer(ToyProviders(), faults=wants_key(provider)) as server:
        run(work, provider, server).ok()
        assert len(server.requests) == 20
    ours = replies(work)
    with FaultyServer(ToyProviders()) as server:
        assert run(work, openai, server).code == 0
    assert replies(work) == ours


def test_the_key_is_sent_in_its_header_and_is_nowhere_else(
    work: Workplace, provider: Provider
) -> None:
    with FaultyServer(ToyProviders(), faults=wants_key(provider)) as server:
        done = run(work, provider, server, "--use_cache", str(work.folder / "cache.sqlite")).ok()
        for seen in server.requests:
            assert KEY not in seen.path
            assert KEY.encode() not in seen.raw
            assert [name for name, value in seen.headers.items() if KEY in value] == [
                provider.header
            ]
    assert KEY not in done.out + done.err
    files = [path for path in work.folder.rglob("*") if path.is_file()]
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_a_refused_key_is_named_and_not_shown(
    work: Workplace, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "wrong-0123456789-abcdef"
    monkeypatch.setenv(provider.variable, wrong)
    with FaultyServer(ToyProviders(), faults=wants_key(provider)) as server:
        done = run(work, provider, server)
        done.refused(
            f"The key comes from the environment variable {provider.variable}.",
            f"invalid {provider.header}: ***",
        )
        assert wrong not in done.err
        assert len(server.requests) == 1


def test_an_overloaded_service_is_asked_again(work: Workplace, provider: Provider) -> None:
    busy = Fault(529, headers=(("retry-after", "0"),), message="Overloaded")
    with FaultyServer(ToyProviders(), faults=first(1, busy)) as server:
        run(work, provider, server).ok()
        assert len(server.requests) == 40


def test_a_refused_prompt_is_an_answer_without_one(work: Workplace, provider: Provider) -> None:
    """The first doc's question is refused in the provider's own way; the run goes on."""
    with FaultyServer(ToyProviders(refuses="Q0?")) as server:
        run(work, provider, server).ok()
    first_row, *others = rows(work)
    assert first_row["resps"] == [[""]]
    assert (first_row["finish"], first_row["reading"]["no_answer"]) == ("refused", "refused")
    assert {row["finish"] for row in others} == {"length"}


@pytest.mark.parametrize(
    "broken", [{}, {"content": "text"}, {"error": {"message": "odd"}}, {"candidates": [1]}, []]
)
def test_a_reply_of_another_shape_is_asked_for_again(
    work: Workplace, provider: Provider, broken: Any
) -> None:
    """With status 200, and once; then all is as usual."""
    toy, count = ToyProviders(), iter(range(10**6))

    def answer(path: str, body: Any) -> tuple[int, Any]:
        return (200, broken) if next(count) == 3 else toy(path, body)

    with FaultyServer(answer) as server:
        run(work, provider, server).ok()
        assert len(server.requests) == 21


# -- reasoning and costs ---------------------------------------------------------------------------


def accounting(work: Workplace) -> dict[str, Any]:
    [path] = work.output.rglob("results_*.json")
    total: dict[str, Any] = json.loads(path.read_text())["accounting"]["total"]
    return total


@pytest.mark.parametrize("provider", [ANTHROPIC, GEMINI], ids=str, indirect=True)
def test_reasoning_is_kept_beside_the_reply(work: Workplace, provider: Provider) -> None:
    with FaultyServer(ToyProviders()) as server:
        run(work, provider, server, thinking_budget=2048).ok()
        body = server.bodies[0]
        if provider is ANTHROPIC:
            assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
            assert body["max_tokens"] == 2048 + 8
            assert "temperature" not in body
        else:
            config = body["generationConfig"]
            assert config["thinkingConfig"] == {"thinkingBudget": 2048, "includeThoughts": True}
            assert config["maxOutputTokens"] == 2048 + 8
    for row in rows(work):
        assert THOUGHT not in row["resps"][0][0]
        assert row["reasoning"] == [THOUGHT]
    total = accounting(work)
    assert total["tokens_thought"] == 20 * len(THOUGHT)
    assert total["tokens_out"] == 20 * (len(THOUGHT) + 8)


def test_costs_count_what_the_provider_counts(work: Workplace, provider: Provider) -> None:
    """The server says how many tokens there were; what it had in its cache is part of them."""
    prices = work.write("prices.yaml", "default: {input: 1.0, output: 10.0, cached_input: 0.5}\n")
    with FaultyServer(ToyProviders()) as server:
        run(work, provider, server, "--prices", prices).ok()
        asked = [toy_tokens(seen) for seen in server.requests]
    total = accounting(work)
    assert (total["tokens_in"], total["tokens_cached"]) == (sum(asked), 2 * 20)
    assert total["tokens_out"] >= 20
    assert total["cost"] == pytest.approx(
        (sum(asked) - 40 + 40 * 0.5 + 10 * total["tokens_out"]) / 1e6
    )


def toy_tokens(seen: Seen) -> int:
    """The tokens of a request, counted from its messages."""
    model = ToyProviders().model
    body = seen.body
    if "contents" in body:
        turns = [{"role": "user", "content": c["parts"][0]["text"]} for c in body["contents"]]
    else:
        turns = body["messages"]
    return len(model.encode(model.render(turns)))


# -- addresses, payloads and wrong input -----------------------------------------------------------


@pytest.mark.parametrize("model", ["anthropic-chat", "anthropic-chat-completions", "gemini"])
def test_without_a_key_nothing_is_sent(work: Workplace, model: str) -> None:
    done = work.cli(
        *("run", "--tasks", "t@generate", "--include_path", str(work.folder)),
        *("--model", model, "--model_args", "model=toy-1"),
    )
    assert done.code == 1
    variable = "GEMINI_API_KEY" if model == "gemini" else "ANTHROPIC_API_KEY"
    assert f"the environment variable {variable} is not set" in done.err
    assert "Traceback" not in done.err


def test_azure_without_key_or_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="AZURE_OPENAI_ENDPOINT"):
        AzureOpenAIChat(model="gpt")
    with pytest.raises(ModelError, match="AZURE_OPENAI_API_KEY is not set"):
        AzureOpenAIChat(model="gpt", base_url="https://r.openai.azure.com").identity()
    model = AzureOpenAIChat(model="gpt", base_url="https://r.openai.azure.com", auth_token="t-1234")
    assert model.headers == {"Authorization": "Bearer t-1234"}


def test_headers_of_anthropic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    model = AnthropicChat(model="c")
    assert model.headers == {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
    other = AnthropicChat(
        model="c", auth_token="t-1234", header={"anthropic-version": "2", "anthropic-beta": "x"}
    )
    assert other.headers == {
        "Authorization": "Bearer t-1234",
        "anthropic-version": "2",
        "anthropic-beta": "x",
    }


@pytest.mark.parametrize(
    ("given", "version", "address"),
    [
        ("https://r.azure.com", None, "https://r.azure.com/openai/v1/chat/completions"),
        ("https://r.azure.com/openai/v1", "v", "https://r.azure.com/openai/v1/chat/completions"),
        (
            "https://r.azure.com/",
            "2024-10-21",
            "https://r.azure.com/openai/deployments/my%20gpt/chat/completions?api-version=2024-10-21",
        ),
        ("https://g/x/chat/completions?a=b", "v", "https://g/x/chat/completions?a=b"),
    ],
)
def test_addresses_of_azure(given: str, version: str | None, address: str) -> None:
    assert AzureOpenAIChat(model="my gpt", base_url=given, api_version=version).base_url == address


def test_azure_takes_its_settings_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://r.azure.com")
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-01-01")
    assert "/deployments/gpt/chat/completions?api-version=2025-01-01" in (
        AzureOpenAIChat(model="gpt").base_url
    )


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (
            None,
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:generateContent",
        ),
        ("http://h/v1beta/", "http://h/v1beta/models/gemini-x:generateContent"),
        ("http://h/v1/models/y:generateContent", "http://h/v1/models/y:generateContent"),
        ("http://h/v1beta?key=abc", "http://h/v1beta/models/gemini-x:generateContent?key=abc"),
    ],
)
def test_addresses_of_gemini(given: str | None, address: str) -> None:
    assert GeminiChat(model="models/gemini-x", base_url=given).base_url == address


CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "1?"},
    {"role": "assistant", "content": "One."},
    {"role": "user", "content": "2?"},
]


def test_what_anthropic_is_sent() -> None:
    model = AnthropicChat(model="claude", base_url="http://h/v1/messages")
    asked = {"until": ["\n\n", "Q:"], "max_gen_toks": 9, "temperature": 0.5, "top_k": 3}
    assert model._create_payload(CHAT, gen_kwargs=asked, seed=1, eos=None) == {
        "model": "claude",
        "max_tokens": 9,
        "system": "Be brief.",
        "messages": CHAT[1:],
        "stop_sequences": ["Q:"],  # white space is refused there, and cut off here
        "temperature": 0.5,
        "top_k": 3,
    }


def test_what_gemini_is_sent() -> None:
    model = GeminiChat(model="g", base_url="http://h", thinking_budget=0)
    asked = {"until": ["\n"], "max_gen_toks": 9, "temperature": 0.5, "top_p": 0.9, "seed": 7}
    seed = asked.pop("seed")
    assert model._create_payload(CHAT, gen_kwargs=asked, seed=seed, eos=None) == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "1?"}]},
            {"role": "model", "parts": [{"text": "One."}]},
            {"role": "user", "parts": [{"text": "2?"}]},
        ],
        "generationConfig": {
            "temperature": 0.5,
            "maxOutputTokens": 9,
            "seed": 7,
            "stopSequences": ["\n"],
            "topP": 0.9,
            "thinkingConfig": {"thinkingBudget": 0, "includeThoughts": False},
        },
    }


@pytest.mark.parametrize("budget", [5, -1, "much", 1.5])
def test_a_budget_that_anthropic_does_not_take(budget: Any) -> None:
    with pytest.raises(UsageError, match="thinking_budget must be a whole number from 1024 up"):
        AnthropicChat(model="claude", thinking_budget=budget)


def test_a_log_likelihood_format_is_refused(work: Workplace, provider: Provider) -> None:
    with FaultyServer(ToyProviders()) as server:
        pairs = f"model=toy-1,base_url={server.url}{provider.path}"
        work.cli(
            *("run", "--tasks", "t@mcqa", "--include_path", str(work.folder)),
            *("--model", provider.model, "--model_args", pairs),
        ).refused("t@generate")
        assert server.requests == []


@pytest.mark.parametrize("provider", [ANTHROPIC, AZURE], ids=str, indirect=True)
def test_a_model_that_takes_no_temperature_is_asked_without(
    work: Workplace, provider: Provider
) -> None:
    toy = ToyProviders()

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if "temperature" in body:
            message = "Unsupported parameter: 'temperature' is not supported with this model."
            return 400, {"error": {"message": message}}
        return toy(path, body)

    with FaultyServer(answer) as server:
        done = run(work, provider, server).ok()
        assert len(server.requests) == 21
    assert "takes no temperature, which was left out" in done.err
    assert len(rows(work)) == 20


# -- the providers' own packages, against the same server ------------------------------------------


def test_the_server_speaks_as_anthropics_package_expects() -> None:
    anthropic = pytest.importorskip("anthropic")

    # Newer releases of the package send the key as a bearer token, which the API takes as well.
    def plan(seen: Seen) -> Fault | None:
        keys = (seen.headers.get("x-api-key"), seen.headers.get("authorization"))
        return None if KEY in keys or f"Bearer {KEY}" in keys else Fault(401)

    with FaultyServer(ToyProviders(), faults=plan) as server:
        with anthropic.Anthropic(api_key=KEY, base_url=server.url, max_retries=0) as client:
            reply = client.messages.create(
                model="toy-1",
                max_tokens=8,
                system="Be brief.",
                messages=CHAT[1:],
                extra_body={
                    "temperature": 0
                },  # newer releases of the package have no such argument
            )
            thought = client.messages.create(
                model="toy-1",
                max_tokens=1100,
                messages=CHAT[1:2],
                thinking={"type": "enabled", "budget_tokens": 1024},
            )
            with pytest.raises(anthropic.BadRequestError):
                client.messages.create(
                    model="toy-1", max_tokens=8, messages=CHAT[1:2], stop_sequences=["\n"]
                )
        with (
            anthropic.Anthropic(api_key="no", base_url=server.url, max_retries=0) as client,
            pytest.raises(anthropic.AuthenticationError),
        ):
            client.messages.create(model="toy-1", max_tokens=8, messages=CHAT[1:2])
        ours = AnthropicChat(model="toy-1", base_url=f"{server.url}/v1/messages")
        sent = ours._create_payload(
            CHAT, gen_kwargs={"max_gen_toks": 8, "temperature": 0}, seed=1, eos=None
        )
        assert sent == server.bodies[0]
    [ours_reply] = ours.parse_generations(json.loads(reply.model_dump_json()))
    assert ours_reply == reply.content[0].text
    assert [part.type for part in thought.content] == ["thinking", "text"]
    assert reply.stop_reason == "max_tokens"


def test_the_server_speaks_as_googles_package_expects() -> None:
    genai = pytest.importorskip("google.genai")
    with FaultyServer(ToyProviders(), faults=wants_key(GEMINI)) as server:
        options = {"base_url": server.url, "api_version": "v1beta"}
        client = genai.Client(api_key=KEY, http_options=options)
        types = genai.types
        reply = client.models.generate_content(
            model="toy-1",
            contents=[
                types.Content(role=role, parts=[types.Part(text=text)])
                for role, text in (("user", "1?"), ("model", "One."), ("user", "2?"))
            ],
            config=types.GenerateContentConfig(
                system_instruction="Be brief.",
                temperature=0,
                max_output_tokens=1032,
                seed=1,
                thinking_config=types.ThinkingConfig(thinking_budget=1024, include_thoughts=True),
            ),
        )
        ours = GeminiChat(model="toy-1", base_url=f"{server.url}/v1beta", thinking_budget=1024)
        sent = ours._create_payload(
            CHAT, gen_kwargs={"max_gen_toks": 8, "temperature": 0}, seed=1, eos=None
        )
        theirs = server.bodies[0]
        theirs["systemInstruction"].pop("role", None)
        thinking = theirs["generationConfig"]["thinkingConfig"]  # either spelling of names is taken
        for snake, camel in (
            ("include_thoughts", "includeThoughts"),
            ("thinking_budget", "thinkingBudget"),
        ):
            if snake in thinking:
                thinking[camel] = thinking.pop(snake)
        assert sent == theirs
        assert server.requests[0].path == "/v1beta/models/toy-1:generateContent"
    texts = [part.text for part in reply.candidates[0].content.parts]
    assert texts[0] == THOUGHT
    assert reply.usage_metadata.thoughts_token_count == len(THOUGHT)


@pytest.mark.parametrize("version", ["2024-10-21", None])
def test_the_server_speaks_as_openais_package_expects(version: str | None) -> None:
    openai = pytest.importorskip("openai")
    with FaultyServer(ToyProviders(), faults=wants_key(AZURE)) as server:
        ours = AzureOpenAIChat(model="toy-1", base_url=server.url, api_version=version)
        if version:
            client = openai.AzureOpenAI(
                api_key=KEY, azure_endpoint=server.url, api_version=version, max_retries=0
            )
        else:
            client = openai.OpenAI(
                api_key="unused",
                base_url=f"{server.url}/openai/v1",
                default_headers={"api-key": KEY},
                max_retries=0,
            )
        with client:
            reply = client.chat.completions.create(
                model="toy-1", messages=CHAT, max_completion_tokens=8, temperature=0, seed=1
            )
        assert server.url + server.requests[0].path == ours.base_url
        sent = ours._create_payload(
            CHAT, generate=True, gen_kwargs={"max_gen_toks": 8, "temperature": 0}, seed=1
        )
        assert sent == server.bodies[0]
    [ours_reply] = ours.parse_generations(json.loads(reply.model_dump_json()))
    assert ours_reply == reply.choices[0].message.content
