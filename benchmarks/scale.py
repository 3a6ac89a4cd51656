"""Large runs: how much memory and CPU time they take, beside the bounds. One process for each case.

    python benchmarks/scale.py [--cases docs,mmlu,chat,resume,flood] [--docs 1000000] [--source src]

    docs     a million docs from a JSONL file under ``mcqa``, ``dummy``, without and with files
    mmlu     14,042 docs of MMLU's lengths, 5 shots, ``mcqa``, with files: the whole command
    chat     100,000 chat requests at 256 connections: CPU time a request, and a plain client beside it
    resume   a run over HTTP with 100,000 answers that was killed: CPU seconds to its first new request
    flood    replies of 100 MB in chunks, on 32 connections at a time

The exit code is 0 whatever the figures: a busy machine slows everything down.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from http_engine import Connected, bodies, measure, plain
from workload import write_workload

HERE = Path(__file__).resolve().parent
_TICKS = os.sysconf("SC_CLK_TCK")
_CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"


@dataclass(frozen=True)
class Figure:
    """One line of the table."""

    case: str
    value: float
    unit: str
    bound: float | None = None

    def __str__(self) -> str:
        bound = "" if self.bound is None else f"≤ {self.bound:g}"
        verdict = "" if self.bound is None else "ok" if self.value <= self.bound else "OVER"
        return f"{self.case:<58} {self.value:>9.3f} {self.unit:<6} {bound:<7} {verdict}"


# The server


class Patient(Connected):
    """Answers until it was asked ``limit`` times, then takes requests and says nothing."""

    asked = 0
    limit = sys.maxsize
    first: Callable[[], None] | None = None

    def data_received(self, data: bytes) -> None:
        if Patient.first is not None:
            Patient.first()
            Patient.first = None
        super().data_received(data)

    def _answer(self) -> None:
        Patient.asked += 1
        if Patient.asked <= Patient.limit:
            super()._answer()


class Flood(Connected):
    """Answers every request with 100 MB in chunks."""

    def _answer(self) -> None:
        self._loop.create_task(self._pour())

    async def _pour(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked"
        self._transport.write(head + b"\r\n\r\n")
        for _ in range(1600):
            if self._transport.is_closing():
                return
            self._transport.write(_CHUNK)
            while self._transport.get_write_buffer_size() > 2**20:
                await asyncio.sleep(0.001)


def serve(protocol: type[Connected], pipe: Connection) -> None:
    """Tell the port, then take orders: a limit to set, or None to be told of the next request."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(protocol, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])

        def order() -> None:
            limit = pipe.recv()
            if limit is None:
                Patient.first = lambda: pipe.send(time.monotonic())
            else:
                Patient.asked, Patient.limit = 0, limit

        loop.add_reader(pipe.fileno(), order)
        await server.serve_forever()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())


@contextlib.contextmanager
def server(protocol: type[Connected]) -> Iterator[tuple[str, Connection]]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(protocol, theirs), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/v1/chat/completions", ours
    finally:
        process.terminate()
        process.join()


# Running the program


@dataclass(frozen=True)
class Program:
    """``lm-eval`` of one source tree, in a folder of its own."""

    source: Path
    folder: Path

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        own = {"PYTHONPATH": str(self.source), "PYTHONPYCACHEPREFIX": str(self.folder / "pyc")}
        own |= {"XDG_CACHE_HOME": str(self.folder / "cache"), "OPENAI_API_KEY": "none"}
        environment = {**os.environ, **own}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return subprocess.Popen(
            [sys.executable, "-m", "lm_eval", *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "errors.txt").open("wb"),
        )

    def run(self, *arguments: str, may_fail: bool = False) -> tuple[float, float]:
        """CPU seconds and peak MB of a whole run."""
        process = self.start("run", *arguments)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode and not may_fail:
            raise SystemExit((self.folder / "errors.txt").read_text("utf-8")[-2000:])
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024

    def task(self, name: str, docs: int, **keys: Any) -> None:
        rng = random.Random(1)
        words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(4000)]
        with (self.folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(docs):
                question = f"{' '.join(rng.choices(words, k=12))} {number}?"
                choices = [" ".join(rng.choices(words, k=3)) for _ in range(4)]
                row = {"question": question, "choices": choices, "answer": rng.randrange(4)}
                file.write(json.dumps(row) + "\n")
        content = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(self.folder / f"{name}.jsonl")}},
            "test_split": "test",
            **{"doc_to_text": "question", "doc_to_choice": "choices", "doc_to_target": "answer"},
        }
        (self.folder / f"{name}.yaml").write_text(json.dumps({**content, **keys}))


def cpu_s(pid: int) -> float:
    """The CPU seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def over_http(task: str, url: str, connections: int, *more: str) -> list[str]:
    return [
        *("--model", "local-chat-completions", "--tasks", task, "--include_path", "."),
        *("--model_args", f"model=m,base_url={url},num_concurrent={connections}", *more),
    ]


# The cases


def docs_case(program: Program, docs: int) -> Iterator[Figure]:
    program.task("many", docs)
    asked = ["--model", "dummy", "--include_path", ".", "--tasks", "many@mcqa"]
    for name, more in (("", []), (", with files", ["--output_path", "out", "--log_samples"])):
        seconds, peak = program.run(*asked, *more)
        yield Figure(f"{docs:,} docs @mcqa, dummy{name}: memory", peak, "MB", 400)
        yield Figure("  its CPU time", seconds, "s")


def mmlu_case(program: Program, _: int) -> Iterator[Figure]:
    write_workload(program.folder, 14_042)
    asked = ["--model", "dummy", "--include_path", "tasks", "--tasks", "bench_fields@mcqa"]
    program.run(*asked, "--limit", "10")  # byte code
    more = ["--num_fewshot", "5", "--output_path", "out", "--log_samples"]
    seconds, peak = min(program.run(*asked, *more) for _ in range(3))
    yield Figure("14,042 docs @mcqa, 5 shots, with files: CPU time", seconds, "s", 4)
    yield Figure("  its memory", peak, "MB", 200)


PLAIN = {
    "doc_to_choice": None,
    "output_type": "generate_until",
    "generation_kwargs": {"max_gen_toks": 64, "until": []},
    "metric_list": [{"metric": "exact_match"}],
}
"""A task whose replies are compared as they are, so that reading them costs next to nothing."""


def chat_case(program: Program, docs: int) -> Iterator[Figure]:
    count = docs // 10
    program.task("asked", count, **PLAIN)
    with server(Patient) as (url, _):
        sent = bodies(min(count, 10_000))
        bare = measure(plain, url, sent, 256).cpu_s / len(sent) * 1000
        seconds, peak = program.run(*over_http("asked", url, 256))
        bare = min(bare, measure(plain, url, sent, 256).cpu_s / len(sent) * 1000)
    yield Figure(f"{count:,} chats, 256 connections: memory", peak, "MB", 120)
    yield Figure("  CPU time a request", seconds / count * 1000, "ms", 0.25)
    yield Figure("  a plain client", bare, "ms")


def resume_case(program: Program, docs: int) -> Iterator[Figure]:
    kept = docs // 10
    program.task("asked", kept + 1000)
    with server(Patient) as (url, pipe):
        pipe.send(kept)
        command = ["run", *over_http("asked@generate", url, 256, "--output_path", "kept")]
        process = program.start(*command)
        while not list(program.folder.glob("kept/**/.unfinished-*.sqlite")):
            time.sleep(0.1)
        before = -1.0
        while cpu_s(process.pid) - before > 0.2 or before < 5:  # until it only waits
            before = cpu_s(process.pid)
            time.sleep(2)
        process.send_signal(signal.SIGKILL)
        process.wait()
        pipe.send(sys.maxsize)
        pipe.send(None)
        process = program.start(*command)
        pipe.recv()
        seconds = cpu_s(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    yield Figure(f"{kept:,} kept answers: CPU time to the first request", seconds, "s", 4)
    yield Figure("  to the end", usage.ru_utime + usage.ru_stime, "s")
    yield Figure("  memory", usage.ru_maxrss / 1024, "MB")


def flood_case(program: Program, _: int) -> Iterator[Figure]:
    program.task("asked", 32)
    with server(Flood) as (url, _pipe):
        asked = over_http("asked@generate", f"{url},max_retries=0", 32, "--max_failed", "100%")
        _, peak = program.run(*asked, may_fail=True)
    yield Figure("replies of 100 MB on 32 connections: memory", peak, "MB", 400)


CASES = {
    "docs": docs_case,
    "mmlu": mmlu_case,
    "chat": chat_case,
    "resume": resume_case,
    "flood": flood_case,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", default=",".join(CASES), help="which, separated by commas")
    parser.add_argument("--docs", type=int, default=1_000_000, help="docs of the largest case")
    parser.add_argument("--source", type=Path, default=HERE.parent / "src", help="what is measured")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}")
    for name in args.cases.split(","):
        with tempfile.TemporaryDirectory(prefix="lm_eval_scale_") as folder:
            program = Program(args.source.resolve(), Path(folder))
            for figure in CASES[name](program, args.docs):
                print(figure, flush=True)


if __name__ == "__main__":
    main()
