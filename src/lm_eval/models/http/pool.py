"""One keep-alive pool of connections: a request goes in, a ``HttpReply`` or a ``Failure`` comes out.

Plain addresses go to ``connections``; TLS, proxies and everything else to aiohttp, which only this
module knows and imports when it is needed. Cookies are not kept, redirects not followed, and no more
of a body is read than the limit allows.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast
from urllib.request import getproxies, proxy_bypass

from lm_eval.errors import UsageError
from lm_eval.models.http.connections import (
    LARGE_AT_ONCE,
    Connections,
    Endpoint,
    are_plain,
    plain_endpoint,
)
from lm_eval.models.http.failures import (
    BROKEN_OFF,
    HUNG_UP,
    LATE,
    NO_ADDRESS,
    NO_CONNECTION,
    NO_DESCRIPTORS,
    NO_HTTP,
    NO_PROXY,
    NO_SUCH_HOST,
    NO_TLS,
    REFUSED,
    TOO_LARGE,
    UNSENDABLE,
    UNTRUSTED,
    Failure,
    Redact,
    is_out_of_descriptors,
    shorten,
)
from lm_eval.models.http.framing import LARGE, HttpReply, missing_packages

if TYPE_CHECKING:
    import aiohttp
    import yarl

CONNECT_S = 5.0
"""How long connecting may take, name look-up and TLS included, before any server has answered."""

_LATER_CONNECT_S = 15.0
_OTHER_FILES = 32
"""Descriptors left for files: stores, results, data."""


@dataclass(frozen=True, kw_only=True)
class TransportOptions:
    """How requests are sent. ``timeout_s`` is for one attempt as a whole, reading included."""

    num_concurrent: int | Literal["auto"] = 1
    max_retries: int = 3
    timeout_s: float = 30.0
    verify_certificate: bool = True
    ca_cert_path: str | None = None
    max_response_bytes: int = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Target:
    """An address, parsed once: a plain endpoint, or one for aiohttp with the proxy that leads there."""

    shown: str
    endpoint: Endpoint | None = None
    url: yarl.URL | None = None
    proxy: str | None = None


class Closable(Protocol):
    """What is open to a server."""

    async def close(self) -> None: ...


class Pool:
    """Connections to all addresses that are asked. They open in the loop of the first request.

    ``sessions`` holds what is open, apart from the pool, for its owner to close.
    """

    def __init__(self, options: TransportOptions, *, connections: int, redact: Redact) -> None:
        _check_installed()
        self._connections = connections
        self._is_auto = options.num_concurrent == "auto"
        self._timeout_s = options.timeout_s
        self._ssl = _tls(options.verify_certificate, options.ca_cert_path)
        self._limit = options.max_response_bytes
        self._redact = redact
        self.sessions: dict[str, Closable] = {}
        self._targets: dict[str, Target] = {}
        self._checked: tuple[Mapping[str, str] | None, bool] = (None, False)
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
        if target.endpoint is None or not self._are_plain(headers):
            return await self._exchange_by_aiohttp(target, body, headers)
        plain: Any = self.sessions.get("plain") or self._open_plain()
        connect_s = min(_LATER_CONNECT_S if self.was_answered else CONNECT_S, self._timeout_s)
        reply: HttpReply | Failure = await plain.exchange(
            target.endpoint, target.shown, body, headers, connect_s
        )
        self.was_answered = self.was_answered or plain.was_answered
        if isinstance(reply, Failure):
            return replace(reply, text=shorten(self._redact(reply.text)))
        return reply

    def _are_plain(self, headers: Mapping[str, str]) -> bool:
        if headers is not self._checked[0]:  # usually the same ones
            self._checked = (headers, are_plain(headers))
        return self._checked[1]

    def _open_plain(self) -> Connections:
        connections = Connections(
            within_descriptors(self._connections, is_limit=self._is_auto),
            timeout_s=self._timeout_s,
            most_bytes=self._limit,
        )
        self.sessions["plain"] = connections
        return connections

    # -- aiohttp ---------------------------------------------------------------------------------

    async def _exchange_by_aiohttp(
        self, target: Target, body: bytes | None, headers: Mapping[str, str]
    ) -> HttpReply | Failure:
        http = _import_aiohttp()
        session: Any = self.sessions.get("aiohttp") or self._open()
        timeout = session.timeout
        if not self.was_answered:
            connect_s = min(CONNECT_S, self._timeout_s)
            timeout = http.ClientTimeout(total=self._timeout_s, connect=connect_s)
        try:
            url = target.url
            if url is None:
                from yarl import URL

                assert target.endpoint is not None
                url = URL(target.endpoint.address)
            async with session.request(
                "GET" if body is None else "POST",
                url,
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=target.proxy,
                timeout=timeout,
            ) as response:
                self.was_answered = True
                content = await self._read(response)
                status, raw = response.status, response.raw_headers
        except (TimeoutError, http.ClientError, OSError, ValueError) as error:
            return self._failure(target.shown, error)
        if content is None:
            return TOO_LARGE.about(target.shown, f"{self._limit:,}")
        return HttpReply(status, raw, content)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes | None:
        """The body, or None when it is larger than the limit.

        Large bodies wait for one another, so that all replies together stay within a bound.
        """
        length = response.content_length
        if length is not None and length > self._limit:
            response.close()
            return None
        if length is not None and length <= LARGE and "Content-Encoding" not in response.headers:
            return await response.read()
        # Large, without a length, or compressed: nobody knows how much will come.
        chunks, size = [], 0
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > LARGE:
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
        http = _import_aiohttp()
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)  # of the loop that runs now
        connections = within_descriptors(self._connections, is_limit=self._is_auto)
        session = http.ClientSession(
            connector=http.TCPConnector(limit=connections, ssl=self._ssl),
            cookie_jar=http.DummyCookieJar(),
            timeout=http.ClientTimeout(
                total=self._timeout_s, sock_connect=min(_LATER_CONNECT_S, self._timeout_s)
            ),
        )
        self.sessions["aiohttp"] = session
        return cast("aiohttp.ClientSession", session)

    def _parse(self, address: str) -> Target | Failure:
        endpoint = plain_endpoint(address)
        if endpoint is not None and _proxy("http", endpoint.host) is None:
            return Target(shorten(self._redact(address.partition("?")[0])), endpoint)
        _import_aiohttp()
        from yarl import URL

        try:
            url = URL(address)
            shown = str(url.with_user(None).with_query(None).with_fragment(None))
        except ValueError as error:
            shown, why = (shorten(self._redact(text)) for text in (address, str(error)))
            return NO_ADDRESS.about(shown, why)
        shown = shorten(self._redact(shown))
        if url.scheme not in ("http", "https") or not url.host:
            return NO_ADDRESS.about(shown, "it needs http:// or https:// and a host")
        return Target(shown, url=url, proxy=_proxy(url.scheme, url.host))

    def _failure(self, where: str, error: Exception) -> Failure:
        http = _import_aiohttp()
        never_connected = http.ConnectionTimeoutError
        if isinstance(error, asyncio.TimeoutError) and not isinstance(error, never_connected):
            return LATE.about(where, f"{self._timeout_s:g}")
        if is_out_of_descriptors(getattr(error, "os_error", None) or error):
            return NO_DESCRIPTORS.about(where, str(self._connections))
        why = shorten(self._redact(_reason(error))) or type(error).__name__
        for name, failure in _FAILURES.items():
            if isinstance(error, getattr(http, name)):
                return failure.about(where, why)
        return (HUNG_UP if isinstance(error, OSError) else UNSENDABLE).about(where, why)


async def close_all(sessions: dict[str, Closable]) -> None:
    """Close the sessions, and take them out."""
    while sessions:
        await sessions.popitem()[1].close()
    await asyncio.sleep(0)  # sockets are closed one turn of the loop later


def _reason(error: Exception) -> str:
    """The cause itself, without aiohttp's wording around it."""
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
    return str(inner or error)


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


# By the names of aiohttp's classes, which overlap: the first match counts.
_FAILURES = {
    "ClientConnectorCertificateError": UNTRUSTED,
    "ClientSSLError": NO_TLS,
    "ServerFingerprintMismatch": UNTRUSTED,
    "ConnectionTimeoutError": NO_CONNECTION,
    "ClientProxyConnectionError": NO_PROXY,
    "ClientConnectorDNSError": NO_SUCH_HOST,
    "ClientConnectorError": REFUSED,
    "ClientHttpProxyError": NO_PROXY,
    "ServerDisconnectedError": HUNG_UP,
    "ClientOSError": HUNG_UP,
    "ClientPayloadError": BROKEN_OFF,
    "ClientConnectionError": HUNG_UP,
    "ClientResponseError": NO_HTTP,
    "InvalidURL": NO_ADDRESS,
    "ClientError": NO_HTTP,
}


def _proxy(scheme: str, host: str) -> str | None:
    """The proxy that the environment names for this address (``http_proxy``, ``no_proxy`` …).

    Never for this machine: a proxy elsewhere would look for the server on its own machine.
    """
    proxy = getproxies().get(scheme)
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


def _check_installed() -> None:
    """The extra is there as a whole or not at all, whichever part of it an address needs."""
    try:
        is_there = all(find_spec(name) is not None for name in ("aiohttp", "httptools"))
    except ImportError:
        is_there = False
    if not is_there:
        raise missing_packages()


def _import_aiohttp() -> ModuleType:
    try:
        import aiohttp
    except ImportError:
        raise missing_packages() from None
    return aiohttp
