"""A hub of models on this machine: what ``huggingface_hub`` asks of the real one, from folders.

``ToyHub`` serves its ``models``, ``{"org/name": {"main": folder, "v2": folder}}``, with the addresses,
headers and error codes of the hub. Names in ``gated`` want the hub's token, and any other token is
refused everywhere, as the hub does; ``requests`` keeps what was asked, and with which token.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

Models = Mapping[str, Mapping[str, Path]]


class ToyHub:
    """Serves while it is open (``with ToyHub() as hub: hub.url``)."""

    def __init__(self, *, gated: Collection[str] = (), token: str = "") -> None:
        self.models: Models = {}
        self.gated = gated
        self.token = token
        self.requests: list[tuple[str, str]] = []
        """``(path, value of the Authorization header)``"""
        hub = self

        class Handler(_Handler):
            answers = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> ToyHub:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def find(self, name: str, revision: str) -> tuple[Path, str] | str:
        """A revision's folder and commit, or the hub's code for the error."""
        if name not in self.models:
            return "RepoNotFound"
        for branch, folder in self.models[name].items():
            if revision in (branch, commit_of(folder)):
                return folder, commit_of(folder)
        return "RevisionNotFound"


def commit_of(folder: Path) -> str:
    """A folder's commit: forty hexadecimal digits, the same every time."""
    return hashlib.sha1(str(folder).encode()).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    answers: ToyHub

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        given = self.headers.get("Authorization", "")
        self.answers.requests.append((path, given))
        name, revision, rest = _parts(path)
        if given not in ("", f"Bearer {self.answers.token}"):
            return self._refuse(401, "", "Invalid credentials in Authorization header")
        if name in self.answers.gated and not given:
            return self._refuse(401, "GatedRepo", f"{name} is gated.")
        found = self.answers.find(name, revision)
        if isinstance(found, str):
            return self._refuse(404, found, found)
        folder, commit = found
        if path.startswith("/api/"):
            return self._describe(name, folder, commit, is_tree="/tree/" in path)
        return self._send_file(folder / rest, commit)

    def _describe(self, name: str, folder: Path, commit: str, *, is_tree: bool) -> None:
        """The facts about a model, or the list of its files."""
        files = sorted(file for file in folder.iterdir() if file.is_file())
        listed = [
            {"type": "file", "path": f.name, "size": f.stat().st_size, "oid": commit} for f in files
        ]
        facts = {"id": name, "sha": commit, "siblings": [{"rfilename": f.name} for f in files]}
        self._send(200, json.dumps(listed if is_tree else facts).encode(), commit=commit)

    def _send_file(self, file: Path, commit: str) -> None:
        if not file.is_file():
            return self._refuse(404, "EntryNotFound", "There is no such file.", commit)
        data = file.read_bytes()
        self._send(200, data, commit=commit, etag=hashlib.sha256(data).hexdigest())

    def _refuse(self, status: int, code: str, message: str, commit: str = "") -> None:
        self._send(status, b"", code=code, message=message, commit=commit)

    def _send(
        self,
        status: int,
        data: bytes,
        *,
        commit: str = "",
        etag: str = "",
        code: str = "",
        message: str = "",
    ) -> None:
        headers = {
            "X-Repo-Commit": commit,
            "ETag": etag and f'"{etag}"',
            "X-Error-Code": code,
            "X-Error-Message": message,
            "Content-Length": str(len(data)),
        }
        self.send_response(status)
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _parts(path: str) -> tuple[str, str, str]:
    """``(model, revision, file)`` of ``/org/name/resolve/main/f`` or ``/api/models/org/name/…``."""
    parts = path.removeprefix("/api/models").strip("/").split("/")
    for word in ("resolve", "tree", "revision"):
        if word in parts:
            at = parts.index(word)
            return "/".join(parts[:at]), parts[at + 1], "/".join(parts[at + 2 :])
    return "/".join(parts[:2]), "main", ""
