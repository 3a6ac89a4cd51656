"""Unencrypted HTTP/1.1 over keep-alive connections: what a server nearby needs, and no more.

aiohttp does everything, and takes two thirds of the time of a request to a fast server. This module
serves plain addresses (``http://host:port/path``) without proxies; TLS, proxies, passwords in addresses
and headers that frame a message stay with aiohttp. In: an ``Endpoint``, a body, headers. Out: an
``HttpReply`` or a ``Failure``. Bodies may have a length, be chunked or compressed, or end with the
connection.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from lm_eval.models.http.failures import (
    BROKEN_OFF,
    HUNG_UP,
    LATE,
    NO_CONNECTION,
    NO_DESCRIPTORS,
    NO_HTTP,
    NO_SUCH_HOST,
    REFUSED,
    TOO_LARGE,
    UNSENDABLE,
    Failure,
    is_out_of_descriptors,
)
from lm_eval.models.http.framing import LARGE, HttpReply, Incoming, unpacked

LARGE_AT_ONCE = 2
"""How many large bodies are read at a time."""
_KEPT_S = 15.0
"""How long an idle connection may be used again: servers close theirs after a while."""
_RESOLVED_S = 10.0
_LARGER: Final = Failure("")
"""Stands for a reply whose body has become large."""

_PLAIN = re.compile(
    r"http://(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9_~:@!$&'()*+,;=-][A-Za-z0-9._~:@!$&'()*+,;=-]*)*/?)"
    r"(?P<query>\?[A-Za-z0-9._~=&:@/-]*)?"
)
_FRAMING = frozenset(
    ("connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding")
) | {"upgrade", "accept-encoding"}
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A plain address: where to connect, and what a request's first lines say."""

    address: str
    host: str
    port: int
    path: str
    named: str
    """Host and port as written in the address."""


def plain_endpoint(address: str) -> Endpoint | None:
    """The endpoint of a plain address; None if the address needs aiohttp."""
    match = _PLAIN.fullmatch(address)
    if match is None or int(match["port"] or 80) > 65535:
        return None
    host, port = match["host"], int(match["port"] or 80)
    path = (match["path"] or "/") + (match["query"] or "")
    named = host if match["port"] is None else f"{host}:{match['port']}"
    return Endpoint(address, host.strip("[]"), port, path, named)


def are_plain(headers: Mapping[str, str]) -> bool:
    """Whether the headers leave the framing of messages alone and can be sent as they are."""
    return all(
        _NAME.fullmatch(name) and name.lower() not in _FRAMING and value.isprintable()
        for name, value in headers.items()
    )


class Connections:
    """Keep-alive connections of one event loop to plain endpoints, at most ``limit`` in use."""

    def __init__(self, limit: int, *, timeout_s: float, most_bytes: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._idle: dict[tuple[str, int], list[HttpConnection]] = {}
        self._in_use: set[HttpConnection] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._free = limit
        self.was_answered = False
        """Whether a reply has ever begun."""
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._deadlines: dict[HttpConnection, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._heads: dict[tuple[Endpoint, int], tuple[Mapping[str, str], bytes]] = {}
        self._resolved: dict[tuple[str, int], tuple[float, str, int]] = {}

    async def exchange(
        self,
        endpoint: Endpoint,
        shown: str,
        body: bytes | None,
        headers: Mapping[str, str],
        connect_s: float,
    ) -> HttpReply | Failure:
        """Send once, without a body as a GET. Everything that can happen on the way is a ``Failure``."""
        deadline = self._loop.time() + self._timeout_s
        message = self._message(endpoint, body, headers)
        if self._free:
            self._free -= 1
        elif not await self._slot():
            return LATE.about(shown, f"{self._timeout_s:g}")
        try:
            connection = self._kept(endpoint)
            if connection is None:
                opened = await self._opened(endpoint, shown, connect_s)
                if isinstance(opened, Failure):
                    return opened
                connection = opened
            return await self._answer(connection, message, shown, deadline)
        finally:
            self._release()

    async def _answer(
        self, connection: HttpConnection, message: bytes, shown: str, deadline: float
    ) -> HttpReply | Failure:
        self._in_use.add(connection)
        is_whole = False
        try:
            waiter = connection.send(message)
            self._deadlines[connection] = deadline
            if self._timer is None:
                self._timer = self._loop.call_at(deadline, self._expire)
            try:
                reply = await waiter
            finally:
                del self._deadlines[connection]
            self.was_answered = self.was_answered or connection.is_answered
            if connection.is_large or connection.packing is not None:
                left_s = max(0.0, deadline - self._loop.time())
                try:
                    reply = await asyncio.wait_for(self._whole(connection, reply), left_s)
                except TimeoutError:
                    reply = LATE
            if isinstance(reply, Failure):
                why = {LATE: f"{self._timeout_s:g}", TOO_LARGE: f"{self._most_bytes:,}"}
                return reply.about(shown, why.get(reply, connection.why))
            is_whole = True
            return reply
        finally:
            self._in_use.discard(connection)
            if is_whole and connection.can_be_used_again:
                connection.idle_since = time.monotonic()
                self._idle.setdefault(connection.peer, []).append(connection)
            else:
                connection.abort()

    async def _whole(
        self, connection: HttpConnection, reply: HttpReply | Failure
    ) -> HttpReply | Failure:
        """The reply with its body read to the end and decompressed; large ones wait for one another."""
        if reply is _LARGER:
            async with self._large:
                reply = await connection.read_on(self._most_bytes)
                return self._unpacked(connection, reply, self._most_bytes)
        unpacked = self._unpacked(connection, reply, min(LARGE, self._most_bytes))
        if unpacked is not TOO_LARGE or reply is TOO_LARGE:
            return unpacked
        async with self._large:
            return self._unpacked(connection, reply, self._most_bytes)

    def _unpacked(
        self, connection: HttpConnection, reply: HttpReply | Failure, most: int
    ) -> HttpReply | Failure:
        packing = connection.packing
        if packing is None or isinstance(reply, Failure):
            return reply
        try:
            content = unpacked(reply.body, packing, most)
        except ValueError as error:
            connection.why = str(error)
            return BROKEN_OFF
        return TOO_LARGE if content is None else reply._replace(body=content)

    async def close(self) -> None:
        """Close every connection."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for connection in [*self._in_use, *(c for kept in self._idle.values() for c in kept)]:
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # sockets are closed one turn of the loop later

    # -- what is sent ----------------------------------------------------------------------------

    def _message(self, endpoint: Endpoint, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        key = endpoint, id(headers)
        known = self._heads.get(key)
        if known is None or known[0] is not headers:
            if len(self._heads) > 64:
                self._heads.clear()
            lines = [f"Host: {endpoint.named}", *(f"{k}: {v}" for k, v in headers.items())]
            names = {name.lower() for name in headers}
            lines += [
                line
                for line in ("Accept: */*", "User-Agent: lm-eval")
                if line.partition(":")[0].lower() not in names
            ]
            head = f" {endpoint.path} HTTP/1.1\r\n" + "".join(f"{line}\r\n" for line in lines)
            known = self._heads[key] = (headers, head.encode())
        if body is None:
            return b"GET%s\r\n" % known[1]
        return b"POST%sContent-Length: %d\r\n\r\n%s" % (known[1], len(body), body)

    # -- connections -----------------------------------------------------------------------------

    def _kept(self, endpoint: Endpoint) -> HttpConnection | None:
        kept = self._idle.get((endpoint.host, endpoint.port))
        while kept:
            connection = kept.pop()
            if connection.is_open and time.monotonic() - connection.idle_since < _KEPT_S:
                return connection
            connection.abort()
        return None

    async def _opened(
        self, endpoint: Endpoint, shown: str, connect_s: float
    ) -> HttpConnection | Failure:
        try:
            return await asyncio.wait_for(self._connected(endpoint), connect_s)
        except TimeoutError:
            return NO_CONNECTION.about(shown)
        except socket.gaierror as error:
            return NO_SUCH_HOST.about(shown, error.strerror or "name look-up failed")
        except UnicodeError:
            return UNSENDABLE.about(shown, "the name of its host is too long")
        except OSError as error:
            if is_out_of_descriptors(error):
                return NO_DESCRIPTORS.about(shown, str(self._limit))
            why = os.strerror(error.errno) if error.errno else str(error)
            return REFUSED.about(shown, why)

    async def _connected(self, endpoint: Endpoint) -> HttpConnection:
        host, port = endpoint.host, endpoint.port
        until, known, family = self._resolved.get((host, port), (0.0, host, 0))
        if time.monotonic() > until:
            known, family = host, 0
        peer = (host, port)
        transport, protocol = await self._loop.create_connection(
            lambda: HttpConnection(peer, self._most_bytes), known, port, family=family
        )
        address = transport.get_extra_info("peername")[0]
        family = transport.get_extra_info("socket").family
        self._resolved[host, port] = (time.monotonic() + _RESOLVED_S, address, family)
        return protocol

    async def _slot(self) -> bool:
        """Wait until another request has ended; False if that takes too long."""
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        try:
            await asyncio.wait_for(waiter, self._timeout_s)
        except TimeoutError:
            return False
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._release()
            raise
        return True

    def _release(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1

    def _expire(self) -> None:
        """End requests that have run out of time, and set the timer for the next one."""
        now = self._loop.time()
        for connection, deadline in self._deadlines.items():
            if deadline <= now:
                connection.fail(LATE)
        self._timer = None
        if later := [deadline for deadline in self._deadlines.values() if deadline > now]:
            self._timer = self._loop.call_at(min(later), self._expire)


class HttpConnection(asyncio.Protocol):
    """One connection: carries one request at a time, and reads the reply as it arrives."""

    def __init__(self, peer: tuple[str, int], most_bytes: int) -> None:
        self.peer = peer
        self.is_open = True
        self.idle_since = 0.0
        self.why = ""
        """What is wrong, in the words of this module, for a failure's text."""
        self.is_large = False
        self.can_be_used_again = False
        self._most_bytes = most_bytes
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[HttpReply | Failure] | None = None
        self._reply = Incoming()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, message: bytes) -> asyncio.Future[HttpReply | Failure]:
        """Send a request; its reply or failure."""
        self._waiter = waiter = self._loop.create_future()
        self._reply = Incoming()
        self.is_large = self.can_be_used_again = False
        self._transport.write(message)
        return waiter

    @property
    def is_answered(self) -> bool:
        """Whether the reply has begun."""
        return self._reply.has_head

    @property
    def packing(self) -> bytes | None:
        """How the body is compressed."""
        return self._reply.packing

    async def read_on(self, most_bytes: int) -> HttpReply | Failure:
        """The whole reply, whose body has become large; its limit is ``most_bytes``."""
        self._waiter = self._loop.create_future()
        self._reply.most = most_bytes
        if self.is_open:
            self._transport.resume_reading()
        self._settle_if_over()
        if not self.is_open and not self._waiter.done():
            self._end()
        return await self._waiter

    def fail(self, failure: Failure, why: str = "") -> None:
        """End the request under way."""
        self.why = why
        self.can_be_used_again = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(failure)

    def abort(self) -> None:
        self._reply.drop()
        if self.is_open:
            self.is_open = False
            self._transport.abort()

    # -- what arrives ----------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if not self.is_open:
            return
        if self._waiter is None or (self._waiter.done() and not self.is_large):
            self.abort()  # nothing was asked
        else:
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        reply = self._reply
        try:
            reply.feed(data)
        except ValueError as error:
            self.fail(BROKEN_OFF if reply.has_head else NO_HTTP, str(error))
            return
        self._settle_if_over()

    def _settle_if_over(self) -> None:
        """Settle the request if the reply is complete, or larger than allowed."""
        reply = self._reply
        if (reply.length or 0) > self._most_bytes:
            self.fail(TOO_LARGE)
        elif reply.size > reply.most:
            if self.is_large:
                self.fail(TOO_LARGE)
                return
            self.is_large = True
            if not self._transport.is_closing():
                self._transport.pause_reading()
            self._settle(_LARGER)
        elif reply.is_whole:
            self._finish()

    def _finish(self) -> None:
        reply = self._reply
        self.can_be_used_again = (
            reply.is_whole
            and reply.keeps_open
            and not reply.has_surplus
            and not self._transport.get_write_buffer_size()
        )
        self._settle(reply.reply())
        reply.drop()

    def _settle(self, outcome: HttpReply | Failure) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(outcome)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # a reset says no more than an end
        self.is_open = self.can_be_used_again = False
        if self._waiter is not None and not self._waiter.done():
            self._end()

    def _end(self) -> None:
        """The connection has ended, as far as is known before the reply did."""
        reply = self._reply
        if not reply.has_head:
            self.fail(NO_HTTP if reply.has_begun else HUNG_UP, "it ends before its head does")
        elif reply.size > reply.most:
            self.fail(TOO_LARGE)
        elif reply.ends_with_connection:
            self._finish()
        else:
            self.fail(BROKEN_OFF, reply.progress)
