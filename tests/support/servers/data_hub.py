"""A hub on this machine: what the real one answers to those who read data sets and models, from memory.

``DataHub`` serves ``repos``, ``{"owner/name": {"main": {path: bytes}}}``, with the addresses, headers,
redirects and error codes of the hub, for data sets and for models alike. ``requests`` keeps what was
asked. Faults are planned with ``faults``, a list of ``Fault``: each meets the next request whose path
it matches.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

Files = dict[str, bytes]
TOKEN = "hf_the_right_one"


@dataclass(frozen=True)
class Asked:
    """One request."""

    path: str
    authorization: str
    host: str
    range: str
    method: str = "GET"


@dataclass
class Fault:
    """What goes wrong with the next request whose path has ``where`` in it."""

    where: str
    status: int | None = None
    """Answer with this instead."""
    cut_at: int | None = None
    """Break the connection after this many bytes of the body."""
    corrupt: bool = False
    """Change a byte of the body."""
    adds: int = 0
    """Send this many bytes more than there are."""
    drips: bool = False
    """Send a byte now and then, headers included."""
    times: int = 1


@dataclass
class DataHub:
    """Serves while it is open (``with DataHub() as hub: hub.url``)."""

    repos: dict[str, dict[str, Files]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    large: str = r".*\.(?:parquet|arrow|zst)"
    """Files that are sent from another host."""
    page_size: int = 1000
    links_to: str = ""
    """The next page of every list, whatever it is."""
    sends_away: str = ""
    """Paths that are redirected to another host."""
    ignores_range: bool = False
    is_gone: bool = False
    """Connections that are still open get no answer any more."""
    requests: list[Asked] = field(default_factory=list)

    def __enter__(self) -> DataHub:
        hub = self

        class Handler(_DataHandler):
            answers = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # who has read enough goes
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.is_gone = True
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def other_host(self) -> str:
        return f"http://localhost:{self._server.server_port}"

    def commit(self, name: str, revision: str = "main") -> str:
        """The commit of a branch: forty digits that follow from its files."""
        files = self.repos[name][revision]
        text = repr((revision, sorted((p, hashlib.sha1(d).hexdigest()) for p, d in files.items())))
        return hashlib.sha1(text.encode()).hexdigest()

    def fetched(self) -> list[str]:
        """The data files that were sent, each time that one was."""
        sent = [r for r in self.requests if r.method == "GET"]
        return [r.path.removeprefix("/lfs/") for r in sent if r.path.startswith("/lfs/")] + [
            r.path.split("/resolve/")[1].partition("/")[2]
            for r in sent
            if "/resolve/" in r.path and not re.fullmatch(self.large, r.path)
        ]

    def find(self, name: str, revision: str) -> tuple[Files, str] | str:
        """The files of a revision and its commit, or the hub's code for the error."""
        if name not in self.repos:
            return "RepoNotFound"
        for branch, files in self.repos[name].items():
            if revision in (branch, self.commit(name, branch)):
                return files, self.commit(name, branch)
        return "RevisionNotFound"

    def fault_of(self, path: str) -> Fault | None:
        fault = next((one for one in self.faults if one.where in path), None)
        if fault is not None:
            fault.times -= 1
            if not fault.times:
                self.faults.remove(fault)
        return fault


def files_in(folder: Path) -> Files:
    """The files of a folder, as a branch of ``repos`` has them."""
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if file.is_file()}


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class _DataHandler(BaseHTTPRequestHandler):
    answers: DataHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self) -> None:  # noqa: PLR0911 - one for each kind of address
        hub = self.answers
        if hub.is_gone:
            self.close_connection = True
            self.connection.close()
            return None
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        given = self.headers.get("Authorization", "")
        host = self.headers.get("Host", "")
        hub.requests.append(Asked(path, given, host, self.headers.get("Range", ""), self.command))
        self._fault = hub.fault_of(path)
        if self._fault is not None and self._fault.drips:
            return self._drip()
        if hub.sends_away and hub.sends_away in path and not host.startswith("localhost"):
            return self._send(302, b"", Location=f"{hub.other_host}{self.path}")
        if path == "/evil":
            return self._send(200, b"[]")
        if self._fault is not None and self._fault.status is not None:
            return self._send(self._fault.status, b"")
        if path.startswith("/lfs/"):
            _, _, name, commit, rest = path.split("/", 4)
            found = hub.find(name.replace("--", "/"), commit)
            assert not isinstance(found, str)
            return self._send_file(found[0][rest])
        if path == "/api/datasets":
            return self._search(parse_qs(parts.query))
        if given not in ("", f"Bearer {TOKEN}"):
            return self._refuse(401, "", "Invalid credentials in Authorization header")
        return self._about(*_parts(unquote(parts.path)), parts.query, given)

    def _about(
        self, kind: str, name: str, revision: str, rest: str, query: str, given: str
    ) -> None:
        hub = self.answers
        if name in hub.renamed:
            target = quote(unquote(urlsplit(self.path).path).replace(name, hub.renamed[name]))
            if kind == "revision":  # the only slashes to keep are those between its parts
                target = f"/api/datasets/{hub.renamed[name]}/revision/{quote(revision, safe='')}"
            return self._send(307, b"", Location=target + (f"?{query}" if query else ""))
        found = hub.find(name, revision)
        if isinstance(found, str):
            status = 401 if found == "RepoNotFound" and not given else 404
            return self._refuse(status, found, f"{found}: {name}")
        files, commit = found
        if kind == "refs":
            branches = [
                {"name": branch, "ref": f"refs/heads/{branch}", "targetCommit": "0" * 40}
                for branch in hub.repos[name]
            ]
            return self._send_json({"branches": branches, "converts": [], "tags": []})
        if kind == "tree":
            return self._send_tree(files, rest, query)
        if kind == "resolve":
            return self._resolve(name, files, commit, rest, given)
        facts = {"id": name, "sha": commit, "gated": name in hub.gated, "private": False}
        siblings = [_sibling(path, data, hub.large) for path, data in files.items()]
        return self._send_json({**facts, "siblings": siblings})

    def _search(self, query: dict[str, list[str]]) -> None:
        word, owner = (query.get(key, [""])[0].lower() for key in ("search", "author"))
        names = [name for name in self.answers.repos if word in name.partition("/")[2].lower()]
        self._send_json([{"id": name} for name in names if name.lower().startswith(owner)])

    def _send_tree(self, files: Files, folder: str, query: str) -> None:
        start = int(parse_qs(query).get("cursor", ["0"])[0])
        base = f"{folder}/" if folder else ""
        below = {p: d for p, d in sorted(files.items()) if p.startswith(base)}
        if folder and not below:
            return self._refuse(404, "EntryNotFound", f"{folder} does not exist")
        folders = {
            base + path[len(base) :].split("/")[0] for path in below if "/" in path[len(base) :]
        }
        entries: list[Any] = [_entry(p, d, self.answers.large) for p, d in below.items()]
        if "recursive=true" not in query.lower():
            entries = [one for one in entries if "/" not in one["path"][len(base) :]]
            entries += [
                {"type": "directory", "path": name, "oid": "0" * 40, "size": 0}
                for name in sorted(folders)
            ]
        end = start + self.answers.page_size
        base = re.sub(r"[?&]cursor=\d+", "", self.path)
        link = (
            f'<https://huggingface.co{base}{"&" if "?" in base else "?"}cursor={end}>; rel="next"'
        )
        more = {"Link": link} if end < len(entries) else {}
        return self._send_json(entries[start:end], **more)

    def _resolve(self, name: str, files: Files, commit: str, path: str, given: str) -> None:
        hub = self.answers
        if name in hub.gated and not given:
            return self._refuse(401, "GatedRepo", f"Access to dataset {name} is restricted.")
        if name in hub.gated and name.endswith("-closed"):
            return self._refuse(403, "GatedRepo", "You are not in the authorized list.")
        if path not in files:
            return self._refuse(404, "EntryNotFound", "Entry not found", commit=commit)
        if not re.fullmatch(hub.large, path):
            return self._send_file(files[path], commit)
        data = files[path]
        return self._send(
            302,
            b"",
            Location=f"{hub.other_host}/lfs/{name.replace('/', '--')}/{commit}/{quote(path)}",
            **{
                "X-Linked-ETag": f'"{hashlib.sha256(data).hexdigest()}"',
                "X-Linked-Size": str(len(data)),
                "X-Repo-Commit": commit,
            },
        )

    def _send_file(self, data: bytes, commit: str = "") -> None:
        etag = git_sha1(data) if commit else hashlib.sha256(data).hexdigest()
        headers = {"ETag": f'"{etag}"', "Accept-Ranges": "bytes"}
        headers |= {"X-Repo-Commit": commit} if commit else {}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted and not self.answers.ignores_range:
            start = int(wanted[1])
            if start >= len(data):
                return self._send(416, b"", **{"Content-Range": f"bytes */{len(data)}"})
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            return self._send(206, data[start:], **headers)
        return self._send(200, data, **headers)

    def _drip(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            while not self.answers.is_gone:
                for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\nX-Long: " + b"x" * 9999:
                    self.wfile.write(bytes([byte]))
                    self.wfile.flush()
                    time.sleep(0.05)
                    if self.answers.is_gone:
                        return

    def _send_json(self, value: Any, **headers: str) -> None:
        if self.answers.links_to and isinstance(value, list):
            headers["Link"] = f'<{self.answers.links_to}>; rel="next"'
        self._send(200, json.dumps(value).encode(), **headers)

    def _refuse(self, status: int, code: str, message: str, commit: str = "") -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message, "X-Repo-Commit": commit}
        self._send(status, b"", **{name: value for name, value in headers.items() if value})

    def _send(self, status: int, data: bytes, **headers: str) -> None:
        fault = self._fault
        if fault is not None and fault.corrupt and data:
            data = bytes([data[0] ^ 1]) + data[1:]
        if fault is not None and self.command == "GET":
            data += bytes(fault.adds)
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault is not None and fault.cut_at is not None and data:
            self.wfile.write(data[: fault.cut_at])
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()
            return
        self.wfile.write(data)


def _sibling(path: str, data: bytes, large: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"rfilename": path, "size": len(data), "blobId": git_sha1(data)}
    if re.fullmatch(large, path):
        digest = hashlib.sha256(data).hexdigest()
        entry["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": 130}
    return entry


def _entry(path: str, data: bytes, large: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "oid": git_sha1(data), "size": len(data), "path": path}
    if re.fullmatch(large, path):
        entry["oid"] = git_sha1(b"pointer")
        entry["lfs"] = {
            "oid": hashlib.sha256(data).hexdigest(),
            "size": len(data),
            "pointerSize": 130,
        }
    return entry


def _parts(path: str) -> tuple[str, str, str, str]:
    """``(kind, name, revision, rest)`` of an address of the hub."""
    match = re.fullmatch(
        r"(?:/api/datasets|/api/models|/datasets|)/(?P<name>[^/]+(?:/[^/]+)??)"
        r"(?:/(?P<kind>revision|tree|resolve|refs)"
        r"(?:/(?P<revision>refs/convert/parquet|[^/]+)(?:/(?P<rest>.*))?)?)?",
        path,
    )
    if match is None:
        return "", "", "", ""
    return match["kind"] or "", match["name"], match["revision"] or "main", match["rest"] or ""
