"""A judge that is killed again and again asks nothing twice that it had a reply to."""

from __future__ import annotations

import math
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.support.command_line import python_started
from tests.support.nuggets.toy_judge import Question, ToyJudge, plain
from tests.support.nuggets.workplace import DATA, Workplace
from tests.support.servers.faulty import FaultyServer

pytest.importorskip("aiohttp")
AT_ONCE = 4
KEY = "canary-1234567890-judge"


def often_unreadable(question: Question) -> str:
    """Every third topic needs to be asked again, nugget by nugget in the end."""
    number = int(question.data.query.rpartition("t")[2])
    if number % 3 == 0 and len(question.data.nuggets) > 1:
        return "I am not sure."
    return plain(question)


def start(work: Workplace, url: str) -> subprocess.Popen[str]:
    model = work.model(url)
    return python_started(
        "-m",
        "nugget_eval",
        "run",
        *DATA,
        *model,
        "--batch_size",
        "2",
        cwd=work.folder,
        stdout=subprocess.DEVNULL,
        OPENAI_API_KEY=KEY,
    )


def files(work: Workplace) -> dict[str, bytes]:
    names = ("assignments.jsonl", "metrics.jsonl", "replies.jsonl")
    return {name: (work.folder / "out" / name).read_bytes() for name in names}


def test_killed_five_times(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    moments = random.Random(seed)
    work = Workplace(tmp_path)
    work.topics(
        {
            f"t{k}": (f"Fact {k} is known. Light is fast.", [f"Fact {k} is known", "Light is fast"])
            for k in range(60)
        }
    )
    with FaultyServer(ToyJudge(often_unreadable), latency_s=(0.001, 0.01)) as server:
        process = start(work, server.url)
        said = process.communicate(timeout=240)[1]
        assert process.returncode == 0, said
        undisturbed = files(work)
        asked = Counter(seen.raw for seen in server.requests)
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    with FaultyServer(ToyJudge(often_unreadable), latency_s=(0.001, 0.01)) as server:
        for _ in range(5):
            # From two requests on the first has its answer.
            server.until = len(server.requests) + moments.randint(2, 25)
            process = start(work, server.url)
            while process.poll() is None and len(server.requests) < server.until:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            said = process.communicate(timeout=240)[1]
            assert process.returncode == -signal.SIGKILL, (seed, said)
        server.until = math.inf
        process = start(work, server.url)
        said = process.communicate(timeout=240)[1]
        assert process.returncode == 0, (seed, said)
        sent = Counter(seen.raw for seen in server.requests)
    assert "resuming: " in said
    assert files(work) == undisturbed, seed
    assert set(sent) == set(asked)
    # A kill loses what is in flight and what was just answered: its place is free before it is on disk.
    assert sent.total() <= asked.total() + 5 * 2 * AT_ONCE, seed
    assert not list((tmp_path / "out").glob(".unfinished*"))
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    assert KEY.encode() not in written
