"""The batch protocols of OpenAI and Anthropic: submitting a batch, its state, and its results.

Each protocol knows its addresses, limits and shapes; none knows what is asked. The result of a line is a
``LineOutcome``: the body of a reply, or an error after which asking again may or may not help.
"""

from __future__ import annotations

import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import quote

from lm_eval.errors import RequestError
from lm_eval.models.http.failures import RETRIED, BrokenBody

_DELETED = frozenset((404, 410))
_FOUND_WITHIN_S = 300.0
"""How far the clock of a server may be behind ours."""

Connection = Callable[..., Any]
"""``(path, decode, body=None, kind=…, once=False)`` sends one request; without a body it is a GET.

A reply that ``decode`` cannot read is asked for again, as one that broke off is; not if ``once``.
"""


@dataclass(frozen=True)
class BatchState:
    """How far a batch is."""

    is_over: bool
    status: str
    done: int
    refused: str = ""
    """Why the provider did not accept it; empty if it did."""
    files: tuple[str, ...] = ()
    """Where its results are, for protocols that name them."""


@dataclass(frozen=True)
class LineOutcome:
    """The result of one line: ``body`` of the reply, else ``error``."""

    custom_id: str
    body: Any = None
    error: str = ""
    status: int | None = None
    is_final: bool = False
    """Whether asking again would give the same error."""


class BatchProtocol(ABC):
    """How one provider takes batches. Its single requests would go to the path ``endpoint``."""

    most_lines: int
    most_bytes: int
    path: str
    """Where batches are begun and looked at."""
    cursor: str
    """The argument with which the next page of their list is asked for."""

    def __init__(self, connect: Connection, endpoint: str) -> None:
        self._connect = connect
        self._endpoint = endpoint

    @abstractmethod
    def line(self, custom_id: str, payload: Mapping[str, Any]) -> bytes:
        """One request as a batch holds it."""

    def upload(self, lines: Sequence[bytes]) -> str:
        """Upload what a batch is made from; a name by which the batch can be found, possibly empty."""
        del lines
        return ""

    def create(self, lines: Sequence[bytes], uploaded: str) -> str:
        """Start a batch; its id."""
        batch: str = self._connect(self.path, _id_in, self._asked(lines, uploaded), once=True)
        return batch

    @abstractmethod
    def _asked(self, lines: Sequence[bytes], uploaded: str) -> bytes:
        """The body of the request that starts a batch."""

    @abstractmethod
    def find(self, uploaded: str, count: int, since: float, known: set[str]) -> list[str]:
        """Batches, except the known ones, that may be the one that was started with these arguments."""

    def holds(self, batch: str, custom_ids: Sequence[str]) -> bool | None:
        """Whether a batch from ``find`` has these lines; None if that is not known yet."""
        del batch, custom_ids
        return True

    def state(self, batch: str) -> BatchState:
        state: BatchState = self._connect(f"{self.path}/{batch}", self._state)
        return state

    @abstractmethod
    def _state(self, body: bytes) -> BatchState: ...

    def outcomes(self, batch: str, state: BatchState) -> Iterator[LineOutcome]:
        """The results of a batch, be it that values of odd types make a line unreadable."""
        for path in self._results(batch, state):
            for line in self._connect(path, _lines):
                try:
                    yield self._outcome(str(line.get("custom_id")), line)
                except (AttributeError, LookupError, TypeError, ValueError):
                    odd = f"odd result: {str(line)[:200]}"
                    yield LineOutcome(str(line.get("custom_id")), None, odd)

    @abstractmethod
    def _results(self, batch: str, state: BatchState) -> list[str]:
        """The paths of the files that have the results."""

    @abstractmethod
    def _outcome(self, custom_id: str, line: Mapping[str, Any]) -> LineOutcome: ...

    def _listed(self, since: float) -> Iterator[dict[str, Any]]:
        """The batches of a provider, the newest first, page by page until they are older than that."""
        after = ""
        while True:
            page = self._connect(f"{self.path}?limit=100{after}", _object)
            batches = [batch for batch in page.get("data") or [] if _has_id(batch)]
            yield from batches
            if not page.get("has_more") or not batches:
                return
            if max(map(_created, batches)) < since - _FOUND_WITHIN_S:
                return
            after = f"&{self.cursor}={quote(str(batches[-1]['id']))}"


class OpenAIBatches(BatchProtocol):
    """Batches made from uploaded JSONL files."""

    most_lines = 50_000
    most_bytes = 200_000_000
    path = "/v1/batches"
    cursor = "after"
    _OVER = ("completed", "failed", "expired", "cancelled")

    def line(self, custom_id: str, payload: Mapping[str, Any]) -> bytes:
        line = {"custom_id": custom_id, "method": "POST", "url": self._endpoint, "body": payload}
        return json.dumps(line, ensure_ascii=True).encode() + b"\n"

    def upload(self, lines: Sequence[bytes]) -> str:
        boundary = uuid.uuid4().hex
        start = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="file"; '
            'filename="requests.jsonl"\r\nContent-Type: application/jsonl\r\n\r\n'
        )
        body = b"".join([start.encode(), *lines, f"\r\n--{boundary}--\r\n".encode()])
        kind = f"multipart/form-data; boundary={boundary}"
        uploaded: str = self._connect("/v1/files", _id_in, body, kind=kind)
        return uploaded

    def _asked(self, lines: Sequence[bytes], uploaded: str) -> bytes:
        del lines
        asked = {"input_file_id": uploaded, "endpoint": self._endpoint, "completion_window": "24h"}
        return json.dumps(asked).encode()

    def find(self, uploaded: str, count: int, since: float, known: set[str]) -> list[str]:
        """The batch that was made from the file, which is ours alone."""
        del count, known
        listed = self._listed(since) if uploaded else iter(())
        ours = (str(batch["id"]) for batch in listed if batch.get("input_file_id") == uploaded)
        return list(islice(ours, 1))

    def _state(self, body: bytes) -> BatchState:
        facts = _object(body)
        status, counts = _status(facts, "status"), _counts(facts)
        done = counts.get("completed", 0) + counts.get("failed", 0)
        refused = ""
        if status == "failed":
            problems = (facts.get("errors") or {}).get("data") or []
            refused = "; ".join(str(p.get("message") or p.get("code")) for p in problems[:3])
            refused = refused or "it gave no reason"
        names = (facts.get("output_file_id"), facts.get("error_file_id"))
        files = tuple(str(name) for name in names if name)
        return BatchState(status in self._OVER, status, done, refused, files)

    def _results(self, batch: str, state: BatchState) -> list[str]:
        del batch
        return [f"/v1/files/{name}/content" for name in state.files]

    def _outcome(self, custom_id: str, line: Mapping[str, Any]) -> LineOutcome:
        response = line.get("response") or {}
        status, body = response.get("status_code"), response.get("body")
        if status == 200 and isinstance(body, Mapping):
            return LineOutcome(custom_id, body)
        error = line.get("error") or (body or {}).get("error") or {"message": "no reply"}
        message = error.get("message") or error.get("code") if isinstance(error, Mapping) else error
        is_final = isinstance(status, int) and 400 <= status < 500 and status not in RETRIED
        return LineOutcome(custom_id, None, str(message), status, is_final)


class AnthropicBatches(BatchProtocol):
    """Batches of messages, each submitted with one request."""

    most_lines = 100_000
    most_bytes = 256_000_000
    cursor = "after_id"
    _FINAL = (
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
    )

    @property
    def path(self) -> str:  # type: ignore[override]  # below the endpoint of single requests
        return f"{self._endpoint}/batches"

    def line(self, custom_id: str, payload: Mapping[str, Any]) -> bytes:
        return json.dumps({"custom_id": custom_id, "params": payload}).encode()

    def _asked(self, lines: Sequence[bytes], uploaded: str) -> bytes:
        del uploaded
        return b'{"requests":[' + b",".join(lines) + b"]}"

    def find(self, uploaded: str, count: int, since: float, known: set[str]) -> list[str]:
        """Batches of this size since then: no more is known of a batch under way."""
        del uploaded
        return [
            str(batch["id"])
            for batch in self._listed(since)
            if batch["id"] not in known
            and sum(_counts(batch).values()) == count
            and _created(batch) >= since - _FOUND_WITHIN_S
        ]

    def holds(self, batch: str, custom_ids: Sequence[str]) -> bool | None:
        """Its results say which lines it had; there are none before it has ended."""
        try:
            state = self.state(batch)
            if not state.is_over:
                return None
            held = {outcome.custom_id for outcome in self.outcomes(batch, state)}
        except RequestError as error:
            if error.status not in _DELETED:
                raise
            return False
        return not held.isdisjoint(custom_ids)

    def _state(self, body: bytes) -> BatchState:
        facts = _object(body)
        status, counts = _status(facts, "processing_status"), _counts(facts)
        done = sum(counts.values()) - counts.get("processing", 0)
        return BatchState(status == "ended", status, done)

    def _results(self, batch: str, state: BatchState) -> list[str]:
        del state
        return [f"{self.path}/{batch}/results"]

    def _outcome(self, custom_id: str, line: Mapping[str, Any]) -> LineOutcome:
        result = line.get("result") or {}
        kind = result.get("type")
        if kind == "succeeded":
            return LineOutcome(custom_id, result.get("message"))
        if kind != "errored":
            return LineOutcome(custom_id, None, str(kind or "no result"))
        error = result.get("error") or {}
        error = error.get("error") or error
        is_final = error.get("type") in self._FINAL
        return LineOutcome(custom_id, None, str(error.get("message")), None, is_final)


def _object(body: bytes) -> dict[str, Any]:
    value = json.loads(body)
    if not isinstance(value, dict):
        raise BrokenBody(f"it is not an object: {body[:200]!r}")
    return value


def _id_in(body: bytes) -> str:
    name = _object(body).get("id")
    if not isinstance(name, str) or not name:
        raise BrokenBody(f"it has no id: {body[:200]!r}")
    return name


def _status(facts: Mapping[str, Any], name: str) -> str:
    status = facts.get(name)
    if not isinstance(status, str):
        raise BrokenBody(f"it has no {name}: {str(facts)[:200]!r}")
    return status


def _counts(facts: Mapping[str, Any]) -> dict[str, int]:
    """How many lines are in which state; what is not a number is left out."""
    counts = facts.get("request_counts")
    known = counts.items() if isinstance(counts, Mapping) else ()
    return {str(name): number for name, number in known if isinstance(number, int)}


def _has_id(batch: Any) -> bool:
    return isinstance(batch, dict) and isinstance(batch.get("id"), str)


def _lines(body: bytes) -> list[Mapping[str, Any]]:
    """The lines of a file of results. A broken one is left out: its request is asked again."""
    lines: list[Mapping[str, Any]] = []
    broken = ""
    for line in body.splitlines():
        try:
            lines += [_object(line)] if line.strip() else []
        except ValueError as error:
            broken = str(error)
    if broken and not lines:
        raise BrokenBody(f"it is not a file of results: {broken}")
    return lines


def _created(batch: Mapping[str, Any]) -> float:
    """When a batch was started, in seconds; written as a number or as ``2024-08-20T18:37:24Z``."""
    moment = batch.get("created_at")
    if isinstance(moment, int | float):
        return float(moment)
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return 0.0
