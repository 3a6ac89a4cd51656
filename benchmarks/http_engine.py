"""The HTTP engine beside a plain aiohttp client that sends the same bodies.

Both talk to a small server in a process of its own that answers each request after 20 ms, so both have
the same ceiling. Each pair of figures comes from turns taken one after the other, and of several pairs
the median ratio counts: a busy machine slows both. Printed are, for 32 and 128 connections,

    throughput   requests per second of the engine, relative to the plain client (bound: at least 0.9)
    CPU          CPU seconds per request, relative to the plain client (bound: at most 2)

and for two such servers in one run (8 connections to each, so that the servers are the limit)

    two servers  requests per second, relative to one of them (bound: at least 1.8)

and, for the whole program (``--whole``), a run of ``lm-eval run`` on 2,000 chat docs at 32 and 128
connections, start-up included, relative to the plain client's time for as many requests (bound: at
least 0.5).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

LATENCY_S = 0.02
REPLY = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "The final answer is (B). " * 8},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 150, "completion_tokens": 48, "total_tokens": 198},
    }
).encode()
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer none"}


# -- the server ----------------------------------------------------------------------------------


class Connected(asyncio.Protocol):
    """One connection: finds where requests end and answers each after the latency."""

    response = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (
            len(REPLY),
            REPLY,
        )
    )

    def __init__(self) -> None:
        self._buffer = b""
        self._loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end].lower()
            start = head.find(b"content-length:")
            length = int(head[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._loop.call_later(LATENCY_S, self._answer)

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self.response)


def serve(ready: Connection) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(
            Connected, "127.0.0.1", 0, backlog=1024
        )
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())


@contextlib.contextmanager
def server() -> Iterator[str]:
    """The address of a server that lives as long as the block."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/v1/chat/completions"
    finally:
        process.terminate()
        process.join()


# -- the two clients -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What one turn took."""

    wall_s: float
    cpu_s: float


def bodies(count: int) -> list[bytes]:
    text = "Which of these is a prime number? Think step by step. " * 12
    return [
        json.dumps(
            {
                "model": "m",
                "messages": [{"role": "user", "content": f"{place} {text}"}],
                "max_tokens": 256,
                "temperature": 0,
                "seed": 1234,
            }
        ).encode()
        for place in range(count)
    ]


def plain(url: str, sent: Sequence[bytes], connections: int) -> int:
    """As little as one can write with aiohttp: workers that take turns at one iterator."""
    import aiohttp

    async def main() -> int:
        left, answers = iter(sent), []

        async def worker(session: aiohttp.ClientSession) -> None:
            for body in left:
                async with session.post(url, data=body, headers=HEADERS) as response:
                    answers.append(json.loads(await response.read())["choices"][0]["message"])

        connector = aiohttp.TCPConnector(limit=connections)
        async with aiohttp.ClientSession(connector=connector) as session:
            await asyncio.gather(*(worker(session) for _ in range(connections)))
        return len(answers)

    return asyncio.run(main())


def engine(url: str | Sequence[str], sent: Sequence[bytes], connections: int) -> int:
    import orjson

    from lm_eval.models.http.client import TransportOptions
    from lm_eval.models.http.transport import Transport

    transport = Transport(
        TransportOptions(num_concurrent=connections),
        servers=1 if isinstance(url, str) else len(url),
    )

    def decode(body: bytes) -> Any:
        return orjson.loads(body)["choices"][0]["message"]

    async def work(body: bytes) -> Any:
        return (await transport.request(url, body, HEADERS, decode)).value

    answers = [answer for _, answer in transport.window(sent, work) if isinstance(answer, dict)]
    transport.close()
    return len(answers)


Client = Callable[[Any, Sequence[bytes], int], int]


def measure(
    client: Client, url: str | Sequence[str], sent: Sequence[bytes], connections: int
) -> Cost:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    answers = client(url, sent, connections)
    cost = Cost(time.perf_counter() - wall_s, time.process_time() - cpu_s)
    assert answers == len(sent), f"{answers} answers to {len(sent)} requests"
    return cost


def compare(url: str, connections: int, count: int, turns: int) -> None:
    sent = bodies(count)
    for client in (plain, engine):
        measure(client, url, sent[:200], connections)  # imports, first connections
    pairs = [
        (measure(plain, url, sent, connections), measure(engine, url, sent, connections))
        for _ in range(turns)
    ]
    speed = statistics.median(theirs.wall_s / ours.wall_s for theirs, ours in pairs)
    cpu = statistics.median(ours.cpu_s / theirs.cpu_s for theirs, ours in pairs)
    theirs = min((theirs for theirs, _ in pairs), key=lambda cost: cost.wall_s)
    ours = min((ours for _, ours in pairs), key=lambda cost: cost.wall_s)
    row(f"throughput, {connections} connections", speed, "≥ 0.9", speed >= 0.9)
    print(
        f"{'':4}requests a second: engine {count / ours.wall_s:,.0f}, plain {count / theirs.wall_s:,.0f}"
    )
    row(f"CPU per request, {connections} connections", cpu, "≤ 2", cpu <= 2)
    print(
        f"{'':4}microseconds: engine {ours.cpu_s / count * 1e6:,.0f}, "
        f"plain {theirs.cpu_s / count * 1e6:,.0f}"
    )


def several(urls: Sequence[str], connections: int, count: int, turns: int) -> None:
    """Two servers beside one of them: each waits before it answers, so that the work can be halved."""
    sent = bodies(count)
    ratios = []
    for _ in range(turns):
        one = measure(engine, urls[0], sent, connections)
        both = measure(engine, urls, sent, connections)
        ratios.append(one.wall_s / both.wall_s)
    ratio = statistics.median(ratios)
    row(f"two servers, {connections} connections to each", ratio, "≥ 1.8", ratio >= 1.8)


# -- the whole program ---------------------------------------------------------------------------


def whole(url: str, docs: int, connections: int, turns: int) -> None:
    """Runs of the command line beside the plain client, which only sends."""
    sent = bodies(docs)
    with tempfile.TemporaryDirectory() as folder:
        command = _command(Path(folder), url, docs, connections)
        _program(command, folder)  # byte code, as an installed package has it
        pairs = [
            (measure(plain, url, sent, connections), _program(command, folder))
            for _ in range(turns)
        ]
    ratio = statistics.median(theirs.wall_s / ours.wall_s for theirs, ours in pairs)
    theirs, ours = (min(costs, key=lambda cost: cost.wall_s) for costs in zip(*pairs, strict=True))
    row(f"whole run of {docs:,} chat docs, {connections} connections", ratio, "≥ 0.5", ratio >= 0.5)
    print(
        f"{'':4}seconds: lm-eval run {ours.wall_s:.2f} (CPU {ours.cpu_s:.2f}), "
        f"plain {theirs.wall_s:.2f} (CPU {theirs.cpu_s:.2f})"
    )


def _program(command: list[str], folder: str) -> Cost:
    """What one run of the command line takes, start-up included."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own["PYTHONPYCACHEPREFIX"] = f"{folder}/byte code"
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, cwd=folder, env=own)
    wall_s, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall_s, cpu_s)


def _command(folder: Path, url: str, docs: int, connections: int) -> list[str]:
    rows = ({"question": f"What is {n} plus {n}?", "answer": str(2 * n)} for n in range(docs))
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "task": "sums",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(folder / "docs.jsonl")}},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"max_gen_toks": 64, "until": []},
        "metric_list": [{"metric": "exact_match"}],
    }
    (folder / "sums.yaml").write_text(json.dumps(task))
    return [
        *(sys.executable, "-m", "lm_eval", "run", "--model", "local-chat-completions"),
        *("--model_args", f"model=m,base_url={url},num_concurrent={connections}"),
        *("--include_path", str(folder), "--tasks", "sums", "--apply_chat_template"),
        *("--output_path", str(folder / "out"), "--log_samples"),
    ]


def row(name: str, ratio: float, bound: str, is_kept: bool) -> None:
    print(f"{name:<48} {ratio:>6.2f}  {bound:<6} {'ok' if is_kept else 'OVER'}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=4000, help="requests per turn")
    parser.add_argument("--turns", type=int, default=5, help="pairs of turns")
    parser.add_argument("--whole", action="store_true", help="also the whole program")
    args = parser.parse_args()
    with server() as url, server() as other:
        for connections in (32, 128):
            compare(url, connections, args.count, args.turns)
        several((url, other), 8, args.count // 2, args.turns)
        if args.whole:
            for connections in (32, 128):
                whole(url, 2000, connections, args.turns)


if __name__ == "__main__":
    main()
