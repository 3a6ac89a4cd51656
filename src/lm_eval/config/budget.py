"""How much time and memory one template or regular expression may take, and how large a data file is.

They come with task files, and work on text that strangers wrote: a few characters can keep a machine
busy for ever. ``bounded`` stops such a call once its thread has used ``MAX_CPU_S`` of CPU time or the
process has grown by ``MAX_GROWTH_BYTES``; waiting, and a busy machine, do not count. A timer interrupts
Python code and the matching of patterns, but only in the main thread of a system that has such timers;
elsewhere a call is not bounded.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

from lm_eval.errors import ConfigError, DataError

T = TypeVar("T")

MAX_CPU_S = 10.0
MAX_GROWTH_BYTES = 2**30
MAX_DATA_MB = 1024
MAX_DATA_VARIABLE = "LM_EVAL_MAX_DATA_MB"
_TICK_S = 0.02
_TICKS_IDLE = 10
_AGAIN_S = 1.0


class BudgetError(Exception):
    """A call that took more than its share; the message says of what."""


class _BudgetWatch:
    """The call that is being timed; there is one at a time, since there is one main thread.

    Starting and stopping must cost next to nothing, so the timer goes on ticking for a while after a
    call, and a call's time counts from the first tick that finds it.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._is_usable: bool | None = None
        self._is_ticking = False
        self._number = 0
        self._ticks_idle = 0
        self._max_cpu_s = MAX_CPU_S
        self._since: tuple[int, float, int] = (0, 0.0, 0)
        """The call that the last tick found, and this thread's CPU time and the peak memory then."""

    @property
    def is_usable(self) -> bool:
        """Whether ticks can arrive here; not where somebody else has a use for that signal."""
        if self._is_usable is None:
            has_timer = hasattr(signal, "setitimer") and hasattr(signal, "SIGPROF")
            self._is_usable = has_timer and signal.getsignal(signal.SIGPROF) is signal.SIG_DFL
            if self._is_usable:
                signal.signal(signal.SIGPROF, self._tick)
                signal.siginterrupt(signal.SIGPROF, False)
                atexit.register(
                    signal.setitimer, signal.ITIMER_PROF, 0
                )  # a tick after the end kills
        return self._is_usable

    def start(self, max_cpu_s: float | None) -> None:
        self.is_on = True
        self._max_cpu_s = MAX_CPU_S if max_cpu_s is None else max_cpu_s
        self._number += 1
        if not self._is_ticking:
            self._is_ticking = True
            signal.setitimer(signal.ITIMER_PROF, _TICK_S, _TICK_S)

    def stop(self) -> None:
        self.is_on = False

    def _tick(self, _signal: int, _frame: FrameType | None) -> None:
        if not self.is_on:
            self._ticks_idle += 1
            if self._ticks_idle > _TICKS_IDLE:
                signal.setitimer(signal.ITIMER_PROF, 0)
                self._is_ticking = False
            return
        self._ticks_idle = 0
        now_s, peak = time.thread_time(), _peak_bytes()
        number, since_s, peak_then = self._since
        if number != self._number:
            self._since = (self._number, now_s, peak)
        elif now_s - since_s > self._max_cpu_s:
            self._since = (number, since_s + _AGAIN_S, peak)  # should something swallow the error
            raise BudgetError(f"it takes more than {self._max_cpu_s:g} s")
        elif peak - peak_then > MAX_GROWTH_BYTES:
            self._since = (number, since_s, peak)
            raise BudgetError(f"it takes more than {MAX_GROWTH_BYTES // 2**20:,} MB of memory")


_WATCH = _BudgetWatch()


def bounded(call: Callable[..., T], *args: Any, max_cpu_s: float | None = None) -> T:
    """What ``call(*args)`` returns; ``BudgetError`` where it takes too much time or memory.

    ``max_cpu_s`` is in place of ``MAX_CPU_S``.
    """
    watch = _WATCH
    if (
        watch.is_on  # part of a call that is bounded already
        or threading.current_thread() is not threading.main_thread()
        or not watch.is_usable
    ):
        return call(*args)
    watch.start(max_cpu_s)
    try:
        return call(*args)
    finally:
        watch.stop()


def bounded_match(match: Callable[[str], T], text: str, *, pattern: str, owner: str) -> T:
    """What a user's pattern finds in a text; a pattern that takes too long is a ``ConfigError``."""
    try:
        return bounded(match, text)
    except BudgetError as error:
        raise ConfigError(
            f"{owner}: the pattern {pattern[:80]!r} was stopped on a text of {len(text):,} characters: "
            f"{error}. Write it without a repetition inside a repetition, such as `(a+)+`."
        ) from None


def max_data_bytes() -> int:
    """How much one data file may hold, once it is unpacked."""
    mb = os.environ.get(MAX_DATA_VARIABLE, "")
    return (int(mb) if mb.isdecimal() else MAX_DATA_MB) * 2**20


def check_data_size(size: int, path: Path) -> None:
    """Refuse a data file that is larger than that; a few bytes can unpack to more than a disk holds."""
    if size > max_data_bytes():
        raise DataError(
            f"{path} holds more than {max_data_bytes() // 2**20:,} MB, unpacked. Split the file, or set "
            f"{MAX_DATA_VARIABLE} to the MB that one data file may hold."
        )


def _peak_bytes() -> int:
    """The most memory this process has had so far; 0 where the system does not tell."""
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
