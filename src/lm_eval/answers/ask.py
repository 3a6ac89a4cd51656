"""Requests of all tasks → the model → answers, doc by doc, each kept before the next is taken.

In: prepared tasks, and for each a ``DocSink`` that scores its docs. The requests of one kind go to the
model as one stream over all tasks, made as the model reads them. A doc is held only until its last
answer is there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from lm_eval.config.fields import shorten
from lm_eval.errors import ModelError, RequestError
from lm_eval.models.base import LM, peek
from lm_eval.requests import (
    Answered,
    DocRequests,
    FailedRequest,
    GenerateRequest,
    LoglikelihoodRequest,
    Request,
    RollingRequest,
    expected_instead,
)
from lm_eval.requests.options import allowed_count
from lm_eval.requests.values import Usage
from lm_eval.text.progress import Progress

if TYPE_CHECKING:
    from lm_eval.answers.keys import RequestKeys
    from lm_eval.answers.store import AnswerStore

KINDS = (LoglikelihoodRequest.kind, RollingRequest.kind, GenerateRequest.kind)


@dataclass
class AnswerCache:
    """The store of a run's answers and the keys they have in it."""

    store: AnswerStore
    keys: RequestKeys
    is_shared: bool
    """Whether other runs use the store too: equal requests then share one answer, and what answers
    cost is not kept with them."""
    found: int = 0
    """Answers that were taken from the store."""
    added: int = 0


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

    def asked(self) -> Iterator[DocRequests]:
        """Every doc with its requests, the same ones on every call."""


class DocSink(Protocol):
    """Receives each doc of one task once all its answers are in."""

    def take(self, place: int, doc: DocRequests, answers: Sequence[Any]) -> None:
        """The doc at ``place`` has all its answers. Docs come in any order."""

    def miss(self, place: int, doc: DocRequests, answers: Sequence[Any], why: str) -> None:
        """A request of the doc failed for good; the places of missing answers hold None."""


@dataclass(slots=True)
class _OpenDoc:
    """A doc that waits for answers."""

    task: int
    place: int
    doc: DocRequests
    answers: list[Any]
    left: int
    why: str | None = None


_Slot = tuple[_OpenDoc, int]


@dataclass(slots=True)
class _Sent:
    """A request on its way, and all that wait for its answer."""

    key: bytes | None
    waiting: list[_Slot]


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


def ask_all(
    prepared: Sequence[Askable],
    sinks: Sequence[DocSink],
    model: LM,
    *,
    kept: AnswerCache | None = None,
    max_failed: str | int = 0,
    shows_progress: bool = True,
) -> dict[str, Usage]:
    """Ask everything; ``sinks`` get the docs. Task → what it cost, earlier processes included."""
    total = sum(one.num_requests for one in prepared)
    name = prepared[0].task.name if prepared else ""
    with Progress(name, total, enabled=shows_progress) as progress:
        asking = _Asking(
            prepared, sinks, model, kept, allowed_failures(max_failed, total), progress
        )
        for kind in KINDS:
            asking.ask(kind)
    return asking.usage()


class _Asking:
    """The state of a run between its requests and its answers.

    The model may read requests in a thread of its own, while answers are taken in this one: whatever
    touches the state holds the lock.
    """

    def __init__(
        self,
        prepared: Sequence[Askable],
        sinks: Sequence[DocSink],
        model: LM,
        kept: AnswerCache | None,
        allowed: int,
        progress: Progress,
    ) -> None:
        self._prepared = prepared
        self._sinks = sinks
        self._model = model
        self._kept = kept
        self._looks_up = kept is not None and (kept.is_shared or len(kept.store) > 0)
        self._allowed = allowed
        self._failed = 0
        self._progress = progress
        self._costs = Costs(model)
        self._lock = threading.RLock()
        self._sent: dict[int, _Sent] = {}
        self._by_key: dict[bytes, _Sent] = {}
        self._mixed: dict[tuple[int, int], _OpenDoc] = {}

    def ask(self, kind: str) -> None:
        """Ask all requests of one kind."""
        feed = _Feed(self._requests(kind), self._lock)
        first, requests = peek(feed)  # what is kept at the start is taken before anything is sent
        if first is not None:
            self._progress.describe(first.task)
            self._costs.start()
            for place, answer in self._model.stream(requests):
                with self._lock:
                    self._take(place, answer)
                feed.check()
        feed.check()
        if self._sent:
            raise self._miscounted(f"left {len(self._sent):,} requests without an answer")

    def usage(self) -> dict[str, Usage]:
        """Task → what it cost, over all processes of this run."""
        kept = self._kept
        earlier = {} if kept is None or kept.is_shared else kept.store.earlier_usage()
        costs = {each.task.name: self._costs.of(each.task.name) for each in self._prepared}
        for task, usage in costs.items():
            usage.add(earlier.get(task, Usage()))
        return costs

    # Requests, as the model reads them

    def _requests(self, kind: str) -> Iterator[Request]:
        sent = 0
        for number, one in enumerate(self._prepared):
            if kind not in (one.counts or KINDS[:1]):
                continue
            is_first = kind == next((k for k in KINDS if k in one.counts), KINDS[0])
            for place, doc in enumerate(one.asked()):
                opened = self._opened(number, place, doc, is_mixed=len(one.counts) > 1)
                if is_first and not opened.left:
                    self._complete(opened)
                for index, request in enumerate(opened.doc.requests):
                    if request.kind == kind:
                        waits = self._waits(opened, index, request)
                        if waits is not None:
                            self._sent[sent] = waits
                            sent += 1
                            yield request

    def _opened(self, task: int, place: int, doc: DocRequests, *, is_mixed: bool) -> _OpenDoc:
        count = len(doc.requests)
        if not is_mixed:
            return _OpenDoc(task, place, doc, [None] * count, count)
        known = self._mixed.get((task, place))  # its requests of another kind were asked before
        if known is None:
            known = self._mixed[task, place] = _OpenDoc(task, place, doc, [None] * count, count)
        return known

    def _waits(self, opened: _OpenDoc, index: int, request: Request) -> _Sent | None:
        """The request to be sent; None where its answer is kept, or on its way already."""
        kept = self._kept
        if kept is None:
            return _Sent(None, [(opened, index)])
        key = kept.keys.of(request)
        if key is not None and self._looks_up:
            if kept.is_shared and key in self._by_key:
                self._by_key[key].waiting.append((opened, index))
                return None
            answer = kept.store.get(key)
            if answer is not None:
                kept.found += 1
                self._progress.found()
                self._give(opened, index, answer)
                return None
        sent = _Sent(key, [(opened, index)])
        if kept.is_shared and key is not None:
            self._by_key[key] = sent
        return sent

    # Answers, as they come

    def _take(self, place: int, answer: Answered) -> None:
        sent = self._sent.pop(place, None)
        if sent is None:
            raise self._miscounted(
                f"answered request {place}, which it was not asked or had answered"
            )
        if sent.key is not None:
            self._by_key.pop(sent.key, None)
        opened, index = sent.waiting[0]
        task = opened.doc.requests[index].task
        self._progress.describe(task)
        self._costs.answered(task)
        if isinstance(answer, FailedRequest):
            self._fail(sent, answer.error)
            return
        self._check(opened.doc.requests[index], answer)
        kept = self._kept
        if kept is not None and sent.key is not None:
            usage = None if kept.is_shared else self._costs.of(task)
            answer = kept.store.put(sent.key, answer, task, usage)
            kept.added += 1
        for opened, index in sent.waiting:
            self._progress.advance()
            self._give(opened, index, answer)

    def _check(self, request: Request, answer: Any) -> None:
        """Refuse what is not an answer before it is kept: scored, it would look like one."""
        expected = expected_instead(request.kind, answer)
        if expected is not None:
            raise ModelError(
                f"Model backend {type(self._model).__name__} answers {request.kind} (task "
                f"{request.task!r}, doc {request.doc_id}) with {shorten(answer)}; expected {expected}."
            )

    def _fail(self, sent: _Sent, error: RequestError) -> None:
        self._failed += 1
        if self._failed > self._allowed:
            raise _too_many_failed(error, self._failed, self._allowed)
        for opened, _ in sent.waiting:
            self._progress.advance()
            opened.why = opened.why or str(error)
            self._count_down(opened)

    def _give(self, opened: _OpenDoc, index: int, answer: Any) -> None:
        opened.answers[index] = answer
        self._count_down(opened)

    def _count_down(self, opened: _OpenDoc) -> None:
        opened.left -= 1
        if not opened.left:
            self._complete(opened)

    def _complete(self, opened: _OpenDoc) -> None:
        self._mixed.pop((opened.task, opened.place), None)
        sink = self._sinks[opened.task]
        if opened.why is None:
            sink.take(opened.place, opened.doc, opened.answers)
        else:
            sink.miss(opened.place, opened.doc, opened.answers, opened.why)

    def _miscounted(self, what: str) -> ModelError:
        return ModelError(
            f"Model backend {type(self._model).__name__} {what}. A backend answers each request once."
        )


class _Feed:
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


def allowed_failures(max_failed: str | int, total: int) -> int:
    """How many of ``total`` requests may fail: a number such as 5, or a share such as ``1%``."""
    return allowed_count(max_failed, total, flag="--max_failed", what="requests")


def _too_many_failed(error: RequestError, failed: int, allowed: int) -> RequestError:
    text = (
        f"{error} With --max_failed 1% such requests are counted as missing, and the run goes on."
    )
    if allowed:
        text = (
            f"{failed:,} requests failed for good, and --max_failed allows {allowed:,}. The last: "
            f"{error}"
        )
    whole = RequestError(
        text,
        status=error.status,
        attempts=error.attempts,
        stops_run=error.stops_run,
        retryable=error.retryable,
    )
    whole.__cause__ = error
    return whole
