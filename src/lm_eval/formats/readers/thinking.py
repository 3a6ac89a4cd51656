"""Thinking blocks: found and blanked out, so that no reader takes a thought for an answer."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from lm_eval.formats.readers.text import blanked

_TAG = re.compile(
    r"<\s{0,4}(/?)\s{0,4}(think|thinking|thoughts?|reasoning)\b[^<>\n]{0,80}>", re.IGNORECASE
)


class Masked(NamedTuple):
    """A reply of unchanged length, blank where the model was thinking."""

    text: str
    is_unclosed: bool


def mask_thinking(text: str) -> Masked:
    """Blank out ``<think>``, ``<thinking>``, ``<thought>`` and ``<reasoning>`` blocks.

    Blocks may nest and repeat. An unclosed block goes to the end; a closing tag that nothing opened
    ends a block that began with the reply.
    """
    blocks, open_tags, start = _blocks(text)
    if open_tags:
        blocks.append((start, len(text)))
    return Masked(blanked(text, blocks), is_unclosed=bool(open_tags))


def has_thinking_tag(text: str) -> bool:
    """True if a tag opens or closes a thinking block in ``text``."""
    return _TAG.search(text) is not None


def _blocks(text: str) -> tuple[list[tuple[int, int]], list[str], int]:
    """Closed blocks, the tags still open at the end, and where the outermost of those opened."""
    blocks: list[tuple[int, int]] = []
    open_tags: list[str] = []
    counts: Counter[str] = Counter()  # of open_tags, so that a look-up does not walk the list
    start = 0
    for tag in _TAG.finditer(text):
        family = tag[2][:5].lower()  # <think> may be closed by </thinking>
        if not tag[1]:
            start = start if open_tags else tag.start()
            open_tags.append(family)
            counts[family] += 1
        elif not open_tags:
            blocks = [(0, tag.end())]
        elif counts[family]:
            _close(open_tags, counts, family)
            blocks += [] if open_tags else [(start, tag.end())]
    return blocks, open_tags, start


def _close(open_tags: list[str], counts: Counter[str], family: str) -> None:
    """Close the innermost tag of ``family`` and all that opened inside it."""
    closed = ""
    while closed != family:
        closed = open_tags.pop()
        counts[closed] -= 1
