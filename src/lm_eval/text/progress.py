"""Progress of a run on standard error: a bar on a terminal, an occasional line in a log.

A background thread looks at the count, so ``advance`` is one addition, and a first answer that
takes a minute is a minute with a bar on the screen.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

from lm_eval.text.terminal import err_console, is_terminal, visible

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

SHOW_AFTER_S = 1.0
BAR_EVERY_S = 0.2
LINE_EVERY_S = 10.0


class Progress:
    """Shows how many of ``total`` are done, once it takes longer than a second.

        with Progress("demo_mcq@cot", total=20) as progress:
            for doc in docs:
                ...
                progress.advance()

    ``done`` counts what was finished before this run, and stays out of the rate. ``total=None`` is
    an unknown total, ``unit="bytes"`` shows megabytes. ``enabled=False`` starts nothing and prints
    nothing.
    """

    def __init__(
        self,
        description: str,
        total: int | None,
        *,
        done: int = 0,
        enabled: bool = True,
        stream: TextIO | None = None,
        unit: Literal["", "bytes"] = "",
    ) -> None:
        self.description = visible(description, 60)
        self._described = description
        self.total = total
        self.done = done
        self._unit = unit
        self._before = done
        self._stream = stream if stream is not None else sys.stderr
        self._enabled = enabled and self._stream is not None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._started = 0.0

    def advance(self, n: int = 1) -> None:
        """``n`` more are done."""
        self.done += n

    def found(self, n: int = 1) -> None:
        """``n`` were finished before this run; they stay out of the rate."""
        self.done += n
        self._before += n

    def describe(self, description: str) -> None:
        """What is being done now."""
        if description != self._described:
            self._described = description
            self.description = visible(description, 60)

    def state(self) -> State:
        """The count and what follows from it, now."""
        elapsed_s = max(time.monotonic() - self._started, 1e-9)
        rate = (self.done - self._before) / elapsed_s
        return State(self.description, self.done, self.total, rate, self._unit)

    def __enter__(self) -> Progress:
        self._started = time.monotonic()
        if self._enabled:
            self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self) -> None:
        if self._over.wait(SHOW_AFTER_S):
            return
        display = _display(self._stream, self.state())
        try:
            display.show(self.state())
            while not self._over.wait(display.every_s):
                display.show(self.state())
        finally:
            display.close(self.state())


@dataclass(frozen=True)
class State:
    """The progress at one moment."""

    description: str
    done: int
    total: int | None
    rate: float
    """Finished per second, on average since the start."""
    unit: str = ""

    @property
    def count(self) -> str:
        if self.unit == "bytes":
            of = "" if self.total is None else f"/{self.total / 1e6:.1f}"
            return f"{self.done / 1e6:.1f}{of} MB"
        return f"{self.done}/{self.total}" if self.total is not None else str(self.done)

    @property
    def speed(self) -> str:
        if not self.rate:
            return ""
        if self.unit == "bytes":
            return f"{self.rate / 1e6:.1f} MB/s"
        return f"{self.rate:.1f}/s" if self.rate >= 0.1 else f"{self.rate * 60:.1f}/min"

    @property
    def left(self) -> str:
        """Time left, as ``3 s``, ``4 min`` or ``2 h 5 min``; empty if it is not known."""
        if not self.rate or self.total is None or self.done >= self.total:
            return ""
        return f"{_duration((self.total - self.done) / self.rate)} left"

    def __str__(self) -> str:
        parts = [self.count, self.speed, self.left]
        return f"{self.description}: {', '.join(part for part in parts if part)}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


class _Display(Protocol):
    every_s: float

    def show(self, state: State) -> None: ...

    def close(self, state: State) -> None: ...


def _display(stream: TextIO, state: State) -> _Display:
    return _Bar(state) if stream is sys.stderr and is_terminal(stream) else _LogLines(stream)


class _LogLines:
    """One plain line at a time, for logs."""

    def __init__(self, stream: TextIO) -> None:
        self.every_s = LINE_EVERY_S
        self._stream = stream
        self._last: State | None = None

    def show(self, state: State) -> None:
        self._last = state
        print(state, file=self._stream, flush=True)

    def close(self, state: State) -> None:
        if self._last is not None and self._last.count != state.count:
            self.show(state)


class _Bar:
    """A bar that stays on the last line of the terminal; warnings go above it."""

    def __init__(self, state: State) -> None:
        self.every_s = BAR_EVERY_S
        self._progress = _rich_progress()
        self._task = self._progress.add_task(
            state.description, total=state.total, count="", speed="", left=""
        )
        self._progress.start()

    def show(self, state: State) -> None:
        self._progress.update(
            self._task,
            description=state.description,
            completed=state.done,
            count=state.count,
            speed=state.speed,
            left=state.left,
        )
        self._progress.refresh()

    def close(self, state: State) -> None:
        self.show(state)
        self._progress.stop()


def _rich_progress() -> RichProgress:
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress

    texts = ("count", "speed", "left")
    return RichProgress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *(TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in texts),
        console=err_console(),
        auto_refresh=False,
        redirect_stdout=False,  # results go to standard output, also when it is a pipe
    )
