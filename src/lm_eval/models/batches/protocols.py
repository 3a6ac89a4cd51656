"""The batch protocols of OpenAI and Anthropic: submitting a batch, its state, and its results.

Each protocol knows its addresses, limits and shapes; none knows what is asked. The result of a line is a
``LineOutcome``: the body of a reply, or an error after which asking again may or may not help.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from lm_eval.errors import RequestError
from lm_eval.models.http.failures import RETRIED, BrokenBody

_DELETED = frozenset((404, 410))
_FOUND_WITHIN_S = 300.0
"""How far the clock of a server may be behind ours."""


T = TypeVar("T")


class Connection(Protocol):
    """Sends one request to a provider; without a body it is a GET. ``once``: it is not sent again.

    A reply that ``decode`` cannot read is asked for again, as one that broke off is.
    """

    def __call__(
        self,
        path: str,
        decode: Callable[[bytes], T],
        body: bytes | None = None,
        *,
        kind: str = ...,
        once: bool = False,
    ) -> T: ...


@dataclass(frozen=True)
class BatchState:
    """How far a batch is."""

    is_over: bool
    status: str
    done: int
    total: int
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


class BatchProtocol(Protocol):
    """How one provider takes batches."""

    most_lines: int
    most_bytes: int

    def __init__(self, connect: Connection, endpoint: str) -> None:
        """``endpoint`` is the path to which the requests would go one by one."""

    def line(self, custom_id: str, payload: Mapping[str, Any]) -> bytes:
        """One request as a batch holds it."""

    def upload(self, lines: Sequence[bytes]) -> str:
        """Upload what a batch is made from; a name by which the batch can be found, possibly empty."""

    def create(self, lines: Sequence[bytes], uploaded: str) -> str:
        """Start a batch; its id."""

    def find(self, uploaded: str, count: int, since: float, known: set[str]) -> list[str]:
        """Batches, except the known ones, that may be the one that was started with these arguments."""

    def holds(self, batch: str, custom_ids: Sequence[str]) -> bool | None:
        """Whether a batch from ``find`` has these lines; None if that is not known yet."""

    def state(self, batch: str) -> BatchState: ...

    def outcomes(self, batch: str, state: BatchState) -> Iterator[LineOutcome]: ...


class OpenAIBatches:
    """Batches made from uploaded JSONL files."""

    most_lines = 50_000
    most_bytes = 200_000_000
    _OVER = ("completed", "failed", "expired", "cancelled")

    def __init__(self, connect: Connection, endpoint: str) -> None:
        self._connect = connect
        self._endpoint = endpoint

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
        return self._connect("/v1/files", _id_in, body, kind=kind)

    def create(self, lines: Sequence[bytes], uploaded: str) -> str:  # noqa: ARG002 (of the protocol)
        asked = {"input_file_id": uploaded, "endpoint": self._endpoint, "completion_window": "24h"}
        return self._connect("/v1/batches", _id_in, json.dumps(asked).encode(), once=True)

    def find(self, uploaded: str, count: int, since: float, known: set[str]) -> list[str]:  # noqa: ARG002
        """The batch that was made from the file, which is ours alone."""
        if not uploaded:
            return []
        listed = _listed(self._connect, "/v1/batches", "after", since)
        ours = (str(batch["id"]) for batch in listed if batch.get("input_file_id") == uploaded)
        return list(islice(ours, 1))

    def holds(self, batch: str, custom_ids: Sequence[str]) -> bool | None:  # noqa: ARG002
        return True

    def state(self, batch: str) -> BatchState:
        return self._connect(f"/v1/batches/{batch}", self._state)

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
        total = counts.get("total", 0)
        return BatchState(status in self._OVER, status, done, total, refused, files)

    def outcomes(self, batch: str, state: BatchState) -> Iterator[LineOutcome]:  # noqa: ARG002
        for name in state.files:
            for line in self._connect(f"/v1/files/{name}/content", _lines):
                yield _readable(self._outcome, line)

    def _outcome(self, line: Mapping[str, Any]) -> LineOutcome:
        custom_id, response = str(line.get("custom_id")), line.get("response") or {}
        status, body = response.get("status_code"), response.get("body")
        if status == 200 and isinstance(body, Mapping):
            return LineOutcome(custom_id, body)
        error = line.get("error") or (body or {}).get("error") or {"message": "no reply"}
        message = error.get("message") or error.get("code") if isinstance(error, Mapping) else error
        is_final = isinstance(status, int) and 400 <= status < 500 and status not in RETRIED
        return LineOutcome(custom_id, None, str(message), status, is_final)


class AnthropicBatches:
    """Batches of messages, each submitted with one request."""

    most_lines = 100_000
    most_bytes = 256_000_000
    _FINAL = (
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "not_found_error",
    )

    def __init__(self, connect: Connection, endpoint: str) -> None:
        self._connect = connect
        self._batches = f"{endpoint}/batches"

    def line(self, custom_id: str, payload: Mapping[str, Any]) -> bytes:
        return json.dumps({"custom_id": custom_id, "params": payload}).encode()

    def upload(self, lines: Sequence[bytes]) -> str:  # noqa: ARG002 (of the protocol)
        return ""

    def create(self, lines: Sequence[bytes], uploaded: str) -> str:  # noqa: ARG002
        body = b'{"requests":[' + b",".join(lines) + b"]}"
        return self._connect(self._batches, _id_in, body, once=True)

    def find(self, uploaded: str, count: int, since: float, known: set[str]) -> list[str]:  # noqa: ARG002
        """Batches of this size since then: no more is known of a batch under way."""
        return [
            str(batch["id"])
            for batch in _listed(self._connect, self._batches, "after_id", since)
            if batch["id"] not in known
            and sum(_counts(batch).values()) == count
            and _created(batch) >= since - _FOUND_WITHIN_S
        ]

    def holds(self, batch: str, custom_ids: Sequence[str]) -> bool | None:
        """Its results say which lines it had; there are none before it has ended."""
        try:
            if not self.state(batch).is_over:
                return None
            results = self._connect(f"{self._batches}/{batch}/results", _lines)
        except RequestError as error:
            if error.status not in _DELETED:
                raise
            return False
        sent = set(custom_ids)
        return any(str(line.get("custom_id")) in sent for line in results)

    def state(self, batch: str) -> BatchState:
        return self._connect(f"{self._batches}/{batch}", self._state)

    def _state(self, body: bytes) -> BatchState:
        facts = _object(body)
        status, counts = _status(facts, "processing_status"), _counts(facts)
        total = sum(counts.values())
        done = total - counts.get("processing", 0)
        return BatchState(status == "ended", status, done, total)

    def outcomes(self, batch: str, state: BatchState) -> Iterator[LineOutcome]:  # noqa: ARG002
        for line in self._connect(f"{self._batches}/{batch}/results", _lines):
            yield _readable(self._outcome, line)

    def _outcome(self, line: Mapping[str, Any]) -> LineOutcome:
        custom_id, result = str(line.get("custom_id")), line.get("result") or {}
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


def _readable(
    read: Callable[[Mapping[str, Any]], LineOutcome], line: Mapping[str, Any]
) -> LineOutcome:
    """The outcome of a line, be it that values of odd types made it unreadable."""
    try:
        return read(line)
    except (AttributeError, LookupError, TypeError, ValueError):
        return LineOutcome(str(line.get("custom_id")), None, f"odd result: {str(line)[:200]}")


def _listed(connect: Connection, path: str, cursor: str, since: float) -> Iterator[dict[str, Any]]:
    """The batches of a provider, the newest first, page by page until they are older than ``since``."""
    after = ""
    while True:
        page = connect(f"{path}?limit=100{after}", _object)
        batches = [batch for batch in page.get("data") or [] if _has_id(batch)]
        yield from batches
        if not page.get("has_more") or not batches:
            return
        if max(map(_created, batches)) < since - _FOUND_WITHIN_S:
            return
        after = f"&{cursor}={quote(str(batches[-1]['id']))}"


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
