"""Requests to replicas, and their answers back, one by one.

Replicas pull: each is given more when its model has read what it had. Requests of one doc stay
together. What a replica had not answered when it died is asked again, before anything else and apart
from the rest; a request that ends a second replica by itself has failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from lm_eval.errors import RequestError
from lm_eval.formats.assemble import Context
from lm_eval.models.ray.actor import Delivery, Numbered
from lm_eval.models.ray.replicas import Handle, Lost, ReplicaPool
from lm_eval.requests import Answered, FailedRequest, Request, RollingRequest

MOST_AT_WORK = 1024
"""Requests that a replica holds at most; a model that wants more must answer some first."""
FEWEST_AT_WORK = 32
"""As many as a replica may hold at the end of a run too, so that prompts still share beginnings."""
MOST_AHEAD = 64
"""Requests that wait in a replica beside what its model has read."""
_READ_AT_ONCE = 512


@dataclass(frozen=True)
class _Returned:
    """Requests that were with a replica when it died."""

    requests: list[Numbered]

    def halves(self) -> list[_Returned]:
        middle = (len(self.requests) + 1) // 2
        return [_Returned(self.requests[:middle]), _Returned(self.requests[middle:])]


class Dispatch:
    """One stream of requests over all replicas; ``on_text`` gets chats as the model saw them."""

    def __init__(
        self,
        pool: ReplicaPool,
        requests: Iterable[Request],
        on_text: Callable[[Context, str], None],
    ) -> None:
        self._pool = pool
        self._on_text = on_text
        self._queue = _DocQueue(requests)
        self._returned: deque[_Returned] = deque()

    def answers(self) -> Iterator[tuple[int, Answered]]:
        """``(place in requests, answer)`` as answers arrive."""
        try:
            while self._hand_out():
                for handle, event in self._pool.events():
                    if isinstance(event, Lost):
                        yield from self._lost(handle, event)
                    else:
                        yield from self._received(handle, event)
        finally:
            self._pool.abandon()

    # -- out ---------------------------------------------------------------------------------

    def _hand_out(self) -> bool:
        """Give work to replicas that have none; False once everything is answered."""
        self._queue.fill(2 * MOST_AT_WORK * len(self._pool.handles))
        for handle in self._pool.handles:
            if handle.state != "idle":
                continue
            if self._returned:
                handle.is_alone = True
                self._pool.send(handle, self._returned.popleft().requests, True)
            elif self._queue:
                self._pool.send(handle, self._queue.take(self._most_ahead), not self._queue)
        is_working = any(handle.state == "working" for handle in self._pool.handles)
        return is_working or bool(self._returned) or bool(self._queue)

    @property
    def _replicas(self) -> int:
        return max(self._pool.alive, 1)

    @property
    def _most_ahead(self) -> int:
        """Few near the end, so that all replicas finish together."""
        return max(1, min(MOST_AHEAD, len(self._queue) // (4 * self._replicas)))

    @property
    def _most_at_work(self) -> int:
        share = len(self._queue) // (2 * self._replicas)
        return max(FEWEST_AT_WORK, min(MOST_AT_WORK, share))

    def _go_on(self, handle: Handle, delivery: Delivery) -> None:
        """Give the replica what it may have beside what it holds, or end its stream."""
        more: list[Numbered] = []
        is_last = False
        if not handle.is_ending:
            if delivery.is_hungry:
                room = self._most_at_work - len(handle.sent)
                is_last = room <= 0 or bool(self._returned) or not self._queue
                more = [] if is_last else self._queue.take(room)
            elif not self._returned and 2 * delivery.unread <= self._most_ahead:
                more = self._queue.take(self._most_ahead - delivery.unread)
        self._pool.send(handle, more, is_last)

    # -- in ----------------------------------------------------------------------------------

    def _received(self, handle: Handle, delivery: Delivery) -> Iterator[tuple[int, Answered]]:
        for number, text in delivery.texts:
            request = handle.sent[number]
            assert not isinstance(request, RollingRequest), "a text, not a chat"
            self._on_text(request.context, text)
        for number, _ in delivery.answers:
            del handle.sent[number]
        if delivery.error is None:
            if delivery.is_done:
                self._pool.release(handle)
                self._hand_out()
            else:
                self._go_on(handle, delivery)
        yield from delivery.answers  # the replica works on meanwhile
        if delivery.error is not None:
            raise delivery.error

    def _lost(self, handle: Handle, lost: Lost) -> Iterator[tuple[int, Answered]]:
        requests = list(handle.sent.items())
        was_alone = handle.is_alone
        handle.sent.clear()
        handle.is_ending = handle.is_alone = False
        if not requests:
            return
        group = _Returned(requests)
        if not was_alone:
            self._returned.appendleft(group)
        elif len(requests) > 1:
            self._returned.extendleft(reversed(group.halves()))
        else:
            [(number, request)] = requests
            yield number, FailedRequest(_fatal(request, lost))


class _DocQueue:
    """Requests that are read ahead, whole docs at a time; ``len`` counts those read and not taken."""

    def __init__(self, requests: Iterable[Request]) -> None:
        self._source = enumerate(requests)
        self._read: deque[Numbered] = deque()
        self._is_read = False
        self.fill(1)

    def __len__(self) -> int:
        return len(self._read)

    def fill(self, most: int) -> None:
        """Read on, a part at a time: replicas wait meanwhile."""
        if not self._is_read and len(self._read) < most:
            for _ in range(_READ_AT_ONCE):
                numbered = next(self._source, None)
                if numbered is None:
                    self._is_read = True
                    return
                self._read.append(numbered)

    def take(self, count: int) -> list[Numbered]:
        """At least ``count`` requests where there are as many, up to the end of a doc."""
        taken: list[Numbered] = []
        while self._read and (len(taken) < count or _doc(self._read[0]) == _doc(taken[-1])):
            taken.append(self._read.popleft())
            if not self._read:
                self.fill(1)
        return taken


def _doc(numbered: Numbered) -> tuple[str, int]:
    return numbered[1].task, numbered[1].doc_id


def _fatal(request: Request, lost: Lost) -> RequestError:
    return RequestError(
        f"Task {request.task!r}, doc {request.doc_id}: its {request.kind} request ended two replicas, "
        f"the second with nothing else to answer ({lost.reason}). A prompt too long for the memory is "
        "the usual cause: lower the window or the batch size, or leave the doc out with --samples.",
        attempts=2,
    )
