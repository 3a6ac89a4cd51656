"""Requests of all tasks → the model → answers, doc by doc, each kept before the next is taken.

In: prepared tasks, and for each a ``DocSink`` that scores its docs. The requests of one kind go to the
model as one stream over all tasks, made as the model reads them; docs whose answers are all kept come
after those that lack one. A doc is held only until its last answer is there and, if the model waits for
a server, until there is time to score it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lm_eval.config.fields import shorten
from lm_eval.errors import ModelError, RequestError
from lm_eval.models.base import LM, peek
from lm_eval.registry import backend_name
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
from lm_eval.requests.values import Costs, Usage
from lm_eval.support.progress import CHARACTERS_A_TOKEN, Progress, RunPace

if TYPE_CHECKING:
    from lm_eval.answers.keys import DocKeys, RequestKeys
    from lm_eval.answers.store import AnswerStore

KINDS = (LoglikelihoodRequest.kind, RollingRequest.kind, GenerateRequest.kind)
MAX_READY = 256
"""Docs that may wait to be scored while a server works."""
MAX_READY_CHARACTERS = 2**23
"""How long their replies may be, together."""
SLICE_S = 0.002
"""How long docs are scored before the model goes on; a doc that is begun is finished."""


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


@dataclass(slots=True)
class SentRequest:
    """A request that was sent, and the docs that wait for its answer."""

    key: bytes | None
    waiting: list[tuple[OpenDoc, int]]


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


def ask_all(
    prepared: Sequence[Askable],
    sinks: Sequence[DocSink],
    model: LM,
    *,
    kept: AnswerCache | None = None,
    max_failed: str | int = 0,
    shows_progress: bool = True,
    pace: RunPace | None = None,
) -> dict[str, Usage]:
    """Ask everything and hand the docs to ``sinks``. Task → its cost, earlier processes included.

    ``pace`` knows how long requests of each kind take, if there are several kinds.
    """
    total = sum(task.num_requests for task in prepared)
    name = prepared[0].task.name if prepared else ""
    with Progress(name, total, enabled=shows_progress, pace=pace) as progress:
        allowed = allowed_count(max_failed, total, flag="--max_failed", what="requests")
        asking = _Asking(prepared, sinks, model, kept, allowed, progress, pace)
        with asking.working_meanwhile():
            for kind in KINDS:
                asking.ask(kind)
    return asking.usage()


class _Asking:
    """The state of a run between its requests and its answers.

    The model may read requests in its own thread, while answers are taken in this one: whatever touches
    the state holds the lock.
    """

    def __init__(
        self,
        prepared: Sequence[Askable],
        sinks: Sequence[DocSink],
        model: LM,
        kept: AnswerCache | None,
        allowed: int,
        progress: Progress,
        pace: RunPace | None,
    ) -> None:
        self._prepared = prepared
        self._sinks = sinks
        self._model = model
        self._kept = kept
        self._is_new = kept is None or kept.store.is_empty
        self._looks_up = kept is not None and (kept.is_shared or not self._is_new)
        self._allowed = allowed
        self._failed = 0
        self._progress = progress
        self._pace = pace or RunPace(())
        self._costs = Costs(model)
        self._lock = threading.RLock()
        self._sent: dict[int, SentRequest] = {}
        self._by_key: dict[bytes, SentRequest] = {}
        self._mixed: dict[tuple[int, int], OpenDoc] = {}
        self._answered: set[str] = set()
        self._waits_for_server = hasattr(model, "meanwhile")
        self._ready: deque[OpenDoc] = deque()
        self._ready_characters = 0
        self._keys = [task.keys for task in prepared]
        self._lacking = self._looked_up() if self._looks_up and not self._is_new else None

    def ask(self, kind: str) -> None:
        """Ask all requests of one kind: first those of docs that lack an answer."""
        for is_kept in (False,) if self._lacking is None else (False, True):
            self._stream(kind, is_kept=is_kept)
            self._score_ready(leave=0)

    def _stream(self, kind: str, *, is_kept: bool) -> None:
        feed = RequestFeed(self._requests(kind, is_kept=is_kept), self._lock)
        first, requests = peek(feed)
        if first is not None:
            self._progress.describe(first.task)
            self._pace.begin(kind)
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
        costs = {asked.task.name: self._costs.of(asked.task.name) for asked in self._prepared}
        for task, usage in costs.items():
            usage.add(earlier.get(task, Usage()))
        return costs

    # What is done while a server works

    @contextmanager
    def working_meanwhile(self) -> Iterator[None]:
        """Let a model that waits for a server do our ``work`` meanwhile."""
        model: Any = self._model
        if self._waits_for_server:
            model.meanwhile = self
        try:
            yield
        finally:
            if self._waits_for_server:
                model.meanwhile = None
            self.flush()

    def flush(self) -> None:
        """Put the answers that were taken on disk, all in one step."""
        kept = self._kept
        if kept is not None and self._answered:
            tasks = () if kept.is_shared else self._answered
            kept.store.commit({task: self._costs.of(task) for task in tasks})
            self._answered.clear()

    @property
    def is_ready(self) -> bool:
        """Whether docs wait to be scored."""
        return bool(self._ready)

    def work(self) -> None:
        """Score docs for a moment."""
        until = time.perf_counter() + SLICE_S
        with self._lock:
            while self._ready and time.perf_counter() < until:
                self._score_ready(leave=len(self._ready) - 1)

    def _score_ready(self, *, leave: int) -> None:
        """Score the docs that have waited longest; their answers are on disk before."""
        if len(self._ready) > leave:
            self.flush()
        while len(self._ready) > leave:
            opened = self._ready.popleft()
            self._ready_characters -= opened.characters
            self._score(opened)

    # What is kept already

    def _looked_up(self) -> list[bytearray]:
        """For each task which of its docs lack an answer; the kept answers of the others are counted."""
        from lm_eval.answers.keys import DocKeys

        assert self._kept is not None
        flags = []
        for number, asked in enumerate(self._prepared):
            keys = self._keys[number]
            if keys is None:
                keys = self._keys[number] = DocKeys()
                for doc in asked.asked():
                    keys.add(map(self._kept.keys.of, doc.requests))
            flags.append(keys.lacking(self._kept.store.known))
            found = keys.count(flags[-1])
            self._progress.found(found)
            self._pace.found(asked.task.name, found)
        return flags

    def _docs(self, number: int, *, is_kept: bool) -> Iterator[tuple[int, DocRequests]]:
        """The docs of a task that lack an answer, or those that do not, with their positions."""
        asked = self._prepared[number]
        if self._lacking is None:
            return enumerate(asked.asked())
        wanted = self._lacking[number]
        if is_kept:
            wanted = bytearray(not flag for flag in wanted)
        return asked.asked_at(wanted) if any(wanted) else iter(())

    # Requests, as the model reads them

    def _requests(self, kind: str, *, is_kept: bool) -> Iterator[Request]:
        sent = 0
        for number, asked in enumerate(self._prepared):
            if kind not in (asked.counts or KINDS[:1]):
                continue
            is_first = kind == next((k for k in KINDS if k in asked.counts), KINDS[0])
            for place, doc in self._docs(number, is_kept=is_kept):
                opened = self._opened(number, place, doc, is_mixed=len(asked.counts) > 1)
                if is_first and not opened.left:
                    self._complete(opened)
                for index, request in enumerate(opened.doc.requests):
                    if request.kind == kind:
                        waits = self._waits(opened, index, request, is_counted=is_kept)
                        if waits is not None:
                            if is_kept:  # what was found is damaged, or gone
                                self._progress.found(-1)
                                self._pace.found(asked.task.name, -1)
                            self._sent[sent] = waits
                            sent += 1
                            yield request

    def _opened(self, task: int, place: int, doc: DocRequests, *, is_mixed: bool) -> OpenDoc:
        known = self._mixed.get((task, place))  # its requests of another kind were asked before
        if known is not None:
            return known
        count, keys = len(doc.requests), self._keys[task]
        opened = OpenDoc(
            task, place, doc, [None] * count, count, None if keys is None else keys.of(place)
        )
        if is_mixed:
            self._mixed[task, place] = opened
        return opened

    def _waits(
        self, opened: OpenDoc, index: int, request: Request, *, is_counted: bool
    ) -> SentRequest | None:
        """The request to be sent; None if its answer is kept, or on its way already."""
        kept = self._kept
        if kept is None:
            return SentRequest(None, [(opened, index)])
        key = kept.keys.of(request) if opened.keys is None else opened.keys[index]
        if key is not None and self._looks_up:
            if kept.is_shared and key in self._by_key:
                self._by_key[key].waiting.append((opened, index))
                return None
            answer = kept.store.get(key)
            if answer is not None:
                kept.found += 1
                if not is_counted:
                    self._progress.found()
                    self._pace.found(request.task, 1)
                self._give(opened, index, answer)
                return None
        sent = SentRequest(key, [(opened, index)])
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
        tokens = len(answer) / CHARACTERS_A_TOKEN if isinstance(answer, str) else None
        for doc, at in sent.waiting:
            request = doc.doc.requests[at]
            self._pace.answered(request.task, request.kind, tokens)
        self._costs.answered(task)
        if isinstance(answer, FailedRequest):
            self._fail(sent, answer.error)
            return
        self._check(opened.doc.requests[index], answer)
        kept = self._kept
        if kept is not None and sent.key is not None:
            answer = kept.store.add(sent.key, answer)
            kept.added += 1
            self._answered.add(task)
            if not self._waits_for_server:
                self.flush()
        for opened, index in sent.waiting:
            self._progress.advance()
            self._give(opened, index, answer)

    def _check(self, request: Request, answer: Any) -> None:
        """Refuse what is not an answer before it is kept: scored, it would look like one."""
        expected = expected_instead(request.kind, answer)
        if expected is not None:
            raise ModelError(
                f"Model backend {backend_name(self._model)} answers {request.kind} (task "
                f"{request.task!r}, doc {request.doc_id}) with {shorten(answer)}; expected {expected}."
            )

    def _fail(self, sent: SentRequest, error: RequestError) -> None:
        self._failed += 1
        if self._failed > self._allowed:
            raise _too_many_failed(error, self._failed, self._allowed) from error
        for opened, _ in sent.waiting:
            self._progress.advance()
            opened.why = opened.why or str(error)
            self._count_down(opened)

    def _give(self, opened: OpenDoc, index: int, answer: Any) -> None:
        opened.answers[index] = answer
        self._count_down(opened)

    def _count_down(self, opened: OpenDoc) -> None:
        opened.left -= 1
        if not opened.left:
            self._complete(opened)

    def _complete(self, opened: OpenDoc) -> None:
        self._mixed.pop((opened.task, opened.place), None)
        if not self._waits_for_server:
            self._score(opened)
            return
        self._ready.append(opened)
        self._ready_characters += opened.characters
        if self._ready_characters > MAX_READY_CHARACTERS:
            self._score_ready(leave=0)
        elif len(self._ready) > MAX_READY:
            self.work()  # for a while, so that answers taken together are also kept together

    def _score(self, opened: OpenDoc) -> None:
        sink = self._sinks[opened.task]
        if opened.why is None:
            sink.take(opened.place, opened.doc, opened.answers)
        else:
            sink.miss(opened.place, opened.doc, opened.answers, opened.why)

    def _miscounted(self, what: str) -> ModelError:
        return ModelError(
            f"Model backend {backend_name(self._model)} {what}. A backend answers each request once."
        )


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


def _too_many_failed(error: RequestError, failed: int, allowed: int) -> RequestError:
    text = (
        f"{error} With --max_failed 1% such requests are counted as missing, and the run goes on."
    )
    if allowed:
        text = (
            f"{failed:,} requests failed for good, and --max_failed allows {allowed:,}. The last: "
            f"{error}"
        )
    return error.saying(text)
