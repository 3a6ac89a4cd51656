"""Requests of a run → batches of a provider → answers, however often the run dies.

The lines of a batch are noted beside the run's answers before it is submitted, and its id as soon as the
provider returns it. A line's ``custom_id`` begins with the key of its request, so that whichever process
collects a batch knows which request each line answers. It ends with a mark of this submission, by which
a batch whose id never arrived is told from all others. A batch is forgotten once its answers are
stored.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lm_eval.errors import ModelError, RequestError, UsageError
from lm_eval.models.api.calls import ServerCaller
from lm_eval.models.api.generation import GenerationJob, GenerationJobs
from lm_eval.models.api.settings import server_root
from lm_eval.models.batches.protocols import BatchProtocol, BatchState, LineOutcome
from lm_eval.models.http.failures import RETRIED, BrokenBody
from lm_eval.requests import Answered, FailedRequest, GenerateRequest

if TYPE_CHECKING:
    from lm_eval.models.api_models import TemplateAPI
    from lm_eval.models.http.transport import Transport

T = TypeVar("T")
_LEAST_TIMEOUT_S = 600.0
"""Files of a batch are large."""
_LARGEST_REPLY = 2**30
_MARK = 16
"""Characters that mark the lines of one submission; an id has at most 64 in all."""


class Notes(Protocol):
    """What outlives the process: texts by name."""

    def notes(self) -> dict[str, str]: ...
    def note(self, name: str, value: str | None) -> None: ...


@dataclass
class OpenBatch:
    """A batch as it is noted: its lines, what it was made from, and its id once that is known."""

    name: str
    custom_ids: list[str]
    since: float
    uploaded: str = ""
    id: str | None = None
    seen: tuple[str, int] = field(default=("", -1), compare=False)
    """Its state when the user was last told."""

    @property
    def keys(self) -> list[str]:
        """The keys of its requests."""
        return list(map(_key_in, self.custom_ids))

    def as_note(self) -> str:
        facts = {"id": self.id, "uploaded": self.uploaded, "since": self.since}
        return json.dumps({**facts, "custom_ids": self.custom_ids})

    @classmethod
    def from_note(cls, name: str, value: str) -> OpenBatch:
        facts = json.loads(value)
        return cls(name, facts["custom_ids"], facts["since"], facts["uploaded"], facts["id"])


@dataclass
class _Line:
    index: int
    job: GenerationJob
    tries: int = 0


class BatchStream:
    """Answers the requests of one run through batches.

    ``key_of`` gives the key of a request in the run's store, ``notes`` is that store.
    """

    def __init__(
        self,
        caller: ServerCaller,
        model: TemplateAPI,
        *,
        protocol: type[BatchProtocol],
        key_of: Callable[[Any], bytes | None],
        notes: Notes,
        look_s: float,
    ) -> None:
        self._caller = caller
        self._model = model
        self._key_of = key_of
        self._notes = notes
        self._look_s = look_s
        self._protocol = protocol(self._connect, model.endpoint)
        self._open: list[OpenBatch] = []

    def replies(self, requests: Iterable[GenerateRequest]) -> Iterator[tuple[int, Answered]]:
        """``(index, answer)`` as batches end."""
        waiting = self._lines(list(requests))
        self._open = [batch for batch in self._noted() if not waiting.keys().isdisjoint(batch.keys)]
        pending = {key for batch in self._open for key in batch.keys}
        if self._open:
            self._say(f"collecting {_batches(len(self._open))} of an earlier run")
        self._submit({key: line for key, line in waiting.items() if key not in pending})
        while waiting:
            again: dict[str, _Line] = {}
            over = [(batch, state) for batch, state in self._looked() if state.is_over]
            for batch, state in over:
                yield from self._collected(batch, state, waiting, again)
                self._forget(batch)
            if again:
                self._say(f"asking again for {len(again):,} lines that expired or failed")
                self._submit(again)
            if waiting and not over:
                time.sleep(self._look_s)

    # -- lines -----------------------------------------------------------------------------------

    def _lines(self, requests: Sequence[GenerateRequest]) -> dict[str, _Line]:
        """Key → its line, in the order of the requests."""
        jobs = GenerationJobs(self._model, self._model.generates_from_tokens()).made(requests)
        lines = {}
        for job in jobs:
            (index,) = job.indices
            if job.grammar is not None and job.grammar.is_two_phase:
                raise UsageError(
                    f"Task {job.task!r}: its answer is enforced after free reasoning, which needs "
                    "two requests, and a batch has one. Leave --batch_api or +enforced out."
                )
            key = self._key_of(requests[index])
            lines[uuid.uuid4().hex if key is None else key.hex()] = _Line(index, job)
        return lines

    def _collected(
        self,
        batch: OpenBatch,
        state: BatchState,
        waiting: dict[str, _Line],
        again: dict[str, _Line],
    ) -> Iterator[tuple[int, Answered]]:
        """The answers in a batch that is over; lines that are to be asked again go to ``again``."""
        if state.refused:
            self._forget(batch)
            raise RequestError(
                f"The provider refused batch {batch.id}: {self._caller.redact(state.refused)}. None "
                "of it was asked. Correct what it names, and run again.",
                stops_run=True,
            )
        for outcome in self._outcomes(batch, state):
            key = _key_in(outcome.custom_id)
            line = waiting.get(key)
            if line is None or key in again:
                continue  # answered before, or not of this run
            answer = self._answer(line, outcome)
            if answer is None:
                again[key] = line
            else:
                del waiting[key]
                yield line.index, answer
        if self._model.meanwhile is not None:
            self._model.meanwhile.flush()

    def _outcomes(self, batch: OpenBatch, state: BatchState) -> Iterator[LineOutcome]:
        """The results of a batch, and of lines that it ended without."""
        assert batch.id is not None
        found = set()
        for outcome in self._protocol.outcomes(batch.id, state):
            found.add(outcome.custom_id)
            yield outcome
        for custom_id in batch.custom_ids:
            if custom_id not in found:
                why = f"the batch ended without it ({state.status})"
                yield LineOutcome(custom_id, None, why)

    def _answer(self, line: _Line, outcome: LineOutcome) -> Answered | None:
        """The answer to a line; None if it is asked again."""
        error, is_final = outcome.error, outcome.is_final
        if outcome.body is not None:
            try:
                return self._caller.read_job(line.job, outcome.body)
            except (BrokenBody, ModelError) as problem:
                error, is_final = f"the reply cannot be read: {problem}", False
        line.tries += 1
        if not is_final and line.tries <= self._model.max_retries:
            return None
        text = self._caller.redact(f"A line of a batch failed: {error}.")
        return FailedRequest(RequestError(text, status=outcome.status, attempts=line.tries))

    # -- batches ---------------------------------------------------------------------------------

    def _noted(self) -> Iterator[OpenBatch]:
        """The batches that an earlier process submitted; one without an id is searched for."""
        batches = [OpenBatch.from_note(name, text) for name, text in self._notes.notes().items()]
        known = {batch.id for batch in batches if batch.id is not None}
        for batch in batches:
            if batch.id is not None or self._found(batch, known):
                yield batch
            else:  # its lines are submitted again
                self._say(f"a batch of {len(batch.custom_ids):,} requests was never started")
                self._notes.note(batch.name, None)

    def _found(self, batch: OpenBatch, known: set[str]) -> bool:
        """Whether the provider has a batch whose id never arrived.

        Some providers tell only at the end of a batch what is in it: that is waited for.
        """
        size = len(batch.custom_ids)
        candidates = self._protocol.find(batch.uploaded, size, batch.since, known)
        for looks in count():
            for candidate in list(candidates):
                is_this = self._protocol.holds(candidate, batch.custom_ids)
                if is_this:
                    batch.id = candidate
                    self._notes.note(batch.name, batch.as_note())
                    return True
                if is_this is not None:
                    candidates.remove(candidate)
            if not candidates:
                return False
            if not looks:
                self._say(
                    f"the id of a batch of {size:,} requests never arrived; the provider has "
                    f"{_batches(len(candidates))} of this size under way, and the results will say "
                    "whether it is among them"
                )
            time.sleep(self._look_s)
        return False

    def _submit(self, lines: Mapping[str, _Line]) -> None:
        """Start as many batches as the lines need."""
        mark = uuid.uuid4().hex[:_MARK]
        part: list[bytes] = []
        ids: list[str] = []
        size = 0
        for key, line in lines.items():
            custom_id = f"{key}-{mark}"
            text = self._protocol.line(custom_id, self._caller.payload(line.job))
            is_full = len(part) == self._protocol.most_lines
            if part and (is_full or size + len(text) + 1 > self._protocol.most_bytes):
                self._begin(part, ids)
                part, ids, size = [], [], 0
            part.append(text)
            ids.append(custom_id)
            size += len(text) + 1
        if part:
            self._begin(part, ids)

    def _begin(self, lines: Sequence[bytes], custom_ids: Sequence[str]) -> None:
        """Start one batch: noted before it is submitted, so that it is found whenever we die."""
        batch = OpenBatch(f"batch {uuid.uuid4().hex}", list(custom_ids), time.time())
        self._notes.note(batch.name, batch.as_note())
        try:
            batch.uploaded = self._protocol.upload(lines)
            self._notes.note(batch.name, batch.as_note())
            self._create(lines, batch)
        except RequestError as error:
            if _is_refused(error):
                self._notes.note(batch.name, None)
            raise self._caller.explained(error) from error.__cause__
        self._open.append(batch)
        self._say(f"batch {batch.id}: {len(custom_ids):,} requests submitted")

    def _create(self, lines: Sequence[bytes], batch: OpenBatch) -> None:
        """Create the batch. If the reply is lost, it may have started: it must not start twice."""
        known = {other.id for other in self._open if other.id is not None}
        for attempt in range(self._model.max_retries + 1):
            try:
                batch.id = self._protocol.create(lines, batch.uploaded)
            except RequestError as error:
                if _is_refused(error):
                    raise
                time.sleep(min(2.0**attempt, self._look_s))
                if self._found(batch, known):
                    return
                if attempt == self._model.max_retries:
                    raise
            else:
                self._notes.note(batch.name, batch.as_note())
                return

    def _looked(self) -> Iterator[tuple[OpenBatch, BatchState]]:
        """The state of each batch whose id is known; the user is told of changes."""
        for batch in list(self._open):
            assert batch.id is not None
            state = self._protocol.state(batch.id)
            if batch.seen != (state.status, state.done):
                batch.seen = (state.status, state.done)
                self._say(
                    f"batch {batch.id}: {state.done:,} of {len(batch.custom_ids):,} answered "
                    f"({state.status}), {_batches(len(self._open))} pending"
                )
            yield batch, state

    def _forget(self, batch: OpenBatch) -> None:
        self._open = [other for other in self._open if other is not batch]
        self._notes.note(batch.name, None)

    # -- the connection --------------------------------------------------------------------------

    def _connect(
        self,
        path: str,
        decode: Callable[[bytes], T],
        body: bytes | None = None,
        *,
        kind: str = "application/json",
        once: bool = False,
    ) -> T:
        header = {**self._caller.header(), "Content-Type": kind}
        url = server_root(self._model.base_url) + path
        retries = 0 if once else self._model.max_retries
        request = self._transport.request(url, body, header, decode, max_retries=retries)
        return self._transport.run(request).value

    @cached_property
    def _transport(self) -> Transport:
        from lm_eval.models.http.transport import Transport

        usual = self._caller.transport.options
        options = replace(
            usual,
            num_concurrent=1,
            timeout_s=max(usual.timeout_s, _LEAST_TIMEOUT_S),
            max_response_bytes=_LARGEST_REPLY,
        )
        return Transport(options, describe_secret=self._caller.redact)

    def _say(self, text: str) -> None:
        print(f"lm-eval: {text}", file=sys.stderr, flush=True)


def use_batches(
    model: Any, *, key_of: Callable[[Any], bytes | None], notes: Notes, look_s: float
) -> None:
    """Have a model behind a server submit its requests for text as batches."""
    model.batches = BatchStream(
        model._calls,
        model,
        protocol=model.batch_protocol,
        key_of=key_of,
        notes=notes,
        look_s=look_s,
    )


def _key_in(custom_id: str) -> str:
    """The key of a line's request: what comes before the mark."""
    return custom_id.partition("-")[0]


def _batches(count: int) -> str:
    return "1 batch" if count == 1 else f"{count:,} batches"


def _is_refused(error: RequestError) -> bool:
    """Whether a provider has read what was submitted and refuses it."""
    status = error.status
    return status is not None and 400 <= status < 500 and status not in RETRIED
