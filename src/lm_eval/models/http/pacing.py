"""How fast requests are sent: how many at a time, and when the server wants a pause.

``Pace`` is asked before each request and told about each reply. A given number of connections stays as
it is; ``auto`` finds one: it grows while replies come as fast as before, and shrinks when the server
refuses (429) or replies get slow. ``Meanwhile`` is what the caller does while requests are under way.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from statistics import median
from typing import Literal, Protocol

LONGEST_WAIT_S = 600.0
"""No pause that a server asks for is longer: after ten minutes we ask again."""

LARGEST_AUTO = 256
_FIRST_AUTO = 4
_SLOWER = 2.0  # replies that take twice as long as the best round mean: too many at a time
_NO_BETTER = 0.8
_SHRINK = 0.7
_TELL_FROM_S = 5.0

_LOG = logging.getLogger(__name__)
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)(ms|s|m|h|d))")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Meanwhile(Protocol):
    """What the consumer of a window's results does while other requests are under way."""

    def flush(self) -> None:
        """Called before the loop moves on: results that were taken are made safe."""

    @property
    def is_ready(self) -> bool:
        """Whether there is something to do while the loop would only wait."""

    def work(self) -> None:
        """Do a little of it."""


class Pace:
    """The number of requests in flight, ``size``, and the pause all of them keep."""

    def __init__(self, num_concurrent: int | Literal["auto"]) -> None:
        self._auto = AutoSize() if num_concurrent == "auto" else None
        self._fixed = 1 if num_concurrent == "auto" else num_concurrent
        self._resume_at = 0.0

    @property
    def size(self) -> int:
        return self._fixed if self._auto is None else self._auto.size

    @property
    def largest(self) -> int:
        """The largest ``size`` there can be."""
        return self._fixed if self._auto is None else LARGEST_AUTO

    @property
    def is_paused(self) -> bool:
        return self._resume_at > time.monotonic()

    def pause(self, wait_s: float) -> None:
        """Hold back every request for ``wait_s``; a longer pause that has begun stays."""
        wait_s = min(wait_s, LONGEST_WAIT_S)
        if wait_s >= _TELL_FROM_S and not self.is_paused:
            _LOG.warning("The server asks for a pause of %.0f s.", wait_s)
        self._resume_at = max(self._resume_at, time.monotonic() + wait_s)

    async def clear(self) -> None:
        """Return when the pause is over, each caller a little later, so that not all start at once."""
        while (left_s := self._resume_at - time.monotonic()) > 0:
            await asyncio.sleep(left_s + random.uniform(0, min(1.0, left_s / 4)))

    def answered(self, latency_s: float, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Learn from a good reply: how long it took, and whether it used up the allowance."""
        if self._auto is not None:
            self._auto.finished(latency_s)
        wait_s = allowance_wait(headers)
        if wait_s:
            self.pause(wait_s)

    def refused(self) -> None:
        """Learn from a 429."""
        if self._auto is not None:
            self._auto.refused()

    def begin(self) -> None:
        """Measure afresh: other work begins, whose replies may be faster or slower."""
        if self._auto is not None:
            self._auto.forget()


class AutoSize:
    """A number of connections that finds its own ``size``, between 1 and ``LARGEST_AUTO``.

    It is judged in rounds of ``size`` replies by the median time they took. Up to the first trouble it
    doubles each round; after that it grows by one, and shrinks by three tenths when a round takes twice
    as long as the best one. A round that is no faster after shrinking shows that the work itself has
    become slower: its time is the new measure.
    """

    def __init__(self) -> None:
        self.size = _FIRST_AUTO
        self._is_new = True
        self._round: list[float] = []
        self._skip = 0
        self._best_s: float | None = None
        self._cut_s: float | None = None

    def forget(self) -> None:
        self._round.clear()
        self._skip = 0
        self._best_s = self._cut_s = None

    def finished(self, latency_s: float) -> None:
        if self._skip:  # sent before the last change
            self._skip -= 1
            return
        self._round.append(latency_s)
        if len(self._round) >= self.size:
            self._judge(median(self._round))
            self._round.clear()

    def refused(self) -> None:
        """Shrink; the refusals of one round count once."""
        if not self._skip:
            self._shrink()

    def _judge(self, latency_s: float) -> None:
        if self._best_s is None or latency_s < self._best_s:
            self._best_s = latency_s
        if latency_s <= _SLOWER * self._best_s:
            self._cut_s = None
            self._grow()
        elif self._cut_s is not None and latency_s > _NO_BETTER * self._cut_s:
            self._best_s, self._cut_s = latency_s, None
        else:
            self._cut_s = latency_s
            self._shrink()

    def _grow(self) -> None:
        before = self.size
        self.size = min(LARGEST_AUTO, before * 2 if self._is_new else before + 1)
        if self._is_new:
            self._skip = before

    def _shrink(self) -> None:
        self._is_new = False
        self._round.clear()
        self._skip = self.size
        self.size = max(1, int(self.size * _SHRINK))


def allowance_wait(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Seconds until an allowance is renewed that ``x-ratelimit-remaining-*`` says is used up."""
    spent = [
        name[21:].lower()
        for name, value in headers
        if name[:21].lower() == b"x-ratelimit-remaining" and value.strip() in (b"0", b"0.0")
    ]
    if not spent:
        return None
    resets = {name.lower(): value for name, value in headers}
    waits = [
        reset_wait(resets.get(b"x-ratelimit-reset" + kind, b"").decode("latin-1")) for kind in spent
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def retry_after(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    """Seconds the server asks to wait before trying again: ``Retry-After``, or an empty allowance.

    Never more than ``LONGEST_WAIT_S``.
    """
    wait_s = _asked_wait(headers)
    return None if wait_s is None else min(wait_s, LONGEST_WAIT_S)


def _asked_wait(headers: Iterable[tuple[bytes, bytes]]) -> float | None:
    asked = {name.lower(): value.decode("latin-1").strip() for name, value in headers}
    in_ms = _number(asked.get(b"retry-after-ms", ""))
    if in_ms is not None:
        return max(0.0, in_ms / 1000)
    if b"retry-after" in asked:
        text = asked[b"retry-after"]
        in_s = _number(text)
        return max(0.0, in_s) if in_s is not None else _until(text)
    return allowance_wait(headers)


def reset_wait(text: str) -> float | None:
    """Seconds until an ``x-ratelimit-reset-*``: a duration (``6m0s``), seconds, or a moment in time."""
    text = text.strip()
    number = _number(text)
    if number is not None:
        if number > 1e12:  # milliseconds since 1970
            number /= 1000
        return max(0.0, number - time.time() if number > 1e9 else number)
    if text and not _DURATION.sub("", text):
        return sum(float(count) * _UNITS_S[unit] for count, unit in _DURATION.findall(text))
    return _until(text)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None  # also no NaN


def _until(moment: str) -> float | None:
    """Seconds from now to a date, in either of the two formats that servers use."""
    for parse in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            when = parse(moment)
        except (ValueError, TypeError, LookupError, ArithmeticError):
            continue
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, when.timestamp() - time.time())
    return None
