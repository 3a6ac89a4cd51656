"""Verbatim copies of the query, the passage and the nuggets in a reply: not the judge's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lm_eval.formats.readers.text import fold
from nugget_eval.reading.outcome import Span
from nugget_eval.reading.spellings import SPELLING

_WORD = re.compile(r"\w+")
_SIZE = 4  # words in a row that make a copy
_ORDINARY = 3  # of which this many are neither labels nor numbers


def without_copies(text: str, data: Sequence[str]) -> str:
    """``text`` with a mark and blanks for what it copies from ``data``."""
    pieces: list[str] = []
    at = 0
    for start, end in _copies(text, data) if data else ():
        pieces += (text[at:start], "¶", re.sub(r"[^\n]", " ", text[start + 1 : end]))
        at = end
    return "".join(pieces) + text[at:]


def _copies(text: str, data: Sequence[str]) -> Iterator[Span]:
    """The runs of words that ``text`` shares with ``data``; labels and numbers alone are no copy."""
    known = {
        gram for source in data for gram in _grams([m[0] for m in _WORD.finditer(fold(source))])
    }
    if not known:
        return
    found = list(_WORD.finditer(text))
    words = [match[0] for match in found]
    start = end = -1
    for i, gram in enumerate(_grams(words)):
        if gram not in known:
            continue
        if i > end:
            yield from _run(found, start, end)
            start = i
        end = i + _SIZE - 1
    yield from _run(found, start, end)


def _grams(words: list[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[i:] for i in range(_SIZE)), strict=False)


def _run(found: list[re.Match[str]], start: int, end: int) -> Iterator[Span]:
    if start < 0:
        return
    words = [match[0] for match in found[start : end + 1]]
    ordinary = [word for word in words if not word.isdecimal() and not SPELLING.fullmatch(word)]
    if len(ordinary) >= _ORDINARY:
        yield found[start].start(), found[end].end()
