"""An HTTP server that misbehaves on purpose, over real sockets.

``FaultyServer(answer)`` serves ``answer(path, body) -> (status, content)`` from a thread of its own:

    def answer(path, body):
        return 200, {"echo": body["n"]}

    with FaultyServer(answer, faults=some(0.1)) as server:
        ...  # server.url, server.requests

``body`` is the decoded JSON of the request, None for a GET. ``content`` is sent as JSON; bytes are sent
as they are. A plan (``faults=``) is asked for each request and returns a ``Fault`` or None; it depends
on nothing but the request and how often the same one came before, so a run can be repeated. Handlers
may be slow: ``latency_s`` is waited for without keeping others waiting, ``answer`` itself is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import math
import random
import socket
import ssl
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Answer = Callable[[str, Any], tuple[int, Any]]
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class Fault:
    """One way to misbehave: a name in ``KINDS`` or a status, and what belongs to it."""

    kind: str | int
    headers: tuple[tuple[str, str], ...] = ()
    message: str = "made to fail"
    location: str = "http://other.invalid/v1"
    size: int = 1 << 20
    """Bytes of a ``huge`` body."""
    pause_s: float = 0.02
    """Between the bytes of a ``slow`` body."""


@dataclass(frozen=True)
class Seen:
    """A request as the server got it. ``attempt`` counts the same path and body, from 1."""

    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    attempt: int
    place: int
    """How many requests came before this one."""

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None

    def digest(self, seed: int) -> int:
        key = f"{seed} {self.path} ".encode() + self.raw
        return int.from_bytes(hashlib.sha256(key).digest()[:8], "big")


Plan = Callable[[Seen], Fault | None]

# What a client should get over by sending the request again.
TRANSIENT: tuple[Fault, ...] = (
    Fault(429, headers=(("Retry-After", "0"),)),
    Fault(500),
    Fault(503),
    Fault("reset"),
    Fault("reset_middle"),
    Fault("truncated"),
    Fault("short"),
    Fault("empty"),
    Fault("html"),
    Fault("garbage"),
)
# Replies with status 200 that are whole, and not what was asked for: each is a change of a good one.
UNFIT: tuple[Fault, ...] = tuple(
    Fault(kind)
    for kind in (
        *("error_200", "null", "no_choices", "empty_choices", "one_choice_more", "odd_choice"),
        *("no_text", "choice_error", "no_logprobs", "null_logprobs", "null_logprob"),
        *("fewer_logprobs", "positive_logprob", "text_logprob"),
    )
)
# What a client should read as if nothing had happened.
HARMLESS: tuple[Fault, ...] = (Fault("http10"), Fault("slow"), Fault("wrong_type"))


def never(seen: Seen) -> Fault | None:
    return None


def always(fault: Fault | str | int) -> Plan:
    """Every request fails in the same way."""
    return lambda seen: _fault(fault)


def first(times: int, fault: Fault | str | int) -> Plan:
    """The first ``times`` sendings of each request fail; later ones are answered."""
    return lambda seen: _fault(fault) if seen.attempt <= times else None


def some(share: float, faults: Sequence[Fault] = TRANSIENT + HARMLESS, *, seed: int = 0) -> Plan:
    """A ``share`` of all requests, chosen by their content, fail on their first sending."""

    def plan(seen: Seen) -> Fault | None:
        digest = seen.digest(seed)
        is_chosen = seen.attempt == 1 and digest % 10_000 < share * 10_000
        return faults[digest // 10_000 % len(faults)] if is_chosen else None

    return plan


def in_turn(*faults: Fault | str | int | None) -> Plan:
    """One fault (None: an answer) after the other, whatever is asked; answers once they are used up."""
    return lambda seen: _fault(faults[seen.place]) if seen.place < len(faults) else None


@contextlib.contextmanager
def nobody() -> Iterator[int]:
    """A port of this machine where nobody listens, and nobody else can meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def _fault(fault: Fault | str | int | None) -> Fault | None:
    return fault if fault is None or isinstance(fault, Fault) else Fault(fault)


@dataclass
class FaultyServer:
    """Serves on a free port of this machine while its ``with`` block runs.

    ``latency_s`` is a number, or a pair between which each reply's is chosen at random (answers out of
    order). With ``capacity``, that many requests are worked on at a time and the others queue; with
    ``capacity`` and ``refuses``, the others get 429. ``reply_headers`` go with each good answer.

    No clock decides a test that counts: with ``gathers``, good answers after the first wait until that
    many requests have been here at a time, and from the place ``until`` on nothing is answered at all.
    """

    answer: Answer
    faults: Plan = never
    latency_s: float | tuple[float, float] = 0.0
    capacity: int | None = None
    refuses: bool = False
    gathers: int = 0
    until: float = math.inf
    reply_headers: Callable[[Seen], Sequence[tuple[str, str]]] = lambda seen: ()
    tls: ssl.SSLContext | None = None
    seed: int = 0
    port: int = 0
    requests: list[Seen] = field(default_factory=list)
    connections: int = 0
    most_at_once: int = 0

    def __enter__(self) -> FaultyServer:
        self._attempts: Counter[bytes] = Counter()
        self._random = random.Random(self.seed)
        self._busy = self._count = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(_PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(_PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()

    @property
    def url(self) -> str:
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[Any]:
        """The decoded bodies of all requests so far."""
        return [seen.body for seen in self.requests]

    async def _open(self) -> None:
        self._room = asyncio.Semaphore(self.capacity or 1_000_000)
        self._gathered = asyncio.Event()
        self._handlers: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self.tls, limit=1 << 26, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        # First let connections come about that are half accepted: asyncio would forget them open.
        while asyncio.all_tasks() - {asyncio.current_task(), *self._handlers}:
            await asyncio.sleep(0.001)
        self._server.close()
        while self._handlers:
            for handler, writer in list(self._handlers.items()):
                writer.transport.abort()
                handler.cancel()
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers[task] = writer
        self.connections += 1
        try:
            while (seen := await self._receive(reader)) is not None:
                if not await self._respond(seen, writer):
                    return
            await _send(writer, 400, b"this is not HTTP")
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has gone, or the test is over
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            del self._handlers[task]

    async def _receive(self, reader: asyncio.StreamReader) -> Seen | None:
        start = await reader.readexactly(1)
        if not start.isalpha():  # somebody tries TLS
            return None
        head = start + await reader.readuntil(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        pairs = (line.split(":", 1) for line in lines[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        key = hashlib.sha256(path.encode() + b" " + raw).digest()  # bodies may be large
        self._attempts[key] += 1
        seen = Seen(method, path, headers, raw, self._attempts[key], self._count)
        self._count += 1
        self.requests.append(seen)
        return seen

    async def _respond(self, seen: Seen, writer: asyncio.StreamWriter) -> bool:
        """Answer in full, or as the plan says. True if the connection may be used again."""
        if seen.place >= self.until:
            await asyncio.sleep(3600)
        fault = self.faults(seen)
        if fault is not None and isinstance(fault.kind, str):
            return await KINDS[fault.kind](self, seen, fault, writer)
        if fault is not None:
            content = {"error": {"message": fault.message, "type": "made_up"}}
            return await _send(writer, int(fault.kind), _json(content), headers=fault.headers)
        if self.refuses and self._busy >= (self.capacity or 1):
            return await _send(writer, 429, _json({"error": {"message": "too many at a time"}}))
        status, body = await self._work(seen)
        return await _send(writer, status, body, headers=self.reply_headers(seen))

    async def _work(self, seen: Seen) -> tuple[int, bytes]:
        """The good answer, after the latency and within the capacity."""
        async with self._room:
            self._busy += 1
            self.most_at_once = max(self.most_at_once, self._busy)
            if self.most_at_once >= self.gathers:
                self._gathered.set()
            try:
                if seen.place:  # the first may travel alone
                    await self._gathered.wait()
                low, high = (
                    self.latency_s
                    if isinstance(self.latency_s, tuple)
                    else (self.latency_s, self.latency_s)
                )
                if high:
                    await asyncio.sleep(self._random.uniform(low, high))
                status, content = self.answer(seen.path, seen.body)
                return status, content if isinstance(content, bytes) else _json(content)
            finally:
                self._busy -= 1

    # -- the ways to misbehave ---------------------------------------------------------------

    async def _reset(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        _abort(writer)
        return False

    async def _hang_up(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        return False

    async def _reset_middle(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        _, body = await self._work(seen)
        writer.write(_head(200, len(body)) + body[: len(body) // 2])
        await writer.drain()
        _abort(writer)
        return False

    async def _truncated(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        """Half the JSON, with the length of the half."""
        _, body = await self._work(seen)
        return await _send(writer, 200, body[: len(body) // 2])

    async def _short(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        """Half the JSON, with the length of the whole, then the end of the connection."""
        _, body = await self._work(seen)
        writer.write(_head(200, len(body)) + body[: len(body) // 2])
        await writer.drain()
        return False

    async def _empty(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        return await _send(writer, 200, b"")

    async def _slow(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        """The good answer in ten pieces."""
        status, body = await self._work(seen)
        writer.write(_head(status, len(body)))
        size = max(1, -(-len(body) // 10))
        for start in range(0, len(body), size):
            writer.write(body[start : start + size])
            await writer.drain()
            await asyncio.sleep(fault.pause_s)
        return True

    async def _endless(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        """A body that never ends, slowly enough for the clock to notice first."""
        return await self._pour(writer, b" ", fault.pause_s)

    async def _flood(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        """A body that never ends, as fast as it is read."""
        return await self._pour(writer, b" " * 65_536, 0)

    async def _pour(self, writer: asyncio.StreamWriter, piece: bytes, pause_s: float) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(pause_s)
        return False

    async def _huge(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        """A body of ``size`` bytes that says so."""
        writer.write(_head(200, fault.size))
        for _ in range(-(-fault.size // 65_536)):
            writer.write(b" " * 65_536)
            await writer.drain()
        return False

    async def _bomb(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        """A small body that unpacks to ``size`` bytes."""
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)  # 31: as gzip does
        pieces = [packer.compress(b" " * 65_536) for _ in range(fault.size // 65_536)]
        packed = b"".join([*pieces, packer.flush()])
        return await _send(writer, 200, packed, headers=(("Content-Encoding", "gzip"),))

    async def _wrong_type(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        status, body = await self._work(seen)
        return await _send(writer, status, body, content_type="text/html")

    async def _html(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        return await _send(writer, 502, _PAGE, content_type="text/html")

    async def _html_200(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        return await _send(writer, 200, _PAGE, content_type="text/html")

    async def _http10(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        """The good answer of an old server: no length, the connection ends."""
        _, body = await self._work(seen)
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body)
        await writer.drain()
        return False

    async def _redirect(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        return await _send(writer, 307, b"", headers=(("Location", fault.location),))

    async def _garbage(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"\x00\x01 220 mail.example ESMTP\r\n\r\n")
        await writer.drain()
        return False

    async def _unfit(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        """The good answer, changed; as it is where there is nothing of that kind to change."""
        status, body = await self._work(seen)
        content = json.loads(body)
        if status == 200 and isinstance(content, dict) and "choices" in content:
            content = _SHAPES[str(fault.kind)](content)
        return await _send(writer, status, _json(content))

    async def _silent(self, seen: Seen, fault: Fault, writer: asyncio.StreamWriter) -> bool:
        """No answer at all, on an open connection."""
        await asyncio.sleep(3600)
        return False


Misbehave = Callable[[FaultyServer, Seen, Fault, asyncio.StreamWriter], Awaitable[bool]]
KINDS: dict[str, Misbehave] = {
    name: getattr(FaultyServer, f"_{name}")
    for name in (
        *("reset", "hang_up", "reset_middle", "truncated", "short", "empty", "slow", "endless"),
        *("flood", "huge", "bomb", "wrong_type", "html", "html_200", "http10", "redirect"),
        *("garbage", "silent"),
    )
} | {str(fault.kind): FaultyServer._unfit for fault in UNFIT}


def _each_choice(change: Callable[[dict[str, Any]], object]) -> Callable[[Any], Any]:
    def changed(content: Any) -> Any:
        for choice in content["choices"]:
            change(choice)
        return content

    return changed


def _last_logprob(change: Callable[[float], list[Any]]) -> Callable[[Any], Any]:
    """Puts what ``change`` gives in the place of the prompt's last log-prob, and of the likeliest."""

    def changed(choice: dict[str, Any]) -> None:
        told = choice.get("logprobs") or {}
        if len(scores := told.get("token_logprobs") or ()) > 1:
            *before, last, generated = scores
            told["token_logprobs"] = [*before, *change(last), generated]
        for top in told.get("top_logprobs") or ():
            for text in list(top or ())[:1]:
                (top[text],) = change(top[text]) or [None]

    return _each_choice(changed)


_SHAPES: dict[str, Callable[[Any], Any]] = {
    "error_200": lambda content: {"error": {"message": "made to fail", "code": 500}},
    "null": lambda content: None,
    "no_choices": lambda content: {"object": "text_completion"},
    "empty_choices": lambda content: {**content, "choices": []},
    "one_choice_more": lambda content: {**content, "choices": 2 * content["choices"]},
    "odd_choice": lambda content: {**content, "choices": [None for _ in content["choices"]]},
    "no_text": _each_choice(lambda choice: (choice.pop("text", 0), choice.pop("message", 0))),
    "choice_error": _each_choice(lambda choice: choice.update(error={"message": "made to fail"})),
    "no_logprobs": _each_choice(lambda choice: choice.pop("logprobs", 0)),
    "null_logprobs": _each_choice(
        lambda choice: "logprobs" in choice and choice.update(logprobs=None)
    ),
    "null_logprob": _last_logprob(lambda score: [None]),
    "fewer_logprobs": _last_logprob(lambda score: []),
    "positive_logprob": _last_logprob(lambda score: [0.5]),
    "text_logprob": _last_logprob(lambda score: ["low"]),
}

_PAGE = b"""<!DOCTYPE html>
<html><head><title>502 Bad Gateway &amp; more</title></head>
<body><h1>Bad Gateway</h1><script>alert(1)</script></body></html>
"""


def _json(content: Any) -> bytes:
    return json.dumps(content).encode()


def _head(
    status: int,
    length: int,
    *,
    content_type: str = "application/json",
    headers: Sequence[tuple[str, str]] = (),
) -> bytes:
    lines = [
        f"HTTP/1.1 {status} Made Up",
        f"Content-Type: {content_type}",
        f"Content-Length: {length}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes,
    *,
    content_type: str = "application/json",
    headers: Sequence[tuple[str, str]] = (),
) -> bool:
    writer.write(_head(status, len(body), content_type=content_type, headers=headers) + body)
    await writer.drain()
    return True


def _abort(writer: asyncio.StreamWriter) -> None:
    """End the connection with a reset instead of a proper end."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
