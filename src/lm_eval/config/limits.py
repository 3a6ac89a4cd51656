"""Limits: what templates and regular expressions may do, and how large a data file may be.

Templates and patterns come with task files and process text from strangers: a few characters can keep a
machine busy forever. ``bounded`` stops such a call once its thread has used ``MAX_CPU_S`` of CPU time or
the process has grown by ``MAX_GROWTH_BYTES``; waiting, and a busy machine, do not count. A timer
interrupts Python code and pattern matching, but only in the main thread of a system with such timers;
elsewhere a call is not bounded.

A single step in C, such as ``'x' * 10**10``, cannot be interrupted. The ``Sandbox`` of templates allows
no escape and no randomness, and refuses results of operators of more than ``MAX_ITEMS`` or ``MAX_BITS``.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from jinja2 import Environment, TemplateSyntaxError, nodes, pass_environment
from jinja2.exceptions import SecurityError
from jinja2.filters import make_attrgetter
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lm_eval.errors import ConfigError, DataError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


T = TypeVar("T")

MAX_CPU_S = 10.0
MAX_GROWTH_BYTES = 2**30
MAX_DATA_MB = 1024
MAX_DATA_VARIABLE = "LM_EVAL_MAX_DATA_MB"
_TICK_S = 0.02
_TICKS_IDLE = 10
_AGAIN_S = 1.0


class BudgetError(Exception):
    """A call that exceeded a limit; the message says which."""


class _BudgetWatch:
    """The call that is being timed; there is one at a time, since there is one main thread.

    Starting and stopping must cost almost nothing, so the timer goes on ticking for a while after a
    call, and the time of a call counts from its first tick.
    """

    def __init__(self) -> None:
        self.is_on = False
        self._is_usable: bool | None = None
        self._is_ticking = False
        self._number = 0
        self._ticks_idle = 0
        self._max_cpu_s = MAX_CPU_S
        self._since: tuple[int, float, int] = (0, 0.0, 0)
        """The call at the last tick, with this thread's CPU time and the peak memory then."""

    @property
    def is_usable(self) -> bool:
        """Whether ticks can arrive; not if something else handles that signal."""
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
            self._since = (number, since_s + _AGAIN_S, peak)  # in case the error is swallowed
            raise BudgetError(f"it takes more than {self._max_cpu_s:g} s")
        elif peak - peak_then > MAX_GROWTH_BYTES:
            self._since = (number, since_s, peak)
            raise BudgetError(f"it takes more than {MAX_GROWTH_BYTES // 2**20:,} MB of memory")


_WATCH = _BudgetWatch()


def bounded(call: Callable[..., T], *args: Any, max_cpu_s: float | None = None) -> T:
    """What ``call(*args)`` returns; ``BudgetError`` if it takes too much time or memory.

    ``max_cpu_s`` replaces ``MAX_CPU_S``.
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
    """The matches of a user's pattern in a text; a pattern that takes too long is a ``ConfigError``."""
    try:
        return bounded(match, text)
    except BudgetError as error:
        raise ConfigError(
            f"{owner}: the pattern {pattern[:80]!r} was stopped on a text of {len(text):,} characters: "
            f"{error}. Write it without a repetition inside a repetition, such as `(a+)+`."
        ) from None


def max_data_bytes() -> int:
    """The most bytes of one data file, unpacked."""
    mb = os.environ.get(MAX_DATA_VARIABLE, "")
    return (int(mb) if mb.isdecimal() else MAX_DATA_MB) * 2**20


def check_data_size(size: int, path: Path) -> None:
    """Refuse a larger data file; a few bytes can unpack to more than fits on a disk."""
    if size > max_data_bytes():
        raise DataError(
            f"{path} holds more than {max_data_bytes() // 2**20:,} MB, unpacked. Split the file, or set "
            f"{MAX_DATA_VARIABLE} to the MB that one data file may hold."
        )


def _peak_bytes() -> int:
    """The peak memory of this process; 0 if the system does not tell."""
    if resource is None:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


MAX_ITEMS = 10_000_000
"""The most characters of a text, or items of a list, that an operator may make."""
MAX_BITS = 100_000
"""The largest number that an operator may make, in bits."""
JOINED = "_joined"
"""The filter that ``a ~ b`` is compiled to."""
COMPILE_ERRORS = (TemplateSyntaxError, SyntaxError, RecursionError, MemoryError, OverflowError)
"""What compiling a template raises: mistakes, or more nesting than Python allows."""


@pass_environment
def _sum(
    environment: Environment, iterable: Iterable[Any], attribute: str | None = None, start: Any = 0
) -> Any:
    """Jinja's ``sum``, step by step: a sum of lists as one step in C could not be interrupted."""
    if attribute is not None:
        iterable = map(make_attrgetter(environment, attribute), iterable)
    for value in iterable:
        start = start + value
    return start


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's immutable sandbox, without randomness and without huge results of one step."""

    intercepted_binops = frozenset({"*", "**", "+"})

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        del self.filters["random"]
        del self.globals["lipsum"]
        self.filters |= {"sum": _sum, JOINED: joined}

    @staticmethod
    def concat(parts: Iterable[str]) -> str:
        """The text of a template's parts."""
        texts, length = [], 0
        for part in parts:
            length += len(part)
            _check_items(length)
            texts.append(part)
        return "".join(texts)

    def _generate(
        self,
        source: nodes.Template,
        name: str | None,
        filename: str | None,
        defer_init: bool = False,
    ) -> str:
        for node in source.find_all(nodes.Concat):
            parts = nodes.List(list(node.nodes), lineno=node.lineno)
            node.nodes = [nodes.Filter(parts, JOINED, [], [], None, None, lineno=node.lineno)]
        return super()._generate(source, name, filename, defer_init)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        _check_result(operator, left, right)
        return super().call_binop(context, operator, left, right)


def joined(parts: Sequence[Any]) -> str:
    """``a ~ b``: the parts as one text."""
    text = "".join(map(str, parts))
    _check_items(len(text))
    return text


def _check_items(items: int) -> None:
    if items > MAX_ITEMS:
        raise SecurityError(
            f"a text or list of more than {MAX_ITEMS:,} items is not made in templates"
        )


def _check_result(operator: str, left: Any, right: Any) -> None:
    """Refuse a result that would be made in one step of C, which nothing could interrupt."""
    sizes = [len(value) for value in (left, right) if isinstance(value, str | list | tuple)]
    if operator == "+":
        _check_items(sum(sizes))
    elif isinstance(left, int) and isinstance(right, int):
        size = left.bit_length()
        bits = size * abs(right) if operator == "**" else size + right.bit_length()
        if bits > MAX_BITS:
            raise SecurityError(
                f"a number of more than {MAX_BITS:,} bits is not computed in templates"
            )
    elif sizes and operator == "*":
        times = right if isinstance(right, int) else left
        _check_items(sizes[0] * times if isinstance(times, int) else 0)
