"""A run over HTTP that is killed again and again sends nothing twice that it had an answer to."""

from __future__ import annotations

import json
import math
import random
import signal
import subprocess
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Workplace, python_started
from tests.support.servers.faulty import Fault, FaultyServer, some

pytest.importorskip("aiohttp")

DOCS = 120
AT_ONCE = 8
KEY = "canary-9876543210-canary"


def reply(path: str, body: Any) -> tuple[int, Any]:
    """An answer that follows from the question."""
    number = zlib.crc32(json.dumps(body["messages"]).encode())
    text = f"The final answer is {'wxyz'[number % 4]}"
    choice = {"index": 0, "message": {"content": text}, "finish_reason": "stop"}
    return 200, {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 5}}


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    made = Workplace(tmp_path)
    made.rows(count=DOCS)
    made.task()
    made.task("plain.yaml", task="plain", formats=..., output_type="generate_until")
    return made


def start(place: Workplace, url: str) -> subprocess.Popen[str]:
    arguments = f"model=m,base_url={url}/v1/chat/completions,num_concurrent={AT_ONCE}"
    command = [
        "-m",
        "lm_eval",
        "run",
        "--model",
        "local-chat-completions",
        "--model_args",
        arguments,
    ]
    command += ["--tasks", "t.yaml@cot", "plain.yaml", "--output_path", str(place.output)]
    return python_started(*command, cwd=place.folder, stdout=subprocess.DEVNULL, OPENAI_API_KEY=KEY)


def samples(place: Workplace) -> dict[str, bytes]:
    found = place.output.rglob("samples_*.jsonl*")
    return {path.name.split("_20")[0]: path.read_bytes() for path in sorted(found)}


def test_a_run_over_http_killed_six_times(place: Workplace, tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    moments = random.Random(seed)
    with FaultyServer(reply, latency_s=(0.001, 0.01)) as server:
        process = start(place, server.url)
        said = process.communicate(timeout=240)[1]
        assert process.returncode == 0, said
        undisturbed, results = samples(place), place.results()["results"]
        asked = Counter(seen.raw for seen in server.requests)
        assert asked.total() == 2 * DOCS
    for path in place.output.rglob("*_20*"):
        path.unlink()
    faults = some(0.1, [Fault(500), Fault("reset"), Fault("truncated")], seed=seed)
    with FaultyServer(reply, latency_s=(0.001, 0.01), faults=faults) as server:
        for _ in range(6):
            # From three requests on the first has its answer, whatever fault it met.
            server.until = len(server.requests) + moments.randint(3, 20)
            process = start(place, server.url)
            while process.poll() is None and len(server.requests) < server.until:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            said = process.communicate(timeout=240)[1]
            assert process.returncode == -signal.SIGKILL, (seed, said)
        server.until = math.inf
        process = start(place, server.url)
        said = process.communicate(timeout=240)[1]
        assert process.returncode == 0, (seed, said)
        good = Counter(seen.raw for seen in server.requests if faults(seen) is None)
        sent = good.total()
    assert "lm-eval: resuming: " in said
    assert f" of {2 * DOCS} answered" in said
    assert samples(place) == undisturbed, seed
    assert place.results()["results"] == results, seed
    assert set(good) == set(asked)
    assert sent <= 2 * DOCS + 6 * AT_ONCE, seed
    assert not list(place.output.rglob(".unfinished*"))
    assert not list(place.output.rglob("*.partial"))
    assert KEY not in "".join(path.read_text("utf-8") for path in place.output.rglob("*.json*"))


# Whose answers are kept

TWO_MODELS = [
    ("base_url={url}?deployment=a", "base_url={url}?deployment=b"),
    ("base_url={url_with_user}", "base_url={url}"),
    ('base_url={url},header={{"x-route": "a"}}', 'base_url={url},header={{"x-route": "b"}}'),
    ('base_url={url},header={{"x-route": "a"}}', "base_url={url}"),
]
"""Arguments of models that a query or a header may route to different weights."""


class Asked:
    """Runs of one small task against one server, which counts its requests."""

    def __init__(self, folder: Path, *, stops_at: int | None = None) -> None:
        self.work = Workplace(folder)
        self.work.rows(count=6)
        self.work.task()
        self.requests = 0
        self._stops_at = stops_at

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        self.requests += 1
        if self.requests == self._stops_at:
            return 400, {"error": {"message": "enough"}}
        return reply(path, body)

    def run(self, server: FaultyServer, model_args: str, *more: str) -> tuple[int, int]:
        """The exit code, and how many requests were sent."""
        url = f"{server.url}/v1/chat/completions"
        named = model_args.format(url=url, url_with_user=url.replace("://", "://user:pass@"))
        before = self.requests
        done = self.work.run(
            *("--tasks", "t.yaml@cot", "--model_args", f"model=m,{named}", *more),
            model="local-chat-completions",
        )
        return done.code, self.requests - before


@pytest.mark.parametrize(("one_model", "another"), TWO_MODELS)
def test_a_cache_keeps_the_answers_of_routed_models_apart(
    tmp_path: Path, one_model: str, another: str
) -> None:
    asked = Asked(tmp_path)
    cache = ("--use_cache", str(tmp_path / "kept.sqlite"))
    with FaultyServer(asked.answer) as server:
        runs = [
            asked.run(server, args, *cache) for args in (one_model, another, one_model, another)
        ]
    assert runs == [(0, 6), (0, 6), (0, 0), (0, 0)]


@pytest.mark.parametrize(("one_model", "another"), TWO_MODELS)
def test_a_run_does_not_go_on_with_the_answers_of_another_routed_model(
    tmp_path: Path, one_model: str, another: str
) -> None:
    asked = Asked(tmp_path, stops_at=4)
    with FaultyServer(asked.answer) as server:
        runs = [asked.run(server, args) for args in (one_model, another, one_model)]
    assert runs == [(1, 4), (0, 6), (0, 3)]


def test_a_new_key_is_not_another_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(tmp_path, stops_at=4)
    with FaultyServer(asked.answer) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "first-key-of-this-user")
        stopped = asked.run(server, "base_url={url}")
        monkeypatch.setenv("OPENAI_API_KEY", "second-key-of-this-user")
        assert (stopped, asked.run(server, "base_url={url}")) == ((1, 4), (0, 3))


# Scoring beside asking


def test_a_resumed_run_asks_before_it_scores_what_it_has(tmp_path: Path) -> None:
    """What is missing is on its way before the first of the kept answers is scored."""
    scored: list[int] = []

    class Watched(Asked):
        def scored(self) -> int:
            parts = self.work.output.rglob("samples_*.partial")
            return sum(len(part.read_text("utf-8").splitlines()) for part in parts)

        def answer(self, path: str, body: Any) -> tuple[int, Any]:
            scored.append(self.scored())
            return super().answer(path, body)

    asked = Watched(tmp_path, stops_at=4)
    with FaultyServer(asked.answer) as server:
        assert asked.run(server, "base_url={url}") == (1, 4)
        scored[:] = [asked.scored()]
        assert asked.run(server, "base_url={url}") == (0, 3)
    assert scored[0] == scored[1]
    samples = asked.work.samples("t@cot")
    assert [sample["doc_id"] for sample in samples] == list(range(6))


SCORED_AFTER: list[int] = []
"""How many requests the server had when each doc was scored; ``slow`` of the helper file adds to it."""
SERVED: list[FaultyServer] = []

SLOW = """
import time
from tests.integration.test_resume_http import SCORED_AFTER, SERVED

def slow(**_):
    time.sleep(0.02)
    SCORED_AFTER.append(len(SERVED[0].requests))
    return 1.0
"""


def test_a_slow_metric_does_not_keep_requests_back(place: Workplace) -> None:
    """Connections get their next requests before docs are scored, not one for each doc scored."""
    SCORED_AFTER.clear()
    place.rows(count=40)
    place.write("helpers.py", SLOW)
    task = json.loads(Path(place.task("slow.yaml", task="slow")).read_text("utf-8"))
    metric = "metric_list:\n  - metric: !function helpers.slow\n    aggregation: mean\n"
    content = "".join(f"{key}: {json.dumps(value)}\n" for key, value in task.items())
    place.write("slow.yaml", f"{content}{metric}    higher_is_better: true\n")
    with FaultyServer(reply) as server:
        SERVED[:] = [server]
        url = f"base_url={server.url}/v1/chat/completions"
        place.run(
            *("--tasks", "slow.yaml@cot"),
            *("--model_args", f"model=m,{url},num_concurrent={AT_ONCE}"),
            model="local-chat-completions",
        ).ok()
    assert len(SCORED_AFTER) == 40
    assert SCORED_AFTER[28] == 40
