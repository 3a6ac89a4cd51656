"""Several servers of the same thing: each has its own window, pauses and health.

``Servers`` says where the next request goes: to the server that is least busy for its size. One that
does not answer, or refuses what the others answer, is taken out; it comes back once ``check``, which the
owner of the servers sets, finds that it answers, and answers as the others do.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from lm_eval.errors import RequestError
from lm_eval.models.http.failures import Failure
from lm_eval.models.http.pacing import Pace

FAULTS_IN_A_ROW = 3
"""Consecutive faults that take a server out; one is enough if it cannot be reached."""
_FIRST_OUT_S = 2.0
_FIRST_PAUSE_S = 0.25
_LONGEST_OUT_S = 60.0
_GIVEN_UP_AFTER_S = 60.0
"""The run stops if no server has answered for this long."""

_LOG = logging.getLogger(__name__)
ONLY: ContextVar[int | None] = ContextVar("server", default=None)
"""The number of the server that requests of this asyncio task go to; None: any."""


@dataclass(slots=True, eq=False)
class Server:
    """One of the servers, and its state."""

    number: int
    pace: Pace
    shown: str = ""
    in_flight: int = 0
    answered: int = 0
    faults: int = 0
    """In a row."""
    refusals: int = 0
    """In a row."""
    times_out: int = 0
    why_out: str | None = None
    """Why it gets no requests at present; None if it does."""
    last_why: str = ""
    """Why it was taken out last."""
    is_refused: bool = False
    """Whether it is out for good."""
    _out_s: float = _FIRST_OUT_S
    _due_at: float = 0.0

    @property
    def is_in(self) -> bool:
        return self.why_out is None

    @property
    def has_room(self) -> bool:
        return self.in_flight < self.pace.size

    @property
    def due_in_s(self) -> float:
        """Seconds until it is tried again."""
        return max(0.0, self._due_at - time.monotonic())

    def take_out(self, why: str) -> None:
        if self.is_in:
            self.times_out += 1
            self.last_why = why
        self.why_out = why
        self._due_at = time.monotonic() + self._out_s
        self._out_s = min(_LONGEST_OUT_S, 2 * self._out_s)

    def take_in(self) -> None:
        self.why_out, self.faults, self._out_s = None, 0, _FIRST_OUT_S


@dataclass
class Servers:
    """The servers of a transport; ``all[0]`` is the only one for most."""

    num_concurrent: int | Literal["auto"]
    count: int = 1
    check: Callable[[Server], Awaitable[str | None]] | None = None
    """Asks a server a few questions: what is wrong with its answers, None if nothing."""
    all: list[Server] = field(init=False)
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    _checks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    _silent_since: float | None = None

    def __post_init__(self) -> None:
        self.all = [Server(number, Pace(self.num_concurrent)) for number in range(self.count)]

    @property
    def size(self) -> int:
        """How many requests may be under way at a time."""
        if len(self.all) == 1:
            return self.all[0].pace.size
        return sum(server.pace.size for server in self._in_turn()) or 1

    @property
    def largest(self) -> int:
        return sum(server.pace.largest for server in self.all)

    def begin(self) -> None:
        """Other work begins."""
        for server in self.all:
            server.pace.begin()

    def _in_turn(self) -> list[Server]:
        """The servers that get requests now: not those that want a pause, unless all do."""
        those_in = [server for server in self.all if server.is_in]
        return [server for server in those_in if not server.pace.is_paused] or those_in

    # -- one attempt -----------------------------------------------------------------------------

    async def take(self, but: Collection[Server] = ()) -> Server:
        """A slot at one of the servers, not of ``but`` if there is another; to be given back."""
        only = ONLY.get()
        while only is None:
            self._try_again()
            turn = self._in_turn()
            others = [server for server in turn if server not in but] or turn
            ready = [server for server in others if server.has_room]
            if ready:
                return self._taken(
                    min(ready, key=lambda server: server.in_flight / server.pace.size)
                )
            if any(server.is_in for server in self.all):
                await self._slot()
            else:
                await self._any_back()
        return self._taken(self.all[only])

    def _taken(self, server: Server) -> Server:
        server.in_flight += 1
        return server

    def give_back(self, server: Server) -> None:
        server.in_flight -= 1
        self._wake()

    def answered(self, server: Server, suspects: Mapping[Server, Failure]) -> None:
        """Count an answer. Servers that gave none to the same request were at fault."""
        server.answered += 1
        server.faults = server.refusals = 0
        self._silent_since = None
        for other, failure in suspects.items():
            if other is not server:
                self._count_fault(other, failure)

    def failed(self, server: Server, failure: Failure, suspects: dict[Server, Failure]) -> bool:
        """Count a failure; whether the request can go to another server at once.

        Whether a reply that is refused (400) or cannot be read is the request's fault or the server's
        shows when another server answers the same request: until then the server is a suspect.
        """
        can_move = ONLY.get() is None and any(
            other.is_in and not other.pace.is_paused
            for other in self.all
            if other is not server and other not in suspects
        )
        if failure.is_refusal:
            self._refused(server)
        elif failure.is_fault:
            self._count_fault(server, failure)
        elif failure.stops_run and can_move:
            self.take_out(server, failure.text)
        else:
            suspects[server] = failure
            can_move &= failure.can_retry or len(suspects) == 1  # two agree: it is the request
        return can_move

    def _refused(self, server: Server) -> None:
        """Leave a server alone for a while that asks for less without saying for how long."""
        if ONLY.get() is None and not server.pace.is_paused:
            server.refusals += 1
            server.pace.pause(min(_LONGEST_OUT_S, _FIRST_PAUSE_S * 2.0 ** min(server.refusals, 16)))

    def _count_fault(self, server: Server, failure: Failure) -> None:
        """Enough faults take a server out."""
        if ONLY.get() is not None:
            return
        server.faults += 1
        if server.is_in and (failure.is_unreachable or server.faults >= FAULTS_IN_A_ROW):
            self.take_out(server, failure.text)

    def take_out(self, server: Server, why: str) -> None:
        """Send it nothing until it answers again."""
        if server.is_in:
            _LOG.warning("%s. It gets no requests until it answers again.", why.rstrip("."))
        server.take_out(why)
        if not any(other.is_in for other in self.all) and self._silent_since is None:
            self._silent_since = time.monotonic()
        self._wake()

    def close(self) -> None:
        """Forget what is under way: the event loop ends."""
        self._waiting.clear()
        self._checks.clear()
        for server in self.all:
            server.in_flight = 0

    # -- those that are out ----------------------------------------------------------------------

    def _try_again(self) -> None:
        """Start to check servers that are due, in the background."""
        for server in self.all:
            is_due = not (server.is_in or server.is_refused or server.due_in_s)
            if is_due and server.number not in self._checks:
                task = asyncio.get_running_loop().create_task(self._checked(server))
                self._checks[server.number] = task

    async def _checked(self, server: Server) -> None:
        try:
            wrong = None if self.check is None else await self.check(server)
        except RequestError as error:
            server.take_out(str(error))
        else:
            if wrong is None:
                _LOG.warning("%s answers again.", server.shown)
                server.take_in()
            else:
                server.is_refused = True
                server.why_out = wrong
                _LOG.warning("%s It gets no more requests.", wrong)
        finally:
            self._checks.pop(server.number, None)
            self._wake()

    async def _any_back(self) -> None:
        """Wait until one of the servers may be back; raise if none has answered for too long."""
        waits_s = [server.due_in_s for server in self.all if not server.is_refused]
        since = self._silent_since or time.monotonic()
        if not waits_s or time.monotonic() - since > _GIVEN_UP_AFTER_S:
            reasons = "; ".join(str(server.why_out).rstrip(".") for server in self.all)
            raise RequestError(
                f"None of the {len(self.all)} servers answers: {reasons}.",
                stops_run=True,
                retryable=True,
            )
        if self._checks:
            await self._slot()
        else:
            await asyncio.sleep(min(waits_s))

    async def _slot(self) -> None:
        """Wait until a slot is given back, or a server is taken in or out."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def _wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()
