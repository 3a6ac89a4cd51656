"""Progress of a run on standard error: a bar on a terminal, a line a minute in a log.

A background thread looks at the count, so ``advance`` is one addition, and a first answer that
takes a minute is a minute with a bar on the screen. ``RunPace`` says how long the rest of a run takes.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, Self, TextIO

from lm_eval.support.files import cache_folder, write_whole
from lm_eval.support.numbers import short_time
from lm_eval.support.terminal import err_console, is_terminal, visible

SHOW_AFTER_S = 1.0
BAR_EVERY_S = 0.2
LINE_EVERY_S = 60.0


class Progress:
    """Shows how many of ``total`` are done, once it takes longer than a second.

        with Progress("demo_mcq@cot", total=20) as progress:
            for doc in docs:
                ...
                progress.advance()

    ``done`` counts what was finished before this run, and stays out of the rate. ``total=None`` is
    an unknown total, ``unit="bytes"`` shows megabytes. ``pace`` knows the time left if not all
    take equally long. ``enabled=False`` starts nothing and prints nothing.
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
        pace: RunPace | None = None,
    ) -> None:
        self.description = visible(description, 60)
        self._described = description
        self.total = total
        self.done = done
        self._unit = unit
        self._pace = pace
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

    def rate(self) -> float:
        """Finished per second: on average since the start, or of the kind that is asked now."""
        if self._pace is not None:
            return self._pace.rate()
        return (self.done - self._before) / max(time.monotonic() - self._started, 1e-9)

    def words(self) -> tuple[str, str, str]:
        """``3/20``, ``1.2/s`` and ``14 s left``, each empty if it is not known."""
        done, total, rate = self.done, self.total, self.rate()
        if self._unit == "bytes":
            of = "" if total is None else f"/{total / 1e6:.1f}"
            count, speed = f"{done / 1e6:.1f}{of} MB", f"{rate / 1e6:.1f} MB/s"
        else:
            count = f"{done}/{total}" if total is not None else str(done)
            speed = f"{rate:.1f}/s" if rate >= 0.1 else f"{rate * 60:.1f}/min"
        left = ""
        if self._pace is not None:
            left = time_left(*self._pace.left())
        elif rate and total is not None and done < total:
            left = f"{short_time((total - done) / rate)} left"
        return count, speed if rate else "", left

    def __str__(self) -> str:
        return f"{self.description}: {', '.join(filter(None, self.words()))}"

    def __enter__(self) -> Self:
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
        if self._stream is sys.stderr and is_terminal(self._stream):
            self._draw()
        else:
            self._log()

    def _log(self) -> None:
        """One plain line at a time."""
        is_over, said = False, ""
        while not is_over or said != self.words()[0]:
            said = self.words()[0]
            print(self, file=self._stream, flush=True)
            is_over = is_over or self._over.wait(LINE_EVERY_S)

    def _draw(self) -> None:
        """A bar that stays on the last line of the terminal; warnings go above it."""
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        with RichProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[words]}", markup=False),
            console=err_console(),
            auto_refresh=False,
            redirect_stdout=False,  # results go to standard output, also when it is a pipe
        ) as bar:
            task = bar.add_task("", total=self.total, words="")
            is_over = False
            while not is_over:
                is_over = self._over.wait(BAR_EVERY_S)
                words = " ".join(filter(None, self.words()))
                bar.update(task, description=self.description, completed=self.done, words=words)
                bar.refresh()


# How long it takes
#
# Scoring a choice and writing a reply differ by a hundred times, so one rate for all says nothing. Each
# task's requests of one kind have their own rate once some are answered; before, the rate of the same
# kind in other tasks, weighted by tokens; before that, the speed that an earlier run of the model noted.

CHARACTERS_A_TOKEN = 4
MIN_ANSWERS = 3
"""Answers after which a share has its own rate."""
MIN_KEPT_S = 5.0
"""A run that asks for less time leaves no speed behind: most of it is starting."""
MAX_KEPT = 200
"""Models whose speeds are kept; the oldest goes first."""


@dataclass
class Share:
    """The requests of one kind of one task, and what is known of their speed."""

    task: str
    kind: str
    count: int
    size: float
    """Tokens of one request: of the prompt that is scored, or the most that a reply may have."""
    is_written: bool = False
    """Whether the answers are replies, as long as the model makes them."""
    reading: float = 0.0
    """What reading the prompt of a reply costs, in tokens that are written."""
    found: int = 0
    """Answers that were kept from before."""
    asked: int = 0
    seconds: float = 0.0
    """Between answers of this run."""
    work: float = 0.0
    """Tokens of the requests answered: of replies, those that were written."""

    @property
    def left(self) -> int:
        return max(0, self.count - self.found - self.asked)

    def usual_size(self, speed: Speed) -> float:
        """Tokens of one request; replies are taken to be as long as those that made the speed."""
        most = self.reading + self.size
        return min(speed.tokens, most) if self.is_written else most


@dataclass(frozen=True)
class Speed:
    """How long requests of one kind take."""

    seconds_a_token: float
    tokens: float
    """Of one request on average: of replies, those that were written."""
    noted: float = 0.0
    """When, in seconds since 1970."""

    def seconds(self, requests: int, tokens: float) -> float:
        return requests * tokens * self.seconds_a_token


def time_left(seconds: float, unknown: Mapping[str, int]) -> str:
    """``3 min left``, ``12 s left, then 64 replies``, ``64 replies left``."""
    counts = " and ".join(f"{number:,} {what}" for what, number in unknown.items())
    if seconds > 0:
        return f"{short_time(seconds)} left" + (f", then {counts}" if counts else "")
    return f"{counts} left" if counts else ""


class RunPace:
    """Follows the answers of a run, and says how long the rest takes."""

    def __init__(self, shares: Iterable[Share], known: Mapping[str, Speed] | None = None) -> None:
        self._shares = {(share.task, share.kind): share for share in shares}
        self._known = known or {}
        self._last = time.monotonic()
        self._current: Share | None = None

    def begin(self, kind: str) -> None:
        """Requests of this kind are asked from now on."""
        self._last = time.monotonic()
        self._current = None
        for share in self._shares.values():
            if share.kind == kind and share.left:
                self._current = share
                return

    def answered(self, task: str, kind: str, tokens: float | None = None) -> None:
        """Count an answer of ``tokens`` tokens; it took the time since the answer before."""
        share = self._shares.get((task, kind))
        now = time.monotonic()
        if share is not None:
            share.asked += 1
            share.seconds += now - self._last
            share.work += share.size if tokens is None else share.reading + max(1.0, tokens)
            self._current = share
        self._last = now

    def found(self, task: str, number: int) -> None:
        """Answers of a task that were kept from before."""
        shares = [share for share in self._shares.values() if share.task == task]
        total = sum(share.count for share in shares)
        for share in shares:  # several kinds share them in proportion
            share.found += round(number * share.count / total) if total else 0

    def rate(self) -> float:
        """Answers a second of the kind that is asked now."""
        if self._current is None:
            return 0.0
        same = [share for share in self._shares.values() if share.kind == self._current.kind]
        seconds = sum(share.seconds for share in same) + time.monotonic() - self._last
        asked = sum(share.asked for share in same)
        return asked / seconds if asked and seconds > 0 else 0.0

    def left(self) -> tuple[float, dict[str, int]]:
        """The seconds for what has a rate; and how many ``replies`` or ``scores`` are left besides."""
        seconds = 0.0
        unknown: dict[str, int] = {}
        for share in self._shares.values():
            each = self._seconds_each(share) if share.left else 0.0
            if each is None:
                what = "replies" if share.is_written else "scores"
                unknown[what] = unknown.get(what, 0) + share.left
            else:
                seconds += share.left * each
        return seconds, unknown

    def _seconds_each(self, share: Share) -> float | None:
        """Seconds for one request of a share; None if nothing tells how long its replies are."""
        if share.asked >= MIN_ANSWERS:
            mean = share.seconds / share.asked
            if share is self._current:  # an answer that takes long counts before it is there
                waiting = time.monotonic() - self._last
                mean = max(mean, (share.seconds + waiting) / (share.asked + 1))
            return mean
        each_token, known = self._seconds_a_token(share.kind), self._known.get(share.kind)
        if each_token is not None and not share.is_written:
            return each_token * (share.reading + share.size)
        if known is None:
            return None
        usual = replace(known, seconds_a_token=each_token or known.seconds_a_token)
        return usual.seconds(1, share.usual_size(usual))

    def _seconds_a_token(self, kind: str) -> float | None:
        """What requests of a kind take in this run; None before some are answered."""
        same = [share for share in self._shares.values() if share.kind == kind and share.asked]
        work = sum(share.work for share in same)
        is_known = sum(share.asked for share in same) >= MIN_ANSWERS and work > 0
        return sum(share.seconds for share in same) / work if is_known else None

    def speeds(self) -> dict[str, Speed]:
        """Kind of request → its speed in this run, if enough was asked to tell."""
        speeds = {}
        for kind in {share.kind for share in self._shares.values()}:
            same = [share for share in self._shares.values() if share.kind == kind]
            seconds, work = sum(s.seconds for s in same), sum(s.work for s in same)
            asked = sum(share.asked for share in same)
            if asked >= MIN_ANSWERS and seconds >= MIN_KEPT_S and work:
                speeds[kind] = Speed(seconds / work, work / asked, time.time())
        return speeds


class SpeedNotes:
    """The speeds that runs of one model on this machine leave behind, in the user's cache."""

    def __init__(self, model: str) -> None:
        """``model`` tells it from others: its backend and arguments."""
        self._key = blake2b(model.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    @property
    def _path(self) -> Path:
        return cache_folder() / "speeds.json"

    def known(self) -> dict[str, Speed]:
        """Kind of request → its speed in the last run that noted one; empty if none did."""
        try:
            return {kind: Speed(*values) for kind, values in self._read()[self._key].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            return {}

    def note(self, speeds: Mapping[str, Speed]) -> None:
        """Keep the speeds of a run; a cache that cannot be written is left alone."""
        if not speeds:
            return
        entries = self._read()
        earlier = entries.pop(self._key, {})
        new = {kind: [s.seconds_a_token, s.tokens, s.noted] for kind, s in speeds.items()}
        entries[self._key] = {**(earlier if isinstance(earlier, dict) else {}), **new}
        newest = dict(list(entries.items())[-MAX_KEPT:])
        with suppress(OSError):
            write_whole(self._path, json.dumps(newest) + "\n")

    def _read(self) -> dict[str, Any]:
        try:
            entries = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return entries if isinstance(entries, dict) else {}
