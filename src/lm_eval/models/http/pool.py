"""One keep-alive pool of connections: a request goes in, a ``HttpReply`` or a ``Failure`` comes out.

The only module that knows aiohttp. Cookies are not kept, redirects not followed, and no more of a
body is read than the limit allows.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, NamedTuple, cast
from urllib.request import getproxies, proxy_bypass

from lm_eval.errors import MissingExtraError, UsageError
from lm_eval.models.http.failures import Failure, Redact, shorten

if TYPE_CHECKING:
    import aiohttp
    import yarl

CONNECT_S = 5.0
"""How long a connection may take, name look-up and TLS included, while nothing has answered yet."""

_LATER_CONNECT_S = 15.0
_LARGE = 2**20
"""Bytes from which on a body counts as large; at most two such bodies are read at a time."""
_LARGE_AT_ONCE = 2
_OTHER_FILES = 32
"""Descriptors left for files: stores, results, data."""
_CHECK_ADDRESS = "Check the address, and that the server runs."


@dataclass(frozen=True, kw_only=True)
class TransportOptions:
    """How requests are sent. ``timeout_s`` is for one attempt as a whole, reading included."""

    num_concurrent: int | Literal["auto"] = 1
    max_retries: int = 3
    timeout_s: float = 30.0
    verify_certificate: bool = True
    ca_cert_path: str | None = None
    max_response_bytes: int = 64 * 2**20


class HttpReply(NamedTuple):
    """What a server answered, whatever the status."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Target:
    """An address, parsed once, with the proxy that leads there."""

    url: yarl.URL
    shown: str
    proxy: str | None


class Pool:
    """Connections to whatever addresses are asked. Opens in the loop of its first request.

    ``sessions`` holds what is open, apart from the pool, for whoever has to close it.
    """

    def __init__(self, options: TransportOptions, *, connections: int, redact: Redact) -> None:
        self._aiohttp = _import_aiohttp()
        self._connections = connections
        self._is_auto = options.num_concurrent == "auto"
        self._timeout_s = options.timeout_s
        self._ssl = _tls(options.verify_certificate, options.ca_cert_path)
        self._limit = options.max_response_bytes
        self._redact = redact
        self.sessions: list[aiohttp.ClientSession] = []
        self._first_timeout = self._aiohttp.ClientTimeout(
            total=options.timeout_s, connect=min(CONNECT_S, options.timeout_s)
        )
        self._targets: dict[str, Target] = {}
        self.was_answered = False

    def target(self, address: str) -> Target | Failure:
        """The parsed address, or what is wrong with it."""
        target = self._targets.get(address) or self._parse(address)
        if isinstance(target, Target):
            self._targets[address] = target
        return target

    async def exchange(
        self, target: Target, body: bytes | None, headers: Mapping[str, str]
    ) -> HttpReply | Failure:
        """Send once, without a body as a GET. Everything that can happen on the way is a ``Failure``."""
        session = self.sessions[0] if self.sessions else self._open()
        timeout = session.timeout if self.was_answered else self._first_timeout
        try:
            async with session.request(
                "GET" if body is None else "POST",
                target.url,
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=target.proxy,
                timeout=timeout,
            ) as response:
                self.was_answered = True
                content = await self._read(response)
                status, raw = response.status, response.raw_headers
        except (self._aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError) as error:
            return self._failure(target.shown, error)
        if content is None:
            return _TOO_LARGE.about(target.shown, f"{self._limit:,}")
        return HttpReply(status, raw, content)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes | None:
        """The body, or None when it is larger than the limit.

        Large bodies wait for one another, so that all replies together stay within a bound.
        """
        length = response.content_length
        if length is not None and length > self._limit:
            response.close()
            return None
        if length is not None and length <= _LARGE and "Content-Encoding" not in response.headers:
            return await response.read()
        # Large, or without a length, or packed: nobody knows how much will come.
        chunks, size = [], 0
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > _LARGE:
                break
        else:
            return b"".join(chunks)
        async with self._large:
            return await self._read_on(response, b"".join(chunks))

    async def _read_on(self, response: aiohttp.ClientResponse, begun: bytes) -> bytes | None:
        body = bytearray(begun)
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > self._limit:
                response.close()
                return None
        return bytes(body)

    def _open(self) -> aiohttp.ClientSession:
        http = self._aiohttp
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)  # of the loop that runs now
        connections = within_descriptors(self._connections, is_limit=self._is_auto)
        session = http.ClientSession(
            connector=http.TCPConnector(limit=connections, ssl=self._ssl),
            cookie_jar=http.DummyCookieJar(),
            timeout=http.ClientTimeout(
                total=self._timeout_s, sock_connect=min(_LATER_CONNECT_S, self._timeout_s)
            ),
        )
        self.sessions.append(session)
        return cast("aiohttp.ClientSession", session)

    def _parse(self, address: str) -> Target | Failure:
        from yarl import URL

        try:
            url = URL(address)
            shown = str(url.with_user(None).with_query(None).with_fragment(None))
        except ValueError as error:
            shown, why = (shorten(self._redact(text)) for text in (address, str(error)))
            return _NO_ADDRESS.about(shown, why)
        shown = shorten(self._redact(shown))
        if url.scheme not in ("http", "https") or not url.host:
            return _NO_ADDRESS.about(shown, "it needs http:// or https:// and a host")
        return Target(url, shown, _proxy(url))

    def _failure(self, where: str, error: Exception) -> Failure:
        never_connected = self._aiohttp.ConnectionTimeoutError
        if isinstance(error, asyncio.TimeoutError) and not isinstance(error, never_connected):
            return _LATE.about(where, f"{self._timeout_s:g}")
        if _errno(error) in (errno.EMFILE, errno.ENFILE):
            return _NO_DESCRIPTORS.about(where, str(self._connections))
        why = shorten(self._redact(_reason(error))) or type(error).__name__
        for name, failure in _FAILURES.items():
            if isinstance(error, getattr(self._aiohttp, name)):
                return failure.about(where, why)
        return (_HUNG_UP if isinstance(error, OSError) else _UNSENDABLE).about(where, why)


async def close_all(sessions: list[aiohttp.ClientSession]) -> None:
    """Close the sessions, and take them out of the list."""
    while sessions:
        await sessions.pop().close()
    await asyncio.sleep(0)  # sockets are closed one turn of the loop later


def _reason(error: Exception) -> str:
    """The cause itself, without what aiohttp writes around it."""
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    return str(inner or error)


def _errno(error: Exception) -> int | None:
    inner = getattr(error, "os_error", None) or error
    return getattr(inner, "errno", None)


def within_descriptors(connections: int, *, is_limit: bool) -> int:
    """As many connections as this process may have open files for; an error if that is fewer than
    were asked for, unless these are only a limit.
    """
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        in_use = len(os.listdir("/dev/fd"))
    except (ImportError, OSError):
        return connections
    room = max(1, most - in_use - _OTHER_FILES)
    if most == resource.RLIM_INFINITY or connections <= room:
        return connections
    if is_limit:
        return room
    raise UsageError(
        f"{connections:,} connections at a time need more open files than this process may have: "
        f"{most:,}, of which {in_use:,} are in use. Raise the limit (`ulimit -n "
        f"{connections + in_use + 10 * _OTHER_FILES}`), or lower num_concurrent to at most {room:,}."
    )


def _unreachable(why: str) -> Failure:
    return Failure(
        f"Nothing answers at {{where}}: {why}", _CHECK_ADDRESS, stops_run=True, is_unreachable=True
    )


def _final(text: str, advice: str = "") -> Failure:
    """One that every other request would meet too."""
    return Failure(text, advice, can_retry=False, stops_run=True)


_UNTRUSTED = _final(
    "The certificate of {where} is not trusted: {why}",
    "Name its authority with ca_cert_path=FILE, or switch the check off with "
    "verify_certificate=False if you know the server.",
)
_NO_TLS = _final(
    "No secure connection to {where}: {why}",
    "Does the server speak https? If not, write http:// in the address.",
)
_NO_ADDRESS = _final(
    "{where!r} is not the address of a server: {why}", "Write it as http://host:port/path."
)
_UNSENDABLE = _final("The request to {where} cannot be sent: {why}")
_NO_DESCRIPTORS = _final(
    "No connection to {where}: this process has too few file descriptors for {why} connections",
    "Raise the limit (ulimit -n), or lower num_concurrent.",
)
_LATE = Failure("{where} did not finish its answer within {why} s", "A longer time-out may help.")
_HUNG_UP = Failure("{where} closed the connection without an answer", _CHECK_ADDRESS)
_NO_HTTP = Failure("{where} sent what is not HTTP: {why}", _CHECK_ADDRESS)
_TOO_LARGE = Failure(
    "{where} sent more than {why} bytes for one request",
    "Ask for less in one request, or check what the server sends.",
)

# By the names of aiohttp's classes, which overlap: the first that fits counts.
_FAILURES = {
    "ClientConnectorCertificateError": _UNTRUSTED,
    "ClientSSLError": _NO_TLS,
    "ServerFingerprintMismatch": _UNTRUSTED,
    "ConnectionTimeoutError": _unreachable("no connection in time"),
    "ClientProxyConnectionError": _unreachable("the proxy: {why}"),
    "ClientConnectorDNSError": _unreachable("no such host ({why})"),
    "ClientConnectorError": _unreachable("{why}"),
    "ClientHttpProxyError": _unreachable("the proxy: {why}"),
    "ServerDisconnectedError": _HUNG_UP,
    "ClientOSError": _HUNG_UP,
    "ClientPayloadError": Failure("{where} broke off in the middle of its answer: {why}"),
    "ClientConnectionError": _HUNG_UP,
    "ClientResponseError": _NO_HTTP,
    "InvalidURL": _NO_ADDRESS,
    "ClientError": _NO_HTTP,
}


def _proxy(url: yarl.URL) -> str | None:
    """The proxy that the environment names for this address (``http_proxy``, ``no_proxy`` …).

    Never one for this machine: a proxy elsewhere would look for the server on its own.
    """
    host = url.host or ""
    proxy = getproxies().get(url.scheme)
    is_local = host in ("localhost", "::1") or host.startswith("127.")
    return None if proxy is None or is_local or proxy_bypass(host) else proxy


def _tls(verify_certificate: bool, ca_cert_path: str | None) -> ssl.SSLContext | bool:
    if not verify_certificate:
        return False
    if ca_cert_path is None:
        return True
    path = Path(ca_cert_path).expanduser()
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        why = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise UsageError(
            f"ca_cert_path: {str(path)!r} cannot be used: {why}. It must be a file of certificates "
            "in PEM form."
        ) from None


def _import_aiohttp() -> ModuleType:
    try:
        import aiohttp
    except ImportError:
        raise MissingExtraError(
            "Models over HTTP need the package aiohttp.",
            install="pip install 'lm-eval-formats[api]'",
        ) from None
    return aiohttp
