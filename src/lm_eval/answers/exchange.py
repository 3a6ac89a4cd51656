"""What asking works with: tasks and sinks, docs that wait for answers, requests on their way, costs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from lm_eval.models.base import LM
from lm_eval.requests import DocRequests, Request
from lm_eval.requests.values import Usage

if TYPE_CHECKING:
    from lm_eval.answers.keys import DocKeys


class Named(Protocol):
    """A task, as far as asking goes."""

    @property
    def name(self) -> str: ...


class Askable(Protocol):
    """Docs with requests under one name; a ``Prepared`` task is one."""

    @property
    def task(self) -> Named: ...

    @property
    def counts(self) -> Mapping[str, int]:
        """Kind of request → how many of them there are."""

    @property
    def num_requests(self) -> int: ...

    @property
    def keys(self) -> DocKeys | None:
        """The keys of the requests, where they are known already."""

    def asked(self) -> Iterator[DocRequests]:
        """Every doc with its requests, the same ones on every call."""

    def asked_at(self, wanted: bytes | bytearray) -> Iterator[tuple[int, DocRequests]]:
        """The docs whose flag is not 0, with their places."""


class DocSink(Protocol):
    """Receives each doc of one task once all its answers are in."""

    def take(self, place: int, doc: DocRequests, answers: Sequence[Any]) -> None:
        """The doc at ``place`` has all its answers. Docs come in any order."""

    def miss(self, place: int, doc: DocRequests, answers: Sequence[Any], why: str) -> None:
        """A request of the doc failed for good; the places of missing answers hold None."""


@dataclass(slots=True)
class OpenDoc:
    """A doc that waits for answers."""

    task: int
    place: int
    doc: DocRequests
    answers: list[Any]
    left: int
    keys: Sequence[bytes | None] | None = None
    why: str | None = None

    @property
    def characters(self) -> int:
        """How long its replies are."""
        return sum(len(answer) for answer in self.answers if isinstance(answer, str))


Slot = tuple[OpenDoc, int]


@dataclass(slots=True)
class SentRequest:
    """A request on its way, and all that wait for its answer."""

    key: bytes | None
    waiting: list[Slot]


@dataclass
class Costs:
    """What each task costs: counted by the model, timed here."""

    model: LM
    wall_s: dict[str, float] = field(default_factory=dict)
    _before: dict[str, Usage] = field(default_factory=dict)
    _last: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        for task, usage in self.model.usage.items():  # of a run with the same model object
            self._before[task] = replace(usage)

    def start(self) -> None:
        self._last = time.perf_counter()

    def answered(self, task: str) -> None:
        """The time since the last answer belongs to this one's task."""
        now = time.perf_counter()
        self.wall_s[task] = self.wall_s.get(task, 0.0) + now - self._last
        self._last = now

    def of(self, task: str) -> Usage:
        """What a task has cost in this process so far."""
        counted = self.model.usage.get(task, Usage()).since(self._before.get(task, Usage()))
        return replace(counted, wall_s=self.wall_s.get(task, 0.0))


class RequestFeed:
    """Requests for the model to read, under the lock.

    A model may treat what goes wrong here as its own failure, so an error ends the stream and is
    raised by ``check`` in its own words.
    """

    def __init__(self, requests: Iterator[Request], lock: AbstractContextManager[Any]) -> None:
        self._requests = requests
        self._lock = lock
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[Request]:
        return self

    def __next__(self) -> Request:
        with self._lock:
            if self._error is not None:
                raise StopIteration
            try:
                return next(self._requests)
            except StopIteration:
                raise
            except Exception as error:
                self._error = error
                raise StopIteration from None

    def check(self) -> None:
        """Raise what went wrong while requests were made."""
        if self._error is not None:
            raise self._error
