"""HTTP for long, expensive runs: a bounded window of requests in flight over one pool.

Synchronous code drives it: ``Transport.window`` takes jobs from an iterator as slots become free and
yields each result as it arrives. Behind it ``client`` sends, ``failures`` says when to send again,
``pacing`` holds back. The event loop has a thread of its own (``LoopThread``): ``work`` and all it calls
run there, jobs are made and results used in the caller's thread. Nothing here knows what the requests
are about.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeGuard, TypeVar, cast

from lm_eval.errors import RequestError
from lm_eval.models.http.client import CONNECT_S, Client, TransportOptions, close_all
from lm_eval.models.http.failures import Failure, Schedule, of_body, of_status
from lm_eval.models.http.pacing import Meanwhile, Pace
from lm_eval.models.http.servers import ONLY, Server, Servers

T = TypeVar("T")
J = TypeVar("J")
R = TypeVar("R")

_SETTLE_S = 5.0
_PATIENCE_S = 0.002
_CHECK_WAIT_S = 2.0
_BROKEN = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(slots=True)
class Received(Generic[T]):
    """A decoded reply, and how many times the request was sent."""

    value: T
    attempts: int


class Transport:
    """One pool of connections, opened on first use; ``close`` ends it.

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
        self._thread = LoopThread()
        self._client = Client(options, connections=self.servers.largest, redact=describe_secret)
        # Not the client itself: it knows ``describe_secret``, which may know whoever owns this object.
        weakref.finalize(self, _close, self._client.sessions, self._thread)

    # -- one request ---------------------------------------------------------------------------

    async def request(
        self,
        url: str | Sequence[str],
        body: bytes | None,
        headers: Mapping[str, str],
        decode: Callable[[bytes], T],
        max_retries: int | None = None,
    ) -> Received[T]:
        """The decoded reply to a POST of ``body``, or without one to a GET.

        ``url`` may have an address for each of several ``servers``: any of them is asked, and what one
        cannot answer another may. ``decode`` may raise ``BrokenBody``, or ValueError, KeyError and
        their like: the reply then counts as broken and the request is sent again. Errors of this
        package pass through. A request that fails for good is a ``RequestError``.
        """
        urls = (url,) if isinstance(url, str) else url
        servers, suspects = self.servers, dict[Server, Failure]()
        retries = self.options.max_retries if max_retries is None else max_retries
        schedule, is_shared = None, len(urls) > 1
        begun_at, attempts, moves, tried = time.monotonic(), 1, len(urls), set[Server]()
        while True:
            server = await servers.take(but=tried) if is_shared else servers.all[0]
            try:
                outcome = await self._send(urls[server.number], server.pace, body, headers, decode)
            finally:
                if is_shared:
                    servers.give_back(server)
            if not isinstance(outcome, Failure):
                if is_shared:
                    servers.answered(server, suspects)
                return Received(outcome, attempts)
            tried = {server, *suspects}
            schedule = schedule or Schedule(retries, timeout_s=self.options.timeout_s)
            wait_s: float | None = 0.0
            if is_shared and servers.failed(server, outcome, suspects) and moves:
                moves -= 1
            else:
                wait_s = self._wait(schedule, outcome, begun_at)
            if wait_s is None:
                raise outcome.error(attempts, never_answered=not self._client.was_answered)
            await asyncio.sleep(wait_s)
            attempts += 1
            self.retries += 1

    def _wait(self, schedule: Schedule, failure: Failure, begun_at: float) -> float | None:
        now, is_check = time.monotonic(), ONLY.get() is not None
        if is_check and (failure.asked_wait_s or 0.0) > _CHECK_WAIT_S:
            return None  # the others go on without it
        return schedule.next_wait(
            failure,
            used_s=now - begun_at,
            idle_s=math.inf if is_check else now - self._answered_at,
            connect_s=None if self._client.was_answered else CONNECT_S,
        )

    async def _send(
        self,
        url: str,
        pace: Pace,
        body: bytes | None,
        headers: Mapping[str, str],
        decode: Callable[[bytes], T],
    ) -> T | Failure:
        if pace.is_paused:
            await pace.clear()
        self.sent += 1
        begun_at = time.monotonic()
        reply = await self._client.exchange(url, body, headers)
        if isinstance(reply, Failure):
            return reply
        where, status, replied, content = reply
        if not 200 <= status < 300:
            failure = of_status(where, status, replied, content, self._redact)
            if failure.is_refusal:
                pace.refused()
                pace.pause(failure.asked_wait_s or 0.0)
            return failure
        now = time.monotonic()
        pace.answered(now - begun_at, replied)
        try:
            value = decode(content)
        except _BROKEN as error:
            return of_body(where, status, content, error, self._redact)
        self._answered_at = now
        return value

    # -- from synchronous code -----------------------------------------------------------------

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns; for synchronous code, even inside a running loop (notebooks)."""
        return self._thread.run(coroutine)

    def window(
        self,
        jobs: Iterable[J],
        work: Callable[[J], Awaitable[R]],
        meanwhile: Meanwhile | None = None,
    ) -> Iterator[tuple[J, R | RequestError]]:
        """Each job with what ``work`` made of it, in the order in which they are done.

        At most ``num_concurrent`` jobs are under way or waiting to be taken: a job's slot is free again
        when the consumer comes back for the next result. Jobs are pulled, in the consumer's thread,
        only as slots become free. Until something has been answered one job travels alone, so a wrong
        key costs one request.

        A ``RequestError`` is the job's result, unless it ``stops_run``: that, and any other exception
        of ``work``, is raised once the results that are there have been taken. Leaving early, by
        closing the generator or by Ctrl-C, cancels what is in flight.

        ``meanwhile`` works in the consumer's thread too, but only while no result is there to be taken:
        what it does keeps no slot empty for longer than one piece of its work.
        """
        loop, tasks = self._thread.loop, set[asyncio.Task[None]]()
        done: SimpleQueue[tuple[J, R | Exception]] = SimpleQueue()

        async def run(job: J) -> None:
            try:
                outcome: R | Exception = await work(job)
            except Exception as error:
                outcome = error
            done.put((job, outcome))

        def start(job: J) -> None:
            task = loop.create_task(run(job))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        source = iter(jobs)
        under_way, has_more, stop = 0, True, None
        self.servers.begin()
        try:
            while True:
                while has_more and under_way < self._room():
                    try:
                        job = next(source)
                    except StopIteration:
                        has_more = False
                        break
                    loop.call_soon_threadsafe(start, job)
                    under_way += 1
                if not under_way or (stop is not None and done.empty()):
                    break
                job, outcome = _next_done(done, meanwhile)
                under_way -= 1
                if isinstance(outcome, Exception) and not _fails_alone(outcome):
                    stop, has_more = stop or outcome, False
                    continue
                self._has_landed |= not isinstance(outcome, RequestError)
                yield job, outcome
            if stop is not None:
                raise stop
        finally:
            if under_way and not self._thread.is_current:  # as the garbage collector may be
                self._thread.run(_cancelled(tasks))

    def _room(self) -> int:
        is_first = self._answered_at == -math.inf and not self._has_landed
        return 1 if is_first else self.servers.size

    def close(self) -> None:
        """Close every connection. A later request opens the pool again."""
        _close(self._client.sessions, self._thread)
        self.servers.close()


def _next_done(done: SimpleQueue[T], meanwhile: Meanwhile | None) -> T:
    """Wait for a job that is done."""
    if meanwhile is not None:
        while done.empty() and meanwhile.is_ready:
            meanwhile.work()
        try:
            return done.get(timeout=_PATIENCE_S)
        except Empty:
            meanwhile.flush()
    return done.get()


def _fails_alone(error: Exception) -> TypeGuard[RequestError]:
    """Whether other requests may still succeed."""
    return isinstance(error, RequestError) and not error.stops_run


async def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """End the tasks, and wait, a few seconds at most, until their sockets are gone."""
    left = [task for task in tasks if task is not asyncio.current_task()]
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_SETTLE_S)


class LoopThread:
    """An event loop in a thread of its own, started on first use, for any other thread to use."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = _new_loop()
            # A daemon: whoever forgets to close this must not keep the program from ending.
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="lm-eval-http", daemon=True
            )
            self._thread.start()
        return self._loop

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns. Ctrl-C cancels it."""
        if self.is_current:
            coroutine.close()
            raise RuntimeError("this is the loop's thread: await the coroutine instead")
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        """End the loop; whatever still runs is cancelled."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or self.is_current:
            return
        self.run(_all_cancelled())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        self._loop = self._thread = None


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # as on Windows: slower, and otherwise the same
        return asyncio.new_event_loop()
    return cast("asyncio.AbstractEventLoop", uvloop.new_event_loop())


async def _all_cancelled() -> None:
    await _cancelled(asyncio.all_tasks())


def _close(sessions: list[Any], thread: LoopThread) -> None:
    if thread.is_current:  # the garbage collector may call from inside the loop
        return
    if sessions:
        thread.run(close_all(sessions))
    thread.close()
