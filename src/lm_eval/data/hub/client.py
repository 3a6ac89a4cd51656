"""An HTTP client for the hub: JSON and files over kept connections, redirects, retries, a deadline.

It uses Python's ``http.client``: the hub's own library needs a dozen packages, and retries a dead host
for half a minute. The token is sent only to the hub's host, never to the target of a redirect.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, TypeVar
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from lm_eval.data.hub.settings import HubSettings

T = TypeVar("T")

CONNECT_S = 3.5
"""The longest time to reach a host, including the lookup of its name and all its addresses."""
READ_S = 20.0
"""The longest pause within an answer."""
ATTEMPTS = 4
_FIRST_PAUSE_S = 0.5
_MAX_PAUSE_S = 10.0
_RETRIED = (408, 425, 429, 500, 502, 503, 504)
_MAX_REDIRECTS = 8
_MAX_JSON_BYTES = 64 * 2**20
_MAX_ERROR_BYTES = 64 * 2**10


class UnreachableHubError(Exception):
    """There was no usable answer; the message says why.

    ``is_final``: trying again at once is of no use. ``pause_s``: how long the server asks to wait.
    """

    def __init__(self, why: str, *, is_final: bool = False, pause_s: float | None = None) -> None:
        super().__init__(why)
        self.is_final = is_final
        self.pause_s = pause_s


class HubRefusalError(Exception):
    """The hub refused a request: its ``status``, ``code`` (``GatedRepo`` …) and ``message``."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"HTTP {status} {code} {message}".strip())
        self.status = status
        self.code = code
        self.message = message


@dataclass
class HubReply:
    """An answer whose body is read piece by piece."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    response: http.client.HTTPResponse

    def read(self, size: int) -> bytes:
        """The next bytes, empty at the end; ``UnreachableHubError`` where the connection breaks."""
        try:
            return self.response.read(size)
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableHubError(f"the connection broke ({_words(error)})") from None

    @property
    def length(self) -> int | None:
        """The number of bytes of the body, if the server states it."""
        text = self.headers.get("content-length", "")
        return int(text) if text.isdecimal() else None


class HubClient:
    """A client of one hub. Connections are kept between requests; use a client in one thread only."""

    def __init__(self, settings: HubSettings) -> None:
        self.settings = settings
        self._connections: dict[tuple[str, str], http.client.HTTPConnection] = {}

    def __del__(self) -> None:
        self.close()

    def get_json(self, path: str) -> tuple[Any, Mapping[str, str]]:
        """The answer of the hub's API at this path, and its headers."""
        return retried(partial(self._get_json, path))

    def _get_json(self, path: str) -> tuple[Any, Mapping[str, str]]:
        with self.opened(path) as reply:
            data = reply.read(_MAX_JSON_BYTES + 1)
            if len(data) > _MAX_JSON_BYTES:
                raise UnreachableHubError("its answer has no end", is_final=True)
            if reply.length is not None and len(data) < reply.length:
                raise UnreachableHubError("its answer was cut off")
            try:
                return json.loads(data), reply.headers
            except (ValueError, RecursionError):
                raise UnreachableHubError("its answer is not JSON") from None

    @contextmanager
    def opened(self, path: str, headers: Mapping[str, str] | None = None) -> Iterator[HubReply]:
        """The answer to a GET, with redirects followed; errors of the hub raise."""
        reply = self._followed(f"{self.settings.endpoint}{path}", dict(headers or {}))
        try:
            if reply.status >= 400:
                raise _refusal(reply)
            yield reply
        finally:
            if not reply.response.isclosed():  # the rest of the body is not needed
                self.close()

    def close(self) -> None:
        """Close all connections."""
        while self._connections:
            _, connection = self._connections.popitem()
            with suppress(OSError):
                connection.close()

    def _followed(self, url: str, headers: dict[str, str]) -> HubReply:
        home = _origin(urlsplit(url))
        for _ in range(_MAX_REDIRECTS):
            parts = urlsplit(url)
            sent = {"User-Agent": self._user_agent, "Accept-Encoding": "identity", **headers}
            if self.settings.token and _origin(parts) == home:
                sent["Authorization"] = f"Bearer {self.settings.token}"
            reply = self._sent(parts, sent)
            target = reply.headers.get("location")
            if reply.status not in (301, 302, 303, 307, 308) or not target:
                return reply
            _rest(reply)
            url = _redirected(url, target)
        raise UnreachableHubError("it redirects in a circle", is_final=True)

    @cached_property
    def _user_agent(self) -> str:
        import lm_eval

        return f"lm-eval-formats/{lm_eval.__version__}"

    def _sent(self, parts: SplitResult, headers: dict[str, str]) -> HubReply:
        """Send one request; a kept connection that the server has closed is opened again."""
        origin = _origin(parts)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        is_kept = origin in self._connections
        while True:
            connection = self._connections.get(origin) or self._connect(parts)
            try:
                connection.request("GET", connection.prefix + (target or "/"), headers=headers)  # type: ignore[attr-defined]
                response = connection.getresponse()
                self._connections[origin] = connection
                received = {name.lower(): value for name, value in response.getheaders()}
                return HubReply(response.status, received, response)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._connections.pop(origin, None)
                connection.close()
                if not is_kept:
                    raise UnreachableHubError(_words(error)) from None
                is_kept = False

    def _connect(self, parts: SplitResult) -> http.client.HTTPConnection:
        try:
            return _connected(parts)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise UnreachableHubError(_words(error), is_final=True) from None


def quoted(text: str) -> str:
    """A name as a part of a path; ``/`` stays."""
    return quote(text, safe="/")


def next_page(headers: Mapping[str, str]) -> str | None:
    """The path of the next page of a list, from its ``Link`` header; its host is ignored."""
    for link in headers.get("link", "").split(","):
        address, _, relation = link.partition(";")
        if 'rel="next"' in relation:
            parts = urlsplit(address.strip().strip("<>"))
            return f"{parts.path}?{parts.query}"
    return None


def _origin(parts: SplitResult) -> tuple[str, str]:
    return parts.scheme, parts.netloc.lower()


def _redirected(url: str, target: str) -> str:
    try:
        new = urljoin(url, target)
        parts = urlsplit(new)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_usable = False
    if not is_usable:
        raise UnreachableHubError(
            f"it redirects to {target[:80]!r}, which is not a web address", is_final=True
        )
    if urlsplit(url).scheme == "https" and parts.scheme == "http":
        raise UnreachableHubError(
            "it redirects from https to http, where anyone could change the data", is_final=True
        )
    return new


def retried(call: Callable[[], T]) -> T:
    """What ``call`` returns; temporary failures are retried after increasing pauses."""
    for number in range(ATTEMPTS):
        try:
            return call()
        except UnreachableHubError as error:
            if error.is_final or number == ATTEMPTS - 1:
                raise
            time.sleep(_FIRST_PAUSE_S * 2**number if error.pause_s is None else error.pause_s)
    raise AssertionError("the last attempt returns or raises")


def _rest(reply: HubReply) -> None:
    """Read the rest of an unwanted body, so that its connection can be used again."""
    reply.read(_MAX_ERROR_BYTES)


def _refusal(reply: HubReply) -> Exception:
    code = reply.headers.get("x-error-code", "")
    message = reply.headers.get("x-error-message", "")
    if reply.status >= 500 or reply.status in _RETRIED:
        after = reply.headers.get("retry-after", "").strip()
        pause_s = min(int(after), _MAX_PAUSE_S) if after.isdecimal() else None
        why = f"it answers with HTTP {reply.status} {message}".strip()
        return UnreachableHubError(why, pause_s=pause_s)
    if not message:
        with suppress(UnreachableHubError, ValueError, AttributeError, RecursionError):
            message = str(json.loads(reply.read(_MAX_ERROR_BYTES)).get("error") or "")
    return HubRefusalError(reply.status, code, unquote(message)[:300])


def _words(error: Exception) -> str:
    """Why a connection failed, in a few words."""
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid: {error.verify_message}"
    if isinstance(error, socket.gaierror):
        return "its name cannot be looked up"
    if isinstance(error, http.client.IncompleteRead):
        return "the answer was cut off"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


# --- connections ---


def _connected(parts: SplitResult) -> http.client.HTTPConnection:
    """An open connection to a host, or to the proxy that leads there."""
    proxy = _proxy_for(parts)
    way = proxy or parts
    is_tls = parts.scheme == "https"
    port = way.port or (443 if way.scheme == "https" else 80)
    host = way.hostname or ""
    kind = http.client.HTTPSConnection if is_tls else http.client.HTTPConnection
    connection: Any = kind(host, port, timeout=CONNECT_S)
    connection.prefix = ""
    if proxy is not None:
        authorization = _proxy_authorization(proxy)
        if is_tls:
            connection.set_tunnel(parts.hostname, parts.port or 443, headers=authorization)
        else:
            connection.prefix = f"http://{parts.netloc}"
    connection._create_connection = _dial  # the only hook for a deadline over all addresses
    connection.connect()
    connection.sock.settimeout(READ_S)
    return connection  # type: ignore[no-any-return]


def _proxy_for(parts: SplitResult) -> SplitResult | None:
    address = getproxies().get(parts.scheme)
    if not address or proxy_bypass(parts.hostname or ""):
        return None
    return urlsplit(address if "://" in address else f"http://{address}")


def _proxy_authorization(proxy: SplitResult) -> dict[str, str]:
    if not proxy.username:
        return {}
    from base64 import b64encode

    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(user.encode()).decode('ascii')}"}


def _dial(address: tuple[str, int], *_: Any) -> socket.socket:
    """A socket to the first address of a host that answers, within ``CONNECT_S`` in all."""
    deadline = time.monotonic() + CONNECT_S
    addresses = _looked_up(address)
    problem: OSError = TimeoutError()
    for tried, (family, kind, protocol, _name, where) in enumerate(addresses, 1):
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        sock = socket.socket(family, kind, protocol)
        # Half of the time left: often only the second address of a host can be reached.
        sock.settimeout(left_s if tried == len(addresses) else left_s / 2)
        try:
            sock.connect(where)
            sock.settimeout(CONNECT_S)
            return sock
        except OSError as error:
            problem = error
            sock.close()
    raise problem


def _looked_up(address: tuple[str, int]) -> list[Any]:
    """The addresses of a host, looked up in a thread: without a network, a lookup can hang."""
    addresses: list[Any] = []

    def look_up() -> None:
        try:
            addresses.append(socket.getaddrinfo(*address, type=socket.SOCK_STREAM))
        except OSError as error:
            addresses.append(error)

    thread = threading.Thread(target=look_up, daemon=True)
    thread.start()
    thread.join(CONNECT_S)
    if not addresses:
        raise TimeoutError
    if isinstance(addresses[0], OSError):
        raise addresses[0]
    return list(addresses[0])
