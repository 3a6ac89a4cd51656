"""HTTP for long, expensive runs: a bounded window of requests in flight over one pool.

Synchronous code drives it: ``Transport.window`` takes jobs from an iterator as slots become free and
yields each result as it arrives. Behind it ``pool`` sends, ``failures`` says when to send again,
``pacing`` holds back and a ``Stepper`` runs the event loop. Nothing here knows what the requests are
about.
"""

from __future__ import annotations

import asyncio
import math
import time
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeGuard, TypeVar, cast

from lm_eval.errors import RequestError
from lm_eval.models.http.event_loop import Stepper
from lm_eval.models.http.failures import Failure, Schedule, of_body, of_status
from lm_eval.models.http.pacing import Meanwhile, Pace
from lm_eval.models.http.pool import CONNECT_S, Pool, Target, TransportOptions, close_all
from lm_eval.models.http.servers import ONLY, Servers

T = TypeVar("T")
J = TypeVar("J")
R = TypeVar("R")

_END: Final = object()
_BROKEN = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(slots=True)
class Received(Generic[T]):
    """A decoded reply, and how many times the request was sent."""

    value: T
    attempts: int


class Transport:
    """One pool of connections, opened on first use; ``close`` ends it. For one thread at a time.

    ``describe_secret`` is applied to every text of the server or of an exception that goes into an
    error. ``sent`` counts all attempts, ``retries`` those that were not a request's first.
    """

    def __init__(
        self,
        options: TransportOptions,
        *,
        describe_secret: Callable[[str], str] = str,
        servers: int = 1,
    ) -> None:
        self.options = options
        self.sent = 0
        self.retries = 0
        self._answered_at = -math.inf
        self._has_landed = False  # a job may be done without a request of ours
        self._redact = describe_secret
        self.servers = Servers(options.num_concurrent, servers)
        self._stepper = Stepper()
        self._pool = Pool(options, connections=self.servers.largest, redact=describe_secret)
        # Not the pool itself: it knows ``describe_secret``, which may know whoever owns this object.
        weakref.finalize(self, _close, self._pool.sessions, self._stepper)

    # -- one request ---------------------------------------------------------------------------

    async def request(
        self,
        url: str | Sequence[str],
        body: bytes | None,
        headers: Mapping[str, str],
        decode: Callable[[bytes], T],
    ) -> Received[T]:
        """The decoded reply to a POST of ``body``, or without one to a GET.

        ``url`` may have an address for each of several ``servers``: any of them is asked, and what one
        cannot answer another may. ``decode`` may raise ``BrokenBody``, or ValueError, KeyError and
        their like: the reply then counts as broken and the request is sent again. Errors of this
        package pass through. A request that fails for good is a ``RequestError``.
        """
        if not isinstance(url, str):
            return await self._request_any(url, body, headers, decode)
        target, pace = self._target(url), self.servers.all[0].pace
        schedule = Schedule(self.options.max_retries, timeout_s=self.options.timeout_s)
        begun_at, attempts = time.monotonic(), 1
        while isinstance(outcome := await self._send(target, pace, body, headers, decode), Failure):
            wait_s = self._wait(schedule, outcome, begun_at)
            if wait_s is None:
                raise outcome.error(attempts, never_answered=not self._pool.was_answered)
            await asyncio.sleep(wait_s)
            attempts += 1
            self.retries += 1
        return Received(outcome, attempts)

    async def _request_any(
        self,
        urls: Sequence[str],
        body: bytes | None,
        headers: Mapping[str, str],
        decode: Callable[[bytes], T],
    ) -> Received[T]:
        """As ``request``, from whichever server has room. If one fails, another is asked."""
        servers, server = self.servers, None
        schedule = Schedule(self.options.max_retries, timeout_s=self.options.timeout_s)
        begun_at, attempts, moves = time.monotonic(), 1, len(urls)
        while True:
            server = await servers.take(but=server)
            try:
                target = self._target(urls[server.number])
                outcome = await self._send(target, server.pace, body, headers, decode)
            finally:
                servers.give_back(server)
            if not isinstance(outcome, Failure):
                servers.answered(server)
                return Received(outcome, attempts)
            if outcome.is_fault:
                servers.failed(server, outcome)
            wait_s: float | None = 0.0
            can_move = outcome.is_fault or outcome.is_refusal
            if moves and can_move and servers.has_other(server) and ONLY.get() is None:
                moves -= 1
            else:
                wait_s = self._wait(schedule, outcome, begun_at)
            if wait_s is None:
                raise outcome.error(attempts, never_answered=not self._pool.was_answered)
            await asyncio.sleep(wait_s)
            attempts += 1
            self.retries += 1

    def _target(self, url: str) -> Target:
        target = self._pool.target(url)
        if isinstance(target, Failure):
            raise target.error(0, never_answered=False)
        return target

    def _wait(self, schedule: Schedule, failure: Failure, begun_at: float) -> float | None:
        now = time.monotonic()
        return schedule.next_wait(
            failure,
            used_s=now - begun_at,
            idle_s=now - self._answered_at,
            connect_s=None if self._pool.was_answered else CONNECT_S,
        )

    async def _send(
        self,
        target: Target,
        pace: Pace,
        body: bytes | None,
        headers: Mapping[str, str],
        decode: Callable[[bytes], T],
    ) -> T | Failure:
        if pace.is_paused:
            await pace.clear()
        self.sent += 1
        begun_at = time.monotonic()
        reply = await self._pool.exchange(target, body, headers)
        if isinstance(reply, Failure):
            return reply
        status, replied, content = reply
        if not 200 <= status < 300:
            failure = of_status(target.shown, status, replied, content, self._redact)
            if failure.is_refusal:
                pace.refused()
                pace.pause(failure.asked_wait_s or 0.0)
            return failure
        now = time.monotonic()
        pace.answered(now - begun_at, replied)
        try:
            value = decode(content)
        except _BROKEN as error:
            return of_body(target.shown, status, content, error, self._redact)
        self._answered_at = now
        return value

    # -- from synchronous code -----------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns; for synchronous code, even inside a running loop (notebooks)."""
        return self._stepper.run(coroutine)

    def window(
        self,
        jobs: Iterable[J],
        work: Callable[[J], Awaitable[R]],
        meanwhile: Meanwhile | None = None,
    ) -> Iterator[tuple[J, R | RequestError]]:
        """Each job with what ``work`` made of it, in the order in which they are done.

        At most ``num_concurrent`` jobs are under way or waiting to be taken: a job's slot is free again
        when the consumer comes back for the next result. Jobs are pulled, in the consumer's thread and
        outside the loop, only as slots become free. Until something has been answered one job travels
        alone, so a wrong key costs one request.

        A ``RequestError`` is the job's result, unless it ``stops_run``: that, and any other exception
        of ``work``, is raised once the results that are there have been taken. Leaving early, by
        closing the generator or by Ctrl-C, cancels what is in flight.

        ``meanwhile`` works in the consumer's thread too, but only while no result is there to be taken:
        what it does keeps no slot empty for longer than one piece of its work.
        """
        flight = _Flight(self._stepper, iter(jobs), work, meanwhile)
        self.servers.begin()
        try:
            while True:
                flight.fill(self._room)
                for job, outcome in flight.land(self._room):
                    self._has_landed |= not isinstance(outcome, RequestError)
                    yield job, outcome
                if flight.is_over:
                    return
        finally:
            flight.cancel()

    def _room(self) -> int:
        is_first = self._answered_at == -math.inf and not self._has_landed
        return 1 if is_first else self.servers.size

    def close(self) -> None:
        """Close every connection. A later request opens the pool again."""
        _close(self._pool.sessions, self._stepper)
        self.servers.close()


class _Flight(Generic[J, R]):
    """The jobs of one window: those under way and those done but not yet taken."""

    def __init__(
        self,
        stepper: Stepper,
        jobs: Iterator[J],
        work: Callable[[J], Awaitable[R]],
        meanwhile: Meanwhile | None,
    ) -> None:
        self._stepper = stepper
        self._jobs = jobs
        self._work = work
        self._meanwhile = meanwhile
        self._waiting: deque[J] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._done: deque[tuple[J, R | Exception]] = deque()
        self._has_more = True
        self._stop: Exception | None = None

    @property
    def is_over(self) -> bool:
        return not (self._has_more or self._under_way or self._done)

    @property
    def _under_way(self) -> int:
        return len(self._waiting) + len(self._tasks)

    def fill(self, room: Callable[[], int]) -> None:
        """Start jobs until there is no room, or none is left."""
        while self._has_more and self._under_way + len(self._done) < room():
            job = next(self._jobs, _END)
            if job is _END:
                self._has_more = False
                return
            self._start(job)  # type: ignore[arg-type]  # not the end marker
            if self._stepper.is_due:
                self._move(self._stepper.pump)

    def land(self, room: Callable[[], int]) -> Iterator[tuple[J, R | RequestError]]:
        """Wait for at least one job, then hand over all that are done."""
        while self._under_way and not self._done:
            if self._meanwhile is None or not self._meanwhile.is_ready:
                self._move(self._stepper.step)
                continue
            self._move(self._stepper.pump)  # what was started is sent before anything else is done
            if not self._done:
                self._meanwhile.work()
        while self._done:
            job, outcome = self._done.popleft()
            if not isinstance(outcome, Exception) or _fails_alone(outcome):
                yield job, outcome
            elif self._stop is None:
                self._stop, self._has_more = outcome, False
            if self._done:
                self.fill(room)
        if self._stop is not None:
            raise self._stop

    def _move(self, move: Callable[[], None]) -> None:
        if self._meanwhile is not None:
            self._meanwhile.settle()
        move()

    def cancel(self) -> None:
        self._waiting.clear()
        self._stepper.cancel(self._tasks)

    def _start(self, job: J) -> None:
        # The task is made inside the loop, where Ctrl-C cannot come between it and its coroutine.
        if not self._waiting:
            self._stepper.loop.call_soon(self._launch)
        self._waiting.append(job)

    def _launch(self) -> None:
        while self._waiting:
            self._tasks.add(self._stepper.loop.create_task(self._carry(self._waiting.popleft())))

    async def _carry(self, job: J) -> None:
        try:
            outcome: R | Exception = await self._work(job)
        except Exception as error:
            outcome = error
        # Here, not in a callback of the task: that would run one turn of the loop later.
        self._tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        self._done.append((job, outcome))
        self._stepper.stop()


def _fails_alone(error: Exception) -> TypeGuard[RequestError]:
    """Whether other requests may still succeed."""
    return isinstance(error, RequestError) and not error.stops_run


def _close(sessions: dict[str, Any], stepper: Stepper) -> None:
    if stepper.is_running:  # the garbage collector may call from inside the loop
        return
    if sessions:
        stepper.run(close_all(sessions))
    stepper.close()
