"""Text from data sets and models, made safe to print, and the consoles it is printed on.

Such text is data: ``visible`` shows control characters instead of sending them, and what is printed
goes through ``rich.text.Text`` or a console without markup, never through a markup string. Consoles
call ``visible`` on whatever reaches them; text that is laid out is made visible before, for its width.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

PIPED_WIDTH = 100
"""The width of output that does not go to a terminal, so that tables stay readable in a file."""

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

ELLIPSIS = "…"

# Control characters, line and paragraph separators, everything that is invisible or turns the
# direction of writing, lone surrogates, tags. Written out: asking unicodedata costs 0.1 s.
UNSAFE = (
    r"\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u070f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_UNSAFE = re.compile(f"[{UNSAFE}]")
_TIED = re.compile(
    r"(?<=\d) (?=(?:%|×|h|min|m?s|[kMG]B)(?!\w))"  # 96 %, 4 min 05 s
    r"|(?<=\b[a-z]) (?=[=<>≤≥≈] [\d.−-])|(?<=[=<>≤≥≈±]) (?=[\d.−-])| (?=± )"  # p = 0.05, < 1 %
    r"|(?<=\d,) (?=[\d.−-]+\])"  # [.20, .39]
    r"| (?=> [\w:]{1,10}\b)|(?<= >) (?=[\w:]{1,10}\b)"  # mcqa > cloze
)
"""Spaces at which a line never breaks."""
_TIE = "\u00ad"
"""Replaces such a space while lines are wrapped; it never occurs in ``visible`` text."""


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
    ends = accumulate(map(len, pieces))
    shown = [piece for piece, end in zip(pieces, ends, strict=True) if end < limit]
    return "".join(shown) + ELLIPSIS[:limit]


def console() -> Console:
    """Standard output. Colour only on a terminal and without ``NO_COLOR``; no markup, no emoji."""
    return _console(sys.stdout, stderr=False)


def err_console() -> Console:
    """Standard error, for progress and warnings while a run goes on."""
    return _console(sys.stderr, stderr=True)


def print_line(text: str) -> None:
    """Print one line that is never wrapped."""
    console().print(text, soft_wrap=True)


def print_written(path: object) -> None:
    """Say where something was written, on one line however long."""
    print_line(f"Written: {visible(str(path))}")


class Paragraph:
    """A Rich renderable: ``text`` after ``first``, its later lines indented to match."""

    def __init__(self, first: str, text: str, style: str = "") -> None:
        self.first, self.text, self.style = first, text, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        for line in indented(self.first, self.text, options.max_width):
            yield Text(line, style=self.style)


def indented(first: str, text: str, width: int) -> Iterator[str]:
    """The lines of ``text``, the first one after ``first``, the others below it."""
    start = first
    for line in wrapped(text, max(20, width - len(first))):
        yield (start + line).rstrip()
        start = " " * len(first)


def cells_of(text: str) -> int:
    """How many columns of a terminal a text takes: wide characters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a text on a screen; a number and its unit stay together, long words are cut."""
    from rich.cells import chop_cells

    lines = [""]
    for word in _TIED.sub(_TIE, text).split(" "):
        if lines[-1] and cells_of(lines[-1]) + 1 + cells_of(word) <= width:
            lines[-1] += f" {word}"
            continue
        first, *rest = chop_cells(word, width) or [""]
        lines = [*(lines if lines != [""] else []), first, *rest]
    return [line.replace(_TIE, " ").rstrip() for line in lines]


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
    return char.encode("unicode_escape").decode("ascii")


def _console(stream: TextIO | None, *, stderr: bool) -> Console:
    from rich.console import Console
    from rich.segment import Segment

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            """A reader that stops early, such as ``head``, is not a failure."""
            raise BrokenPipeError

        def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
            """What is printed, with nothing in it that a terminal obeys but styles of our own."""
            for segment in super().render(*args, **kwargs):
                if segment.control or not _UNSAFE.search(segment.text):
                    yield segment
                else:
                    yield Segment(visible(segment.text, keep="\n\t"), segment.style)

    never_fail_on_encoding(stream)
    has_width = is_terminal(stream) or "COLUMNS" in os.environ
    return Quiet(
        stderr=stderr,
        width=None if has_width else PIPED_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )


# Several processes


def bystander_note() -> str | None:
    """What a process reports that leaves the run to the first; None in the first or only process."""
    rank, count = _number("RANK"), _number("WORLD_SIZE")
    if rank is None or count is None or count < 2 or rank < 1:
        return None
    return (
        f"this is process {rank + 1} of {count}, which does nothing: the first does the whole run. "
        "Start it once, without torchrun or accelerate launch; --model ray --model_args backend=hf,… "
        "runs a copy of the model on each GPU, device_map=auto spreads one over several."
    )


def _number(variable: str) -> int | None:
    """A variable that the launchers set, as a number."""
    text = os.environ.get(variable, "").strip()
    return int(text) if text.isdecimal() else None


@contextmanager
def quiet_stderr() -> Iterator[Callable[[], str]]:
    """Keep what libraries and their processes write on stderr off the screen; gives what they wrote."""
    import tempfile

    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)

        def said() -> str:
            file.seek(0)
            return file.read().decode("utf-8", "replace")

        try:
            yield said
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
