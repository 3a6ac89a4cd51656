"""A run over HTTP that is killed again and again sends nothing twice that it had an answer to."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Workplace
from tests.support.paths import SOURCE
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
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=place.folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OPENAI_API_KEY": KEY},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


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
