"""``--batch_api``: batches of both providers, collected whatever happens to the run in between."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lm_eval.models.batches.protocols import AnthropicBatches, OpenAIBatches
from lm_eval.models.batches.stream import use_batches
from tests.support.command_line import Outcome, Workplace, python_started
from tests.support.paths import SOURCE
from tests.support.servers.batch_server import BatchServer

DOCS = 6
PROVIDERS = ("openai", "anthropic")
KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


def arguments(provider: str, url: str, *more: str) -> list[str]:
    """A run of six docs through batches, looked at as often as can be."""
    model, path = {
        "openai": ("openai-chat-completions", "/v1/chat/completions"),
        "anthropic": ("anthropic-chat", "/v1/messages"),
    }[provider]
    return [
        *("run", "--model", model, "--model_args", f"model=m,base_url={url}{path},max_retries=2"),
        *("--tasks", "demo_mcq@generate", "--limit", str(DOCS), "--batch_api", "0.02", *more),
    ]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    for variable in KEYS.values():
        monkeypatch.setenv(variable, "sk-secret-of-tests")
    return Workplace(tmp_path)


def run(work: Workplace, provider: str, server: BatchServer, *more: str) -> Outcome:
    return work.cli(*arguments(provider, server.url, "--output_path", str(work.output), *more))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_run_is_one_batch(work: Workplace, provider: str) -> None:
    with BatchServer(looks=3, key="sk-secret-of-tests") as server:
        done = run(work, provider, server).ok()
    assert (len(server.batches), server.direct) == (1, 0)
    assert len(server.asked) == DOCS
    assert "6 requests submitted" in done.err
    assert "0 of 6 answered (in_progress), 1 batch pending" in done.err
    rows = work.samples("demo_mcq@generate")
    assert [row["resps"] for row in rows] == [[["A"]]] * DOCS
    assert not list(work.output.rglob(".unfinished*"))
    assert "sk-secret" not in done.err + done.out


@pytest.mark.parametrize("provider", PROVIDERS)
def test_lines_that_expired_failed_or_got_lost_are_asked_again(
    work: Workplace, provider: str
) -> None:
    fates: dict[str, str] = {}

    def fate(custom_id: str, body: Any, times: int) -> str:
        kinds = ("ok", "expired", "error", "lost")
        return fates.setdefault(custom_id, kinds[len(fates) % 4]) if times == 1 else "ok"

    with BatchServer(fate=fate) as server:
        done = run(work, provider, server).ok()
    assert sorted(fates.values()) == ["error", "expired", "expired", "lost", "ok", "ok"]
    assert {custom_id: 1 if fates[custom_id] == "ok" else 2 for custom_id in fates} == server.asked
    assert "asking again for 4 lines that expired or failed" in done.err
    assert len(work.samples("demo_mcq@generate")) == DOCS


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_line_that_is_wrong_is_not_asked_again(work: Workplace, provider: str) -> None:
    bad: list[str] = []

    def fate(custom_id: str, body: Any, times: int) -> str:
        if not bad:
            bad.append(custom_id)
        return "invalid" if custom_id in bad else "ok"

    with BatchServer(fate=fate) as server:
        run(work, provider, server).refused(
            "A line of a batch failed: line invalid", "--max_failed"
        )
        run(work, provider, server, "--max_failed", "1").ok()
    assert set(server.asked.values()) == {1}  # the same batch is collected once more


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_line_that_never_works_is_given_up(work: Workplace, provider: str) -> None:
    with BatchServer(fate=lambda custom_id, body, times: "error") as server:
        run(work, provider, server).refused("A line of a batch failed: line error")
    assert set(server.asked.values()) == {3}  # max_retries=2


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_whose_id_never_arrived_is_found_and_not_begun_twice(
    work: Workplace, provider: str
) -> None:
    with BatchServer(drops=True) as server:
        run(work, provider, server).ok()
    assert len(server.batches) == 1
    assert set(server.asked.values()) == {1}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refused_batch_is_one_message(work: Workplace, provider: str) -> None:
    with BatchServer(refuses="The model `m` does not exist.") as server:
        run(work, provider, server).refused("The model `m` does not exist")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("moment", ["submitted", "answered (in_progress)"])
def test_a_killed_run_collects_its_batch(work: Workplace, provider: str, moment: str) -> None:
    with BatchServer(looks=10**9) as server:
        process = started(work, provider, server)
        assert process.stderr is not None
        assert any(moment in line for line in process.stderr)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stderr.close()
        server.looks = 0  # by now it is over
        done = run(work, provider, server).ok()
    assert "collecting 1 batch of an earlier run" in done.err
    assert len(server.batches) == 1
    assert set(server.asked.values()) == {1}
    assert len(work.samples("demo_mcq@generate")) == DOCS


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_run_that_died_before_it_heard_the_id_finds_it(
    work: Workplace, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = OpenAIBatches if provider == "openai" else AnthropicBatches
    create = kind.create

    def dies(self: Any, lines: Any, uploaded: str) -> str:
        create(self, lines, uploaded)
        raise KeyboardInterrupt

    with BatchServer() as server:
        with monkeypatch.context() as patch:
            patch.setattr(kind, "create", dies)
            stopped = run(work, provider, server)
        assert stopped.code != 0
        assert "1 batch is under way: the same command collects" in stopped.err
        run(work, provider, server).ok()
    assert len(server.batches) == 1
    assert set(server.asked.values()) == {1}


def others(server: BatchServer, count: int = 3) -> list[str]:
    """Batches of the same size that somebody else begins now; two hold the very same requests."""
    made = []
    for number in range(count):
        lines = [(f"other{number}{place}-theirs", {}) for place in range(DOCS)]
        if number and server.batches:
            first = next(iter(server.batches.values()))
            lines = [(f"{cid.partition('-')[0]}-theirs{number}", body) for cid, body in first.lines]
        made.append(server.begin(lines).id)
    return made


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_run_killed_before_it_heard_the_id_finds_its_batch_among_others(
    work: Workplace, provider: str
) -> None:
    """Between the creation of a batch and the reply that tells its id."""
    with BatchServer(stalls=True, looks=10**9, most_listed=2) as server:
        with started(work, provider, server) as process:
            assert server.begun.wait(60)
            process.kill()
        server.go_on.set()
        server.stalls = False
        (own,) = server.batches
        handed_in = dict(server.asked)
        theirs = others(server)
        server.looks = 3  # Anthropic's are still under way when they are found
        done = run(work, provider, server)
        assert list(server.batches) == [own, *theirs], "nothing was handed in again"
    assert done.code == 0, done.err
    assert set(handed_in.values()) == {1}
    assert "collecting 1 batch of an earlier run" in done.err
    if provider == "anthropic":
        assert "4 batches of this size under way" in done.err
    assert f"batch {own}: 6 of 6 answered" in done.err
    assert not any(f"batch {name}:" in done.err for name in theirs)
    assert [row["resps"] for row in work.samples("demo_mcq@generate")] == [[["A"]]] * DOCS


def test_a_batch_that_was_never_begun_is_begun_once_no_other_can_be_it(work: Workplace) -> None:
    """The run died before its request arrived, and others have batches of that size under way."""
    with BatchServer(looks=3) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AnthropicBatches, "create", interrupted)
            assert run(work, "anthropic", server).code != 0
        theirs = others(server)
        done = run(work, "anthropic", server)
        own = [name for name in server.batches if name not in theirs]
    assert done.code == 0, done.err
    assert "3 batches of this size under way" in done.err
    assert "a batch of 6 requests was never started" in done.err
    assert len(own) == 1
    assert len(work.samples("demo_mcq@generate")) == DOCS


def interrupted(*_: Any) -> str:
    raise KeyboardInterrupt


def started(work: Workplace, provider: str, server: BatchServer) -> subprocess.Popen[str]:
    """The run in a process of its own."""
    argv = arguments(provider, server.url, "--output_path", str(work.output))
    return python_started("-m", "lm_eval", *argv, cwd=work.folder, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_limits_make_several_batches(
    work: Workplace, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = OpenAIBatches if provider == "openai" else AnthropicBatches
    monkeypatch.setattr(kind, "most_lines", 4)
    with BatchServer() as server:
        assert run(work, provider, server).code == 0
    assert sorted(len(batch.lines) for batch in server.batches.values()) == [2, 4]
    monkeypatch.setattr(kind, "most_bytes", 1500)
    with BatchServer() as server:
        assert run(work, provider, server).code == 0
    assert len(server.batches) > 2


def test_the_limits_are_those_of_the_providers() -> None:
    assert (OpenAIBatches.most_lines, OpenAIBatches.most_bytes) == (50_000, 200_000_000)
    assert (AnthropicBatches.most_lines, AnthropicBatches.most_bytes) == (100_000, 256_000_000)


def test_costs_are_half(work: Workplace) -> None:
    work.write("prices.yaml", "default: {input: 1000, output: 10000}\n")
    with BatchServer() as server:
        run(work, "openai", server, "--prices", str(work.folder / "prices.yaml")).ok()
    prices = work.results()["accounting"]["prices"]
    assert prices["per_million_tokens"] == {"input": 500.0, "output": 5000.0, "cached_input": 500.0}
    usage = work.results()["accounting"]["total"]
    assert (usage["tokens_in"], usage["tokens_out"], usage["requests"]) == (60, 12, 6)


def test_a_shared_cache_remembers_batches_too(work: Workplace) -> None:
    cache = str(work.folder / "answers.sqlite")
    with BatchServer() as server:
        assert run(work, "openai", server, "--use_cache", cache).code == 0
        assert run(work, "openai", server, "--use_cache", cache).code == 0
    assert len(server.batches) == 1


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--model", "dummy", "--tasks", "demo_mcq@generate"], "DummyLM has no batches"),
        (
            ["--model", "local-completions", "--tasks", "demo_mcq@mcqa", "--model_args",
             "model=m,base_url=http://127.0.0.1:9/v1/completions,tokenizer_backend=tiktoken"],
            "scores log-likelihoods, and batches generate text",
        ),
        (["--tasks", "demo_mcq@generate", "--batch_api", "soon"], "give a number of seconds above 0"),
        (["--tasks", "demo_mcq@generate", "--batch_api", "-1"], "--batch_api"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_message(work: Workplace, argv: list[str], words: str) -> None:
    work.cli(
        "run", "--limit", "2", *([] if "--batch_api" in argv else ["--batch_api"]), *argv
    ).refused(words)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_missing_or_wrong_key_is_told(
    work: Workplace, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BatchServer(key="sk-another") as server:
        wrong = run(work, provider, server)
    wrong.refused("Incorrect API key", KEYS[provider])
    assert "sk-secret" not in wrong.err
    monkeypatch.delenv(KEYS[provider])
    model = {"openai": "openai-chat-completions", "anthropic": "anthropic-chat"}[provider]
    work.cli(
        *("run", "--model", model, "--model_args", "model=m", "--tasks", "demo_mcq@generate"),
        *("--batch_api", "--limit", "2"),
    ).refused(f"{KEYS[provider]} is not set")


def test_two_phases_do_not_fit_a_batch(work: Workplace) -> None:
    from lm_eval.formats.assemble import Chat, Message
    from lm_eval.formats.grammar import Grammar, Hole
    from lm_eval.models.openai_completions import OpenAIChatCompletion
    from lm_eval.requests import GenerateRequest

    with BatchServer() as server:
        model = OpenAIChatCompletion(model="m", base_url=f"{server.url}/v1/chat/completions")
        held = Grammar((" ", Hole(choices=("A",))), "The best answer is")
        request = GenerateRequest("t", 0, 0, Chat((Message("user", "?"),)), {}, grammar=held)
        use_batches(model, key_of=lambda request: b"k", notes=_NoNotes(), look_s=0.01)
        with pytest.raises(Exception, match="needs two requests, and a batch has one"):
            list(model.stream([request]))
        model.close()


class _NoNotes:
    def notes(self) -> dict[str, str]:
        return {}

    def note(self, name: str, value: str | None) -> None:
        pass


def test_openais_own_client_understands_the_server() -> None:
    openai = pytest.importorskip("openai")
    with BatchServer(looks=2) as server:
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
        body = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
        line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
        made = client.files.create(
            file=("requests.jsonl", io.BytesIO(json.dumps(line).encode() + b"\n")), purpose="batch"
        )
        batch = client.batches.create(
            input_file_id=made.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        states = [client.batches.retrieve(batch.id).status for _ in range(2)]
        over = client.batches.retrieve(batch.id)
        assert states == ["in_progress", "completed"]
        assert [one.id for one in client.batches.list()] == [batch.id]
        assert over.output_file_id is not None
        (row,) = map(json.loads, client.files.content(over.output_file_id).text.splitlines())
    assert row["response"]["body"]["choices"][0]["message"]["content"] == "A"


def test_anthropics_own_client_understands_the_server() -> None:
    anthropic = pytest.importorskip("anthropic")
    with BatchServer(looks=2) as server:
        client = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)
        params = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "?"}]}
        batch = client.messages.batches.create(requests=[{"custom_id": "a", "params": params}])
        states = [client.messages.batches.retrieve(batch.id).processing_status for _ in range(2)]
        assert states == ["in_progress", "ended"]
        (row,) = client.messages.batches.results(batch.id)
    assert row.result.message.content[0].text == "A"


def test_our_batches_are_read_back_by_the_providers_clients(work: Workplace) -> None:
    """What we hand in is what the clients find there."""
    openai = pytest.importorskip("openai")
    with BatchServer() as server:
        assert run(work, "openai", server).code == 0
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
        (batch,) = client.batches.list()
        rows = client.files.content(batch.input_file_id).text.splitlines()
    assert len(rows) == DOCS
    for row in map(json.loads, rows):
        assert set(row) == {"custom_id", "method", "url", "body"}
        assert row["body"]["messages"][0]["role"] == "user"
        assert re.fullmatch(r"[0-9a-f]{32}-[0-9a-f]{16}", row["custom_id"])  # at most 64
    assert time.time() - batch.created_at < 600


ODD = (b"<html>Bad gateway</html>", b"", [], "wait", {}, {"status": 7, "processing_status": [1]})
ODD_RESULTS = (b"<html>Bad gateway</html>", b"[1]\n", b'{"custom_id": [1], "response": "x"}\n')


@pytest.mark.parametrize("provider", PROVIDERS)
def test_odd_replies_with_status_200_are_asked_for_again(work: Workplace, provider: str) -> None:
    results = {"openai": "/content", "anthropic": "/results"}[provider]
    begun = {"openai": "/v1/batches", "anthropic": "/messages/batches"}[provider]
    counts = {"total": "all", "completed": None, "failed": [], "processing": "many"}
    under_way = {"id": "batch_1", "status": "in_progress", "processing_status": "in_progress"}
    with BatchServer(looks=9) as server:
        server.odd = [("/batch_1", reply) for reply in ODD[:2]]
        server.odd += [("/batch_1", {**under_way, "request_counts": counts})]
        server.odd += [(begun, ODD[0]), (results, ODD_RESULTS[0]), ("/files", ODD[3])]
        run(work, provider, server).ok()
        assert {end for end, _ in server.odd} <= {"/files"}
    assert len(server.batches) == 1
    assert [row["resps"] for row in work.samples("demo_mcq@generate")] == [[["A"]]] * DOCS


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("reply", ODD)
def test_odd_replies_without_end_are_one_message(
    work: Workplace, provider: str, reply: Any
) -> None:
    with BatchServer(looks=9) as server:
        server.odd = [("/batch_1", reply)] * 20
        done = run(work, provider, server)
        assert (done.code, done.err.count("error: ")) == (1, 1)
        assert "1 batch is under way: the same command collects them." in done.err
        server.odd = []
        assert run(work, provider, server).code == 0
        assert len(server.batches) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("results", ODD_RESULTS)
def test_odd_results_are_asked_for_again(work: Workplace, provider: str, results: bytes) -> None:
    with BatchServer() as server:
        end = {"openai": "/content", "anthropic": "/results"}[provider]
        server.odd = [(end, results)]
        run(work, provider, server).ok()
    assert [row["resps"] for row in work.samples("demo_mcq@generate")] == [[["A"]]] * DOCS


def test_a_second_run_at_once_is_told_that_both_are_paid(work: Workplace) -> None:
    output = ("--output_path", str(work.output))
    with BatchServer(stalls=True) as server:
        first = subprocess.Popen(
            [sys.executable, "-m", "lm_eval", *arguments("openai", server.url, *output)],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stderr=subprocess.DEVNULL,
        )
        try:
            assert server.begun.wait(60)
            server.stalls = False
            second = run(work, "openai", server)
        finally:
            first.kill()
            first.wait()
            server.go_on.set()
    assert second.code == 0, second.err
    assert "Another run of the same command is under way" in second.err
