"""What the client makes of everything that a server may send it, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Awaitable, Callable

import pytest

from lm_eval.models.http.client import Client, HttpReply, TransportOptions, close_all
from lm_eval.models.http.failures import Failure

Outcome = HttpReply | Failure
OK = b"HTTP/1.1 200 OK\r\n"


def client(limit: int, *, timeout_s: float, most_bytes: int, port: int) -> tuple[Client, str]:
    options = TransportOptions(timeout_s=timeout_s, max_response_bytes=most_bytes)
    return Client(options, connections=limit, redact=str), f"http://127.0.0.1:{port}/v1"


Send = Callable[[bytes], Awaitable[None]]
Serve = Callable[[int, Send], Awaitable[bool]]
"""Answers the request of a number; whether the connection stays open."""


def asked(
    serve: Serve,
    *,
    times: int = 1,
    timeout_s: float = 20.0,
    most_bytes: int = 2**22,
    limit: int = 4,
) -> tuple[list[Outcome], int]:
    """What comes of requests sent one after the other, and how many connections there were."""
    connections = requests = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections, requests
        connections += 1

        async def send(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
                assert json.loads(await reader.readexactly(length)) == {"n": requests}
                requests += 1
                if not await serve(requests - 1, send):
                    return
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def main() -> list[Outcome]:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        pool, address = client(limit, timeout_s=timeout_s, most_bytes=most_bytes, port=port)
        headers = {"Content-Type": "application/json"}
        outcomes = []
        for n in range(times):
            body = json.dumps({"n": n}).encode()
            outcomes.append(await pool.exchange(address, body, headers))
        await close_all(pool.sessions)
        server.close()
        return outcomes

    return asyncio.run(main()), connections


def bodies(outcomes: list[Outcome]) -> list[bytes]:
    assert all(isinstance(outcome, HttpReply) for outcome in outcomes), outcomes
    return [outcome.body for outcome in outcomes if isinstance(outcome, HttpReply)]


def failed(serve: Serve, **options: float) -> str:
    [[outcome], _] = asked(serve, **options)  # type: ignore[arg-type]
    assert isinstance(outcome, Failure), outcome
    return outcome.text


def test_one_connection_carries_many_requests() -> None:
    async def serve(n: int, send: Send) -> bool:
        await send(OK + b"Content-Length: 1\r\n\r\n%d" % n)
        return True

    outcomes, connections = asked(serve, times=5)
    assert bodies(outcomes) == [b"0", b"1", b"2", b"3", b"4"]
    assert connections == 1


def test_a_closed_connection_is_replaced() -> None:
    async def serve(n: int, send: Send) -> bool:
        await send(OK + b"Content-Length: 1\r\nConnection: close\r\n\r\n%d" % n)
        return n % 2 == 0  # some keep open what they called closed

    outcomes, connections = asked(serve, times=3)
    assert bodies(outcomes) == [b"0", b"1", b"2"]
    assert connections == 3


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_replies_come_in_any_pieces(size: int) -> None:
    reply = b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Transfer-Encoding: chunked\r\n\r\n"
    reply += b"5\r\nhello\r\n6\r\n there\r\n0\r\n\r\n"

    async def serve(_: int, send: Send) -> bool:
        for at in range(0, len(reply), size):
            await send(reply[at : at + size])
            await asyncio.sleep(0)
        return True

    outcomes, connections = asked(serve, times=2)
    assert bodies(outcomes) == [b"hello there"] * 2
    assert connections == 1


def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    async def serve(_: int, send: Send) -> bool:
        await send(OK + b"Content-Length: 2\r\n\r\nok" + OK + b"Content-Length: 4\r\n\r\nfake")
        return True

    outcomes, connections = asked(serve, times=2)
    assert bodies(outcomes) == [b"ok", b"ok"]
    assert connections == 2


def test_packed_and_large_bodies() -> None:
    text = b"x" * 3_000_000

    async def serve(n: int, send: Send) -> bool:
        packed = gzip.compress(text) if n % 2 else text
        line = b"Content-Encoding: gzip\r\n" if n % 2 else b""
        await send(OK + line + b"Content-Length: %d\r\n\r\n%s" % (len(packed), packed))
        return True

    outcomes, connections = asked(serve, times=4)
    assert bodies(outcomes) == [text] * 4
    assert connections == 1


def test_a_large_body_may_end_with_its_connection() -> None:
    async def serve(_: int, send: Send) -> bool:
        await send(OK + b"\r\n" + b"x" * 3_000_000)
        return False

    assert bodies(asked(serve)[0]) == [b"x" * 3_000_000]


UNREADABLE = (
    (b"", "closed the connection without an answer"),
    (b"HTTP/1.1 2", "closed the connection without an answer"),
    (b"SSH-2.0-OpenSSH\r\n", "not HTTP: .*Expected HTTP/"),
    (OK + b"a" * 70_000, "not HTTP: .*Got more than 8190 bytes"),
    (OK + b"Content-Length: x\r\n\r\n", "not HTTP: .*Content-Length"),
    (OK + b"Content-Length: 9\r\n\r\nhalf", "broke off .*content length"),
    (OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nhalf", "broke off .* payload"),
    (OK + b"Transfer-Encoding: chunked\r\n\r\nhalf\r\n", "(?:not HTTP|broke off).* chunk size"),
    (OK + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\nab", "content-encoding: br"),
    (OK + b"Content-Length: 9999999\r\n\r\n", "more than 4,194,304 bytes"),
    (OK + b"\r\n" + b"x" * 5_000_000, "more than 4,194,304 bytes"),
    (
        OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(bytes(5_000_000)),
        "more than 4,194,304 bytes",
    ),
)


def test_what_cannot_be_read_says_why() -> None:
    wrong = []
    for reply, says in UNREADABLE:

        async def serve(_: int, send: Send, reply: bytes = reply) -> bool:
            await send(reply)
            return False

        if not re.search(says, text := failed(serve)):
            wrong.append((reply[:60], says, text))
    assert not wrong, wrong


def test_a_reply_has_a_limit_of_time() -> None:
    async def serve(_: int, send: Send) -> bool:
        await send(OK + b"Content-Length: 10\r\n\r\nhalf")
        await asyncio.sleep(60)
        return True

    assert "did not finish its answer within 0.2 s" in failed(serve, timeout_s=0.2)


def test_no_more_connections_than_the_limit() -> None:
    """Ten requests at a time over two connections."""
    most = now = 0

    async def main() -> list[Outcome]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal most, now
            now += 1
            most = max(most, now)
            try:
                while True:
                    await reader.readuntil(b"\r\n\r\n")
                    writer.write(OK + b"Content-Length: 2\r\n\r\nok")
            except (asyncio.IncompleteReadError, OSError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        pool, address = client(2, timeout_s=20, most_bytes=1000, port=port)
        sent = [pool.exchange(address, None, {}) for _ in range(10)]
        outcomes = await asyncio.gather(*sent)
        await close_all(pool.sessions)
        server.close()
        return outcomes

    assert bodies(asyncio.run(main())) == [b"ok"] * 10
    assert most == 2
