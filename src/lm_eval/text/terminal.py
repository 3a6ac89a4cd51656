"""Text from data sets and models, made safe to print, and the consoles it is printed on.

Such text is data: ``visible`` shows control characters instead of sending them, and what is printed
goes through ``rich.text.Text`` or a console without markup, never through a markup string.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 100
"""The width of output that does not go to a terminal, so that tables stay readable in a file."""

ELLIPSIS = "…"

# Control characters, line and paragraph separators, everything that is invisible or turns the
# direction of writing, lone surrogates, tags. Written out: asking unicodedata costs 0.1 s.
UNSAFE = (
    r"\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSAFE = re.compile(f"[{UNSAFE}]")
_SHORT = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


def visible(text: str, limit: int | None = None, *, keep: str = "") -> str:
    """``text`` with nothing in it that a terminal would obey or hide.

    Control characters, escape sequences, direction overrides, zero-width characters and lone
    surrogates are shown as ``\\x1b``, ``\\u202e``, …; ``keep="\\n\\t"`` leaves line breaks and
    tabs. With ``limit``, at most that many characters are returned, the last one an ellipsis if
    the text was cut; an escape is never cut in two.
    """
    if limit is None:
        return _UNSAFE.sub(lambda match: _escape(match[0], keep), text)
    # Each character yields at least one, so no more than these are ever shown.
    pieces = [_escape(char, keep) for char in text[: limit + 1]]
    if sum(map(len, pieces)) <= limit:
        return "".join(pieces)
    return _first(pieces, limit - len(ELLIPSIS)) + ELLIPSIS[:limit]


def console() -> Console:
    """Standard output. Colour only on a terminal and without ``NO_COLOR``; no markup, no emoji."""
    return _console(sys.stdout, stderr=False)


def err_console() -> Console:
    """Standard error, for progress and warnings while a run goes on."""
    return _console(sys.stderr, stderr=True)


def print_written(path: object) -> None:
    """Say where something was written, on one line however long."""
    console().print(f"Written: {path}", soft_wrap=True)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether this stream is a terminal."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def never_fail_on_encoding(stream: TextIO | None) -> None:
    """On a stream that is not UTF-8, ``…`` becomes ``\\u2026`` instead of an exception."""
    encoding = str(getattr(stream, "encoding", None) or "utf-8")
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None and not encoding.lower().startswith("utf"):
        reconfigure(errors="backslashreplace")


def _escape(char: str, keep: str) -> str:
    if char in keep or not _UNSAFE.match(char):
        return char
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else _wide(code)


def _wide(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _first(pieces: list[str], limit: int) -> str:
    taken: list[str] = []
    left = limit
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            break
        taken.append(piece)
    return "".join(taken)


def _console(stream: TextIO | None, *, stderr: bool) -> Console:
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            """A reader that stops early, such as ``head``, is not a failure."""
            raise BrokenPipeError

    never_fail_on_encoding(stream)
    has_width = is_terminal(stream) or "COLUMNS" in os.environ
    return Quiet(
        stderr=stderr,
        width=None if has_width else PIPED_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )
