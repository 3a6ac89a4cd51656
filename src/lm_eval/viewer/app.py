"""The application that a browser runs: one HTML file, built from ``viewer/``, shipped with the package.

Its script and style are inline, and the content security policy names their hashes: nothing else runs,
whatever a model wrote.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from importlib import resources

_SCRIPT = re.compile(rb"<script\b[^>]*>(.*?)</script>", re.DOTALL)
_STYLE = re.compile(rb"<style\b[^>]*>(.*?)</style>", re.DOTALL)
_HEAD = b"<head>"


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
