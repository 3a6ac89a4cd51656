"""The types of asking: tasks and sinks, docs that wait for answers, requests that were sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lm_eval.requests import DocRequests

if TYPE_CHECKING:
    from lm_eval.answers.keys import DocKeys


class Named(Protocol):
    """What asking needs of a task."""

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
        """The keys of the requests, if they are known already."""

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
    """A request that was sent, and the docs that wait for its answer."""

    key: bytes | None
    waiting: list[Slot]
