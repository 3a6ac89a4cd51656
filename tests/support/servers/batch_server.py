"""A provider of batches on a loopback address: OpenAI's files and batches, Anthropic's message batches.

The official SDKs drive it in tests, so that what it says is what they understand. Its state outlives its
clients: a run that was killed finds its batches again.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

Fate = Callable[[str, Any, int], str]
"""Key, body and how often it came → ``ok``, ``expired``, ``error``, ``invalid`` or ``lost``."""


def fine(custom_id: str, body: Any, times: int) -> str:
    return "ok"


@dataclass
class Batch:
    id: str
    lines: list[tuple[str, Any]]
    input_file: str | None = None
    created_at: float = field(default_factory=time.time)
    looks: int = 0
    outcomes: list[tuple[str, Any, str]] = field(default_factory=list)
    """Custom id, body, fate: decided once, when the batch is begun."""


class BatchServer:
    """``looks``: how often a batch is looked at before it is over. ``drops``: whether the reply to a
    batch's creation is lost. ``stalls``: whether nothing comes, and that not before ``go_on`` is set.
    ``answer_file``: who answers a file of OpenAI's in place of ``reply``; what that gives is handed out
    as it is. ``refuses``: what a batch is refused with. ``most_listed``: batches on a page of their
    list."""

    def __init__(
        self,
        *,
        fate: Fate = fine,
        looks: int = 1,
        drops: bool = False,
        stalls: bool = False,
        refuses: str = "",
        most_listed: int = 100,
        reply: Callable[[Any], str] = lambda body: "A",
        answer_file: Callable[[bytes], bytes] | None = None,
        port: int = 0,
        key: str | None = None,
    ) -> None:
        self.fate, self.looks, self.drops, self.refuses, self.reply = (
            fate,
            looks,
            drops,
            refuses,
            reply,
        )
        self.key = key
        self.answer_file = answer_file
        self.most_listed = most_listed
        self.stalls = stalls
        self.begun, self.go_on = threading.Event(), threading.Event()
        """Set once a batch was begun; what a stalled reply waits for."""
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Batch] = {}
        self.asked: dict[str, int] = {}
        """Key, which begins a custom id → how often it was handed in."""
        self.direct = 0
        """Requests that were sent one by one."""
        self.odd: list[tuple[str, Any]] = []
        """How an address ends, and what it answers once in place of what it should."""
        self.lock = threading.RLock()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> BatchServer:
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    # -- what both have ----------------------------------------------------------------------

    def begin(self, lines: list[tuple[str, Any]], input_file: str | None = None) -> Batch:
        batch = Batch(f"batch_{len(self.batches) + 1}", lines, input_file)
        for custom_id, body in lines:
            key = custom_id.partition("-")[0]
            self.asked[key] = self.asked.get(key, 0) + 1
            fate = self.fate(key, body, self.asked[key])
            batch.outcomes.append((custom_id, body, fate))
        batch.outcomes.reverse()  # any order
        self.batches[batch.id] = batch
        return batch

    def is_over(self, batch: Batch) -> bool:
        return batch.looks >= self.looks

    # -- OpenAI ------------------------------------------------------------------------------

    def openai_batch(self, batch: Batch) -> dict[str, Any]:
        fates = [fate for *_, fate in batch.outcomes]
        is_over = self.is_over(batch)
        status = "completed" if is_over else "in_progress"
        if is_over and self.refuses:
            status = "failed"
        elif is_over and "expired" in fates:
            status = "expired"
        good, bad = fates.count("ok"), sum(fate in ("error", "invalid") for fate in fates)
        errors = {"object": "list", "data": [{"code": "invalid", "message": self.refuses}]}
        is_done = is_over and not self.refuses
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "input_file_id": batch.input_file,
            "completion_window": "24h",
            "status": status,
            "created_at": int(batch.created_at),
            "errors": errors if status == "failed" else None,
            "output_file_id": f"out-{batch.id}" if is_done and good else None,
            "error_file_id": f"err-{batch.id}" if is_done and good < len(fates) else None,
            "request_counts": {
                "total": len(fates),
                "completed": good if is_over else 0,
                "failed": bad if is_over else 0,
            },
        }

    def openai_file(self, name: str) -> bytes:
        if name in self.files:
            return self.files[name]
        kind, _, batch_id = name.partition("-")
        if self.answer_file is not None:
            input_file = self.batches[batch_id].input_file
            assert input_file is not None
            self.files[name] = self.answer_file(self.files[input_file])
            return self.files[name]
        lines = []
        for custom_id, body, fate in self.batches[batch_id].outcomes:
            line: dict[str, Any] = {"id": f"r-{custom_id}", "custom_id": custom_id, "error": None}
            if fate == "ok" and kind == "out":
                message = {"role": "assistant", "content": self.reply(body)}
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
                reply = {
                    "id": "c",
                    "object": "chat.completion",
                    "choices": [choice],
                    "usage": usage,
                }
                line["response"] = {"status_code": 200, "request_id": "x", "body": reply}
            elif fate in ("error", "invalid") and kind == "err":
                status = 500 if fate == "error" else 400
                error = {"error": {"message": f"line {fate}", "type": "server_error"}}
                line["response"] = {"status_code": status, "request_id": "x", "body": error}
            elif fate == "expired" and kind == "err":
                line["response"] = None
                line["error"] = {"code": "batch_expired", "message": "not executed in time"}
            else:
                continue
            lines.append(json.dumps(line))
        return "\n".join(lines).encode() + b"\n"

    # -- Anthropic ---------------------------------------------------------------------------

    def anthropic_batch(self, batch: Batch) -> dict[str, Any]:
        is_over = self.is_over(batch)
        fates = [fate for *_, fate in batch.outcomes]
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        if not is_over:
            counts["processing"] = len(fates)
        for fate in fates if is_over else ():
            counts[{"ok": "succeeded", "expired": "expired"}.get(fate, "errored")] += 1
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(batch.created_at))
        where = f"{self.url}/v1/messages/batches/{batch.id}/results"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if is_over else "in_progress",
            "request_counts": counts,
            "created_at": moment,
            "expires_at": moment,
            "ended_at": moment if is_over else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": where if is_over else None,
        }

    def anthropic_results(self, batch: Batch) -> bytes:
        lines = []
        for custom_id, body, fate in batch.outcomes:
            result: dict[str, Any] = {"type": "expired"}
            if fate == "ok":
                message = {
                    "id": "m", "type": "message", "role": "assistant", "model": "claude",
                    "content": [{"type": "text", "text": self.reply(body)}],
                    "stop_reason": "end_turn", "stop_sequence": None,
                    "usage": {"input_tokens": 10, "output_tokens": 2},
                }  # fmt: skip
                result = {"type": "succeeded", "message": message}
            elif fate in ("error", "invalid"):
                kind = "api_error" if fate == "error" else "invalid_request_error"
                error = {"type": kind, "message": f"line {fate}"}
                result = {"type": "errored", "error": {"type": "error", "error": error}}
            elif fate == "lost":
                continue
            lines.append(json.dumps({"custom_id": custom_id, "result": result}))
        return "\n".join(lines).encode() + b"\n"


def _handler(server: BatchServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            with server.lock:
                path, _, query = self.path.partition("?")
                self._answer(*_get(server, path, dict(parse_qsl(query))), path)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with server.lock:
                is_begun, answer = _post(server, self.path, self.headers, body)
            if is_begun and server.stalls:
                server.begun.set()
                server.go_on.wait(60)
                return
            if is_begun and server.drops:
                server.drops = False
                self.close_connection = True
                self.connection.close()
                return
            self._answer(*answer, self.path)

        def _answer(self, status: int, content: Any, path: str) -> None:
            for entry in server.odd:
                if path.endswith(entry[0]):
                    server.odd.remove(entry)
                    status, content = 200, entry[1]
                    break
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            kind = "application/x-jsonl" if isinstance(content, bytes) else "application/json"
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _get(  # noqa: PLR0911 (one for each address)
    server: BatchServer, path: str, query: Mapping[str, str]
) -> tuple[int, Any]:
    parts = path.strip("/").split("/")
    match parts:
        case ["v1", "batches"]:
            some, page = _page(server, query.get("after"))
            return 200, {**page, "data": list(map(server.openai_batch, some))}
        case ["v1", "batches", name] if name in server.batches:
            server.batches[name].looks += 1
            return 200, server.openai_batch(server.batches[name])
        case ["v1", "files", name, "content"]:
            return 200, server.openai_file(name)
        case ["v1", "messages", "batches"]:
            some, page = _page(server, query.get("after_id"))
            return 200, {**page, "data": list(map(server.anthropic_batch, some))}
        case ["v1", "messages", "batches", name, *more] if name in server.batches:
            batch = server.batches[name]
            if more == ["results"]:
                return 200, server.anthropic_results(batch)
            batch.looks += 1
            return 200, server.anthropic_batch(batch)
    return 404, {"error": {"message": f"no {path}"}}


def _page(server: BatchServer, after: str | None) -> tuple[list[Batch], dict[str, Any]]:
    """Some batches, the newest first, from behind one of them; and what is said of the page."""
    names = list(reversed(server.batches))
    rest = names[names.index(after) + 1 :] if after else names
    ids = rest[: server.most_listed] or [None]
    has_more = len(rest) > server.most_listed
    page = {"object": "list", "has_more": has_more, "first_id": ids[0], "last_id": ids[-1]}
    return [server.batches[name] for name in ids if name is not None], page


def _post(
    server: BatchServer, path: str, headers: Mapping[str, str], body: bytes
) -> tuple[bool, tuple[int, Any]]:
    """Whether a batch was begun, and the answer."""
    given = (headers.get("Authorization") or headers.get("x-api-key") or "").removeprefix("Bearer ")
    if server.key is not None and given != server.key:
        return False, (401, {"error": {"message": "Incorrect API key provided"}})
    if path == "/v1/files":
        name = f"file-{len(server.files) + 1}"
        server.files[name] = _uploaded(headers["Content-Type"], body)
        facts = {"id": name, "object": "file", "purpose": "batch", "filename": "requests.jsonl"}
        more = {"bytes": len(body), "created_at": int(time.time()), "status": "processed"}
        return False, (200, {**facts, **more})
    if path == "/v1/batches":
        asked = json.loads(body)
        rows = [json.loads(line) for line in server.files[asked["input_file_id"]].splitlines()]
        lines = [(row["custom_id"], row["body"]) for row in rows]
        assert all(row["url"] == asked["endpoint"] and row["method"] == "POST" for row in rows)
        return True, (200, server.openai_batch(server.begin(lines, asked["input_file_id"])))
    if path == "/v1/messages/batches":
        rows = json.loads(body)["requests"]
        if server.refuses:
            error = {"type": "invalid_request_error", "message": server.refuses}
            return False, (400, {"type": "error", "error": error})
        lines = [(row["custom_id"], row["params"]) for row in rows]
        return True, (200, server.anthropic_batch(server.begin(lines)))
    server.direct += 1
    return False, (404, {"error": {"message": f"no {path}"}})


def _uploaded(kind: str, body: bytes) -> bytes:
    """The file in a form."""
    mark = b"--" + kind.partition("boundary=")[2].strip('"').encode()
    part = next(part for part in body.split(mark) if b'name="file"' in part)
    return part.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
