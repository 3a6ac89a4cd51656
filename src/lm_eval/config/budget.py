"""How much time and memory one template or regular expression may take, and how large a data file is.

They come with task files, and work on text that strangers wrote: a few characters can keep a machine
busy for ever. ``bounded`` stops such a call once its thread has used ``MAX_CPU_S`` of CPU time or the
process has grown by ``MAX_GROWTH_BYTES``; waiting, and a busy machine, do not count. A timer interrupts
Python code and the matching of patterns, but only in the main thread of a system that has such timers;
elsewhere a call is not bounded.
"""

from __future__ import annotations

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
_AGAIN_S = 1.0


class BudgetError(Exception):
    """A call that took more than its share; the message says of what."""


class _Watch:
    """The call that is being timed; there is one at a time, since there is one main thread."""

    def __init__(self) -> None:
        self.is_on = False
        self.is_installed: bool | None = None
        self._started_s = 0.0
        self._peak = 0

    def start(self) -> None:
        self.is_on = True
        self._started_s = time.thread_time()
        self._peak = _peak_bytes()
        signal.setitimer(signal.ITIMER_PROF, _TICK_S, _TICK_S)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.is_on = False

    def install(self) -> bool:
        """Whether ticks arrive here; not where somebody else has a use for that signal."""
        if self.is_installed is None:
            has_timer = hasattr(signal, "setitimer") and hasattr(signal, "SIGPROF")
            is_free = has_timer and signal.getsignal(signal.SIGPROF) is signal.SIG_DFL
            if is_free:
                signal.signal(signal.SIGPROF, self._tick)
            self.is_installed = is_free
        return self.is_installed

    def _tick(self, _number: int, _frame: FrameType | None) -> None:
        if not self.is_on:
            return
        used_s = time.thread_time() - self._started_s
        if used_s > MAX_CPU_S:
            self._started_s += _AGAIN_S  # again, should something have swallowed the error
            raise BudgetError(f"it takes more than {MAX_CPU_S:g} s")
        if _peak_bytes() - self._peak > MAX_GROWTH_BYTES:
            raise BudgetError(f"it takes more than {MAX_GROWTH_BYTES // 2**20:,} MB of memory")


_WATCH = _Watch()


def bounded(call: Callable[..., T], *args: Any) -> T:
    """What ``call(*args)`` returns; ``BudgetError`` where it takes too much time or memory."""
    watch = _WATCH
    if (
        watch.is_on  # part of a call that is bounded already
        or threading.current_thread() is not threading.main_thread()
        or not watch.install()
    ):
        return call(*args)
    watch.start()
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
