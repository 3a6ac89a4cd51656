"""XML and HTML as lines: a tag becomes its name or number and a colon; the text keeps its length.

``<label id="2">support</label>`` reads as ``2:support`` on its own line, a table row as ``1 | support``.
"""

from __future__ import annotations

import re

from nugget_eval.reading.spellings import label_of
from nugget_eval.reading.words import pattern

_TAG = re.compile(
    r"<!--[^<>]{0,200}-->|<!\[CDATA\[|\]\]>|<\?[^<>]{0,80}\?>"
    r"|<(?P<close>/?)\s{0,4}(?:[\w.-]{1,20}:)?(?P<name>[a-zA-Z][\w.-]{0,40})(?P<attributes>\s[^<>]{0,400}|/)?>"
)
_NUMBER = re.compile(
    r"(?:id|index|number|no|num|n|nugget|idx)\s?=\s?[\"']?(\d{1,3})\b|[a-z](?<!h)_?(\d{1,3})\Z"
)
_LABEL = re.compile(r"(?:label|verdict|decision|assignment|value)\s?=\s?[\"']([\w -]{4,24})[\"']")
_INLINE = {"b", "i", "em", "strong", "code", "span", "u", "a", "font", "mark", "sub", "sup"}
_INLINE |= {"small", "p", "div", "pre", "h1", "h2", "h3", "h4", "summary", "details"}
_HIDDEN = {"del", "s", "strike"}


def as_lines(text: str) -> str:
    """``text`` with its tags as lines; what is struck out or in a reasoning element is blanked."""
    pieces: list[str] = []
    unclosed: set[str] = set()
    at = 0
    lowered = text.lower()
    for tag in _TAG.finditer(text):
        if tag.start() < at:
            continue
        size, name = tag.end() - tag.start(), (tag["name"] or "").lower()
        pieces.append(text[at : tag.start()])
        at = tag.end()
        if not name:
            pieces.append(" " * size)
        elif not tag["close"]:
            pieces.append(_opening(name, tag["attributes"] or "", size))
        elif name in ("td", "th"):
            pieces.append(" |".ljust(size))
        else:
            pieces.append(("" if name in _INLINE else "\n").rjust(size))
        is_hidden = name in _HIDDEN or pattern("reasoning").fullmatch(name)
        if is_hidden and not tag["close"] and name not in unclosed:
            end = lowered.find(f"</{name}", at)
            if end < 0:
                unclosed.add(name)
            else:
                pieces.append(" " * (end - at))
                at = end
    return "".join(pieces) + text[at:]


def _opening(name: str, attributes: str, size: int) -> str:
    """An opening tag as the beginning of a line."""
    if name in _INLINE or name in ("td", "th"):
        return " " * size
    if name in ("br", "hr", "li", "tr", "ul", "ol"):
        return "\n".ljust(size)
    if label_of(name):
        return f" {name} ".ljust(size)
    low = attributes.lower()
    number = _NUMBER.search(low.rstrip("/ ")) or _NUMBER.search(name)
    label = _LABEL.search(low)
    shown = f"{number[1] or number[2]}:" if number else f"{name}:" if size > len(name) + 1 else ""
    return "\n" + (f"{shown} {label[1]}" if label else shown).rjust(size - 1)
