"""One keep-alive pool of connections: a request goes in, an ``HttpReply`` or a ``Failure`` comes out.

Only this module knows aiohttp. Cookies are not kept, redirects not followed, and no more of a body is
read than the limit allows.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.request import getproxies, proxy_bypass

from lm_eval.errors import MissingExtraError, UsageError
from lm_eval.models.http.failures import Failure, Redact, final, shorten, unreachable

try:
    import aiohttp
    import yarl
except ImportError:
    raise MissingExtraError(
        "Models over HTTP need the package aiohttp.", install="pip install 'lm-eval-formats[api]'"
    ) from None

if TYPE_CHECKING:
    from collections.abc import Iterable

CONNECT_S = 5.0
"""How long connecting may take, name look-up and TLS included, before any server has answered."""

_LATER_CONNECT_S = 15.0
_LARGE = 2**20
"""Bytes above which a body counts as large."""
_LARGE_AT_ONCE = 2
"""How many large bodies are read at a time."""


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
    """What a server answered, whatever the status; ``where`` is its address without secrets."""

    where: str
    status: int
    headers: Iterable[tuple[bytes, bytes]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Target:
    """An address, parsed once, with the proxy that leads there."""

    shown: str
    url: yarl.URL
    proxy: str | None


class Client:
    """Connections to all addresses that are asked. They open in the loop of the first request.

    ``sessions`` holds what is open, apart from the client, for its owner to close.
    """

    def __init__(self, options: TransportOptions, *, connections: int, redact: Redact) -> None:
        self._connections = connections
        self._timeout_s = options.timeout_s
        self._ssl = _tls(options.verify_certificate, options.ca_cert_path)
        self._limit = options.max_response_bytes
        self._redact = redact
        self.sessions: list[aiohttp.ClientSession] = []
        self._targets: dict[str, Target] = {}
        self._first_timeout = aiohttp.ClientTimeout(
            total=options.timeout_s, connect=min(CONNECT_S, options.timeout_s)
        )
        self.was_answered = False

    async def exchange(
        self, address: str, body: bytes | None, headers: Mapping[str, str]
    ) -> HttpReply | Failure:
        """Send once, without a body as a GET. Everything that can happen on the way is a ``Failure``."""
        target = self._targets.get(address) or self._parse(address)
        if isinstance(target, Failure):
            return target
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
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            return self._failure(target.shown, error)
        if content is None:
            return _TOO_LARGE.about(target.shown, f"{self._limit:,}")
        return HttpReply(target.shown, status, raw, content)

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
        # Large, without a length, or compressed: nobody knows how much will come.
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > min(_LARGE, self._limit):
                break
        else:
            return bytes(body)
        async with self._large:
            while len(body) <= self._limit:
                chunk = await response.content.readany()
                if not chunk:
                    return bytes(body)
                body += chunk
        response.close()
        return None

    def _open(self) -> aiohttp.ClientSession:
        self._large = asyncio.Semaphore(_LARGE_AT_ONCE)  # of the loop that runs now
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, ssl=self._ssl),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=self._timeout_s, sock_connect=min(_LATER_CONNECT_S, self._timeout_s)
            ),
        )
        self.sessions.append(session)
        return session

    def _parse(self, address: str) -> Target | Failure:
        try:
            url = yarl.URL(address)
            shown = str(url.with_user(None).with_query(None).with_fragment(None))
        except ValueError as error:
            shown, why = (shorten(self._redact(text)) for text in (address, str(error)))
            return _NO_ADDRESS.about(shown, why)
        shown = shorten(self._redact(shown))
        if url.scheme not in ("http", "https") or not url.host:
            return _NO_ADDRESS.about(shown, "it needs http:// or https:// and a host")
        self._targets[address] = Target(shown, url, _proxy(url.scheme, url.host))
        return self._targets[address]

    def _failure(self, where: str, error: Exception) -> Failure:
        cause: Any = getattr(error, "os_error", None) or error
        if getattr(cause, "errno", None) in (errno.EMFILE, errno.ENFILE):
            return _NO_DESCRIPTORS.about(where, str(self._connections))
        failure = next(failure for kind, failure in _FAILURES if isinstance(error, kind))
        if isinstance(error, TimeoutError):
            return failure.about(where, f"{self._timeout_s:g}")
        why = shorten(self._redact(_reason(error, cause)))
        return failure.about(where, why or type(error).__name__)


_CHECK_ADDRESS = "Check the address, and that the server runs."
_UNTRUSTED = final(
    "The certificate of {where} is not trusted: {why}",
    "Name its authority with ca_cert_path=FILE, or switch the check off with "
    "verify_certificate=False if you know the server.",
)
_NO_ADDRESS = final(
    "{where!r} is not the address of a server: {why}", "Write it as http://host:port/path."
)
_NO_DESCRIPTORS = final(
    "No connection to {where}: this process has too few file descriptors for {why} connections",
    "Raise the limit (ulimit -n), or lower num_concurrent.",
)
_NO_PROXY = unreachable("the proxy: {why}")
_NO_HTTP = Failure("{where} sent something that is not HTTP: {why}", _CHECK_ADDRESS)
_HUNG_UP = Failure("{where} closed the connection without an answer", _CHECK_ADDRESS)
_TOO_LARGE = Failure(
    "{where} sent more than {why} bytes for one request",
    "Ask for less in one request, or check what the server sends.",
)
_FAILURES: tuple[tuple[type[Exception], Failure], ...] = (
    (aiohttp.ConnectionTimeoutError, unreachable("no connection in time")),
    (
        asyncio.TimeoutError,
        Failure(
            "{where} did not finish its answer within {why} s",
            "Allow more with timeout=SECONDS in --model_args.",
        ),
    ),
    (aiohttp.ClientConnectorCertificateError, _UNTRUSTED),
    (
        aiohttp.ClientSSLError,
        final(
            "No secure connection to {where}: {why}",
            "Does the server speak https? If not, write http:// in the address.",
        ),
    ),
    (aiohttp.ClientProxyConnectionError, _NO_PROXY),
    (aiohttp.ClientConnectorDNSError, unreachable("no such host ({why})")),
    (aiohttp.ClientConnectorError, unreachable("{why}")),
    (aiohttp.ClientHttpProxyError, _NO_PROXY),
    (aiohttp.ClientPayloadError, Failure("{where} broke off in the middle of its answer: {why}")),
    (aiohttp.ClientResponseError, _NO_HTTP),
    (aiohttp.InvalidURL, _NO_ADDRESS),
    (OSError, _HUNG_UP),
    (aiohttp.ClientConnectionError, _HUNG_UP),
    (aiohttp.ClientError, _NO_HTTP),
    (ValueError, final("The request to {where} cannot be sent: {why}")),
)
"""What aiohttp raises → what it means. The kinds overlap: the first match counts."""


def _reason(error: Any, cause: Any) -> str:
    """The cause itself, without aiohttp's wording around it."""
    if isinstance(cause, OSError) and not isinstance(cause, ssl.SSLError) and cause.errno:
        return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
    return str(getattr(error, "certificate_error", None) or getattr(error, "message", cause))


async def close_all(sessions: list[aiohttp.ClientSession]) -> None:
    """Close the sessions, and take them out."""
    while sessions:
        await sessions.pop().close()
    await asyncio.sleep(0)  # sockets are closed one turn of the loop later


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
