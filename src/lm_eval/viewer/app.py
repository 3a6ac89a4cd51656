"""The application that a browser runs, and the server that sends it to the person at this machine alone.

The application is one HTML file, built from ``viewer/`` and shipped with the package. Its script and
style are inline, and the content security policy names their hashes: nothing else runs, whatever a model
wrote. The server is loopback only, GET only. The address has a random part, and the ``Host`` and
``Origin`` of each request are checked, so that no other site open in the browser can read a run.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import re
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import unquote, urlsplit

from lm_eval.errors import LmEvalError, UsageError
from lm_eval.viewer.contract import Contract, UnknownAddressError, encoded

_SCRIPT = re.compile(rb"<script\b[^>]*>(.*?)</script>", re.DOTALL)
_STYLE = re.compile(rb"<style\b[^>]*>(.*?)</style>", re.DOTALL)
_HEAD = b"<head>"
HOST = "127.0.0.1"
NAMES = (HOST, "localhost", "[::1]")
FIRST_PORT, PORTS_TRIED = 7575, 50


@dataclass(frozen=True)
class Page:
    """The HTML, and the policy that goes with it."""

    content: bytes
    policy: str


def app_page() -> Page:
    """The page as it is served."""
    content = app_html()
    return Page(content, policy_of(content, "connect-src 'self'; frame-ancestors 'none'; "))


def app_html() -> bytes:
    """The built file."""
    return (resources.files("lm_eval.viewer") / "app.html").read_bytes()


def policy_of(content: bytes, also: str = "", scripts: str = "") -> str:
    """A policy that lets the inline script and styles of a page run, and nothing else."""
    return (
        f"default-src 'none'; {also}script-src {' '.join(_hashes(_SCRIPT, content))}{scripts}; "
        f"style-src {' '.join(_hashes(_STYLE, content))}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _hashes(pattern: re.Pattern[bytes], content: bytes) -> list[str]:
    digests = (hashlib.sha256(text).digest() for text in pattern.findall(content) if text)
    return [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]


def with_policy(content: bytes, policy: str) -> bytes:
    """The page with its policy inside, for a file that no server sends."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return content.replace(_HEAD, _HEAD + meta.encode(), 1)


class ViewerServer(ThreadingHTTPServer):
    """Serves one folder's runs until it is shut down."""

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, contract: Contract, port: int, token: str | None = None) -> None:
        self.contract = contract
        self.page: Page = app_page()
        self.token = token or secrets.token_urlsafe(9)
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> set[str]:
        """What a request's ``Host`` may be."""
        return {f"{name}:{self.server_port}" for name in NAMES}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away is not an error."""


def open_server(contract: Contract, port: int | None = None) -> ViewerServer:
    """A server at this port, or at the next that is free; without one, from ``FIRST_PORT`` on."""
    first = FIRST_PORT if port is None else port
    for candidate in range(first, min(first + PORTS_TRIED, 65536)):
        try:
            return ViewerServer(contract, candidate)
        except OSError as error:
            if error.errno == errno.EACCES:
                raise UsageError(
                    f"--port {candidate} needs rights that you do not have. Give one above 1023."
                ) from None
            if error.errno != errno.EADDRINUSE:
                raise UsageError(f"--port {candidate}: {error.strerror}. Give another.") from None
    raise UsageError(
        f"Ports {first} to {min(first + PORTS_TRIED, 65536) - 1} are all taken. Give another --port."
    )


class _Handler(BaseHTTPRequestHandler):
    """One request: the page, or an answer of the contract."""

    server: ViewerServer
    server_version, sys_version = "lm-eval", ""
    timeout = 60

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        start = f"/{self.server.token}/"
        if not self._is_from_here():
            self._send(HTTPStatus.FORBIDDEN, b"Only the page itself may ask.", "text/plain")
        elif not secrets.compare_digest(path[: len(start)].encode(), start.encode()):
            self._send(HTTPStatus.NOT_FOUND, _LOST.encode(), "text/plain")
        elif path == start:
            page = self.server.page
            self._send(HTTPStatus.OK, page.content, "text/html", policy=page.policy)
        elif path.startswith(f"{start}data/"):
            self._answer(unquote(path.removeprefix(f"{start}data/")))
        else:
            self._send(HTTPStatus.NOT_FOUND, b"There is nothing here.", "text/plain")

    def _is_from_here(self) -> bool:
        """Whether the browser asks on behalf of this page, under a name of this machine."""
        hosts = self.server.hosts
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        return (
            self.headers.get("Host") in hosts
            and (origin is None or urlsplit(origin).netloc in hosts)
            and site in ("none", "same-origin")
        )

    def _answer(self, address: str) -> None:
        status = HTTPStatus.OK
        try:
            content = self.server.contract.json(address)
        except UnknownAddressError as error:
            status, content = HTTPStatus.NOT_FOUND, encoded({"error": str(error)})
        except (LmEvalError, OSError) as error:
            status, content = HTTPStatus.CONFLICT, encoded({"error": str(error)})
        except Exception as error:  # a defect in one answer leaves the other pages alone
            said = f"This page cannot be shown ({type(error).__name__}: {error})."
            status, content = HTTPStatus.INTERNAL_SERVER_ERROR, encoded({"error": said})
        self._send(status, content, "application/json")

    def _send(
        self, status: HTTPStatus, content: bytes, kind: str, policy: str = "default-src 'none'"
    ) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(content)),
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Other methods, and requests that are not HTTP."""
        self.close_connection = True
        status = (
            HTTPStatus.METHOD_NOT_ALLOWED
            if code == HTTPStatus.NOT_IMPLEMENTED
            else HTTPStatus(code)
        )
        self._send(status, b"Only GET is answered.", "text/plain")

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal shows the address, and stays readable."""


_LOST = "There is nothing here. Open the whole address that `lm-eval view` printed."
