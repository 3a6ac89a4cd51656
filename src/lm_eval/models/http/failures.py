"""What went wrong when a request was sent, how the user is told, and when to send it again.

A ``Failure`` is a value: it says whether trying again can help, how long the server wants us to wait,
and whether every other request would fail in the same way. Its text never holds a key. A ``Schedule``
turns the failures of one request into waits.
"""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from lm_eval.errors import RequestError, UnreachableError
from lm_eval.models.http.pacing import retry_after
from lm_eval.support.secrets import shown_address

RETRIED = frozenset({408, 409, 425, 429})
_STOPPING = frozenset({401, 402, 403, 404, 405, 407})
_ADVICE = {
    401: "Check the key in the environment.",
    402: "Check the account behind the key.",
    403: "Check what the key may do.",
    404: "Check the address, path included, and the names in the request.",
    405: "Check the address: is the path complete?",
    407: "Check the proxy's name and password.",
    413: "Send less at a time.",
    429: "Ask for less at a time, or try later.",
    529: "The service is overloaded; try later.",
}
_QUOTED = 400
_READ = 20_000
_PARSED = 1 << 20
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_LOOKS_LIKE_HTML = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)", re.IGNORECASE)

Redact = Callable[[str], str]


class BrokenBody(ValueError):
    """A reply that is not what was asked for. Raised while decoding; the request is sent again.

    ``advice``, ``stops_run`` and ``wait_s`` go into the ``Failure`` that is made of it.
    """

    def __init__(
        self, text: str, advice: str = "", *, stops_run: bool = False, wait_s: float | None = None
    ) -> None:
        super().__init__(text)
        self.advice = advice
        self.stops_run = stops_run
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one attempt to send a request failed."""

    text: str
    advice: str = ""
    status: int | None = None
    can_retry: bool = True
    stops_run: bool = False
    is_unreachable: bool = False
    """Whether no connection could be made."""
    asked_wait_s: float | None = None

    def about(self, where: str, why: str = "") -> Failure:
        """The failure with its text, a pattern, filled in."""
        return replace(self, text=self.text.format(where=where, why=why))

    @property
    def is_refusal(self) -> bool:
        """Whether the server only asks us to slow down."""
        is_busy = self.status == 503 and self.asked_wait_s is not None
        return self.status in (429, 529) or is_busy

    @property
    def is_fault(self) -> bool:
        """Whether the server is at fault, not the request: another server may well answer it."""
        if self.is_refusal or not self.can_retry:
            return False
        return self.status is None or self.status >= 500

    def error(self, attempts: int, *, never_answered: bool) -> RequestError:
        """The error for a request that ends with this failure."""
        times = f" ({attempts} attempts)" if attempts > 1 else ""
        message = f"{self.text}{times}. {self.advice}".rstrip()
        kind = UnreachableError if self.is_unreachable and never_answered else RequestError
        return kind(
            message,
            status=self.status,
            attempts=attempts,
            stops_run=self.stops_run or (never_answered and self.status is None),
            retryable=self.can_retry,
        )


def of_status(
    where: str, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, redact: Redact
) -> Failure:
    """The failure for a reply other than 2xx."""
    if 300 <= status < 400:
        return _redirect(where, status, headers, redact)
    message = server_message(body, redact)
    return Failure(
        f"{where} answered {_phrase(status)}" + (f": {message}" if message else ""),
        advice=_ADVICE.get(status, "The server has a problem; try later." if status >= 500 else ""),
        status=status,
        can_retry=status in RETRIED or status >= 500,
        stops_run=status in _STOPPING,
        asked_wait_s=retry_after(headers) if status in RETRIED or status >= 500 else None,
    )


def of_body(where: str, status: int, body: bytes, error: Exception, redact: Redact) -> Failure:
    """The failure for a 2xx reply whose body cannot be used."""
    text = body[:_READ].decode("utf-8", "replace")
    problem = _one_line(redact(str(error))) or type(error).__name__
    if _LOOKS_LIKE_HTML.match(text):
        problem = _html_summary(text, redact)
    elif isinstance(error, KeyError | IndexError):
        problem = f"it lacks {problem}"
    broken = error if isinstance(error, BrokenBody) else BrokenBody("")
    return Failure(
        f"{where} answered {_phrase(status)} with a body that cannot be read: {problem.rstrip('.')}",
        advice=broken.advice or "Is this the address of the right service?",
        status=status,
        stops_run=broken.stops_run,
        asked_wait_s=broken.wait_s,
    )


def server_message(body: bytes, redact: Redact) -> str:
    """What the server says, on one line: a JSON body's ``error.message``, a page's title, the text."""
    text = body[:_READ].decode("utf-8", "replace")
    if _LOOKS_LIKE_HTML.match(text):
        return _html_summary(text, redact)
    try:
        message = _find_message(json.loads(body)) if len(body) <= _PARSED else None
    except (ValueError, RecursionError):
        message = None
    return shorten(redact(text if message is None else message))


def shorten(text: str) -> str:
    """One line of printable characters, cut after a few hundred."""
    line = _one_line(text)
    return line if len(line) <= _QUOTED else f"{line[:_QUOTED]}…"


def _find_message(content: Any) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content:
        return _find_message(content[0])
    if isinstance(content, dict):
        for key in ("error", "message", "detail", "msg", "error_description"):
            if message := _find_message(content.get(key)):
                return message
    return None


def _html_summary(text: str, redact: Redact) -> str:
    match = _TITLE.search(text)
    title = shorten(redact(html.unescape(match.group(1)))) if match else ""
    return f"an HTML page titled {title!r}" if title else "an HTML page without a title"


def _redirect(
    where: str, status: int, headers: Iterable[tuple[bytes, bytes]], redact: Redact
) -> Failure:
    location = {name.lower(): value for name, value in headers}.get(b"location", b"")
    try:
        target = shown_address(location.decode("latin-1"))
    except ValueError:
        target = "an address that cannot be read"
    return final(
        f"{where} answered {_phrase(status)}, a redirect to {shorten(redact(target))}, "
        "which is not followed because the key would go there",
        "Give the final address.",
        status,
    )


def _phrase(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _one_line(text: str) -> str:
    # Control characters could rewrite the terminal that shows the message.
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def unreachable(why: str) -> Failure:
    """A failure to connect."""
    return Failure(
        f"Nothing answers at {{where}}: {why}",
        "Check the address, and that the server runs.",
        stops_run=True,
        is_unreachable=True,
    )


def final(text: str, advice: str = "", status: int | None = None) -> Failure:
    """A failure that every other request would meet too."""
    return Failure(text, advice, status, can_retry=False, stops_run=True)


# When to send again

UNREACHABLE_S = 15.0
_FIRST_WAIT_S = 0.5
_LONGEST_BACKOFF_S = 30.0
_PATIENCE_S = 60.0
_MORE_WHERE_ASKED = 10
_MOST_REFUSALS = 50


class Schedule:
    """Decides, failure by failure, whether and when one request is sent again."""

    def __init__(self, max_retries: int, *, timeout_s: float) -> None:
        self._max_retries = max_retries
        self._patience_s = max(_PATIENCE_S, 2 * timeout_s)
        self._faults = 0
        self._refusals = 0

    def next_wait(
        self, failure: Failure, *, used_s: float, idle_s: float, connect_s: float | None
    ) -> float | None:
        """Seconds to wait before the next attempt, or None if this failure was the last.

        ``used_s`` is the time since the request was first sent; ``idle_s`` the time since any request
        was answered, infinite if none ever was; ``connect_s`` how long another attempt to connect
        would take, None once a server has answered.
        """
        if not failure.can_retry:
            return None
        if failure.is_refusal:
            wait_s = self._after_refusal(failure, idle_s)
        else:
            wait_s = self._after_fault(failure)
        if wait_s is None or not failure.is_unreachable or connect_s is None:
            return wait_s
        # There must be time for another attempt to connect to a server that never answered.
        return None if used_s + wait_s + connect_s > UNREACHABLE_S else wait_s

    def _after_fault(self, failure: Failure) -> float | None:
        self._faults += 1
        if self._faults > self._max_retries:
            return None
        if failure.asked_wait_s is not None:
            return failure.asked_wait_s
        return random.uniform(0, _bound(self._faults))

    def _after_refusal(self, failure: Failure, idle_s: float) -> float | None:
        self._refusals += 1
        is_asked = failure.asked_wait_s is not None
        limit = self._max_retries + (_MORE_WHERE_ASKED if is_asked else 0)
        is_stuck = self._refusals > limit and idle_s > self._patience_s
        if is_stuck or self._refusals > _MOST_REFUSALS:
            return None
        if failure.asked_wait_s is not None:
            return failure.asked_wait_s
        bound_s = _bound(self._refusals)  # never at once: the server has just said that it is busy
        return random.uniform(bound_s / 2, bound_s)


def _bound(count: int) -> float:
    return min(_LONGEST_BACKOFF_S, _FIRST_WAIT_S * 2.0 ** min(count - 1, 16))
