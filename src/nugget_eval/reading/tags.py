"""XML and HTML as lines: a tag becomes its name or number and a colon; the text keeps its length.

``<label id="2">support</label>`` reads as ``2:support`` on its own line, a table row as ``1 | support``.
"""

from __future__ import annotations

import re

from nugget_eval.reading.outcome import Span
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
_ANSWER = re.compile(r"(?:final_?)?(?:answers?|output|response|results?|labels?|final)")


def as_lines(text: str) -> tuple[str, list[Span], bool]:
    """``text`` with its tags as lines, the spans of answer elements, and if it ends inside one."""
    pieces: list[str] = []
    answers: list[Span] = []
    opened: dict[str, int] = {}
    unclosed: set[str] = set()
    at, is_open = 0, False
    lowered = text.lower()
    for tag in _TAG.finditer(text):
        if tag.start() < at:
            continue
        size, name = tag.end() - tag.start(), (tag["name"] or "").lower()
        pieces.append(text[at : tag.start()])
        at = tag.end()
        if tag["close"]:
            pieces.append(
                " |".ljust(size)
                if name in ("td", "th")
                else "\n".rjust(size)
                if name not in _INLINE
                else " " * size
            )
            if _ANSWER.fullmatch(name) and name in opened:
                answers.append((opened.pop(name), tag.start()))
            is_open = False
            continue
        if name:
            pieces.append(_opening(name, tag["attributes"] or "", size))
            opened.setdefault(name, tag.end())
            is_open = not (tag["attributes"] or "").endswith("/") and name not in _INLINE
        else:
            pieces.append(" " * size)
        if pattern("reasoning").fullmatch(name) and name not in unclosed:
            end = lowered.find(f"</{name}", at)
            if end < 0:
                unclosed.add(name)
            else:
                pieces.append(" " * (end - at))
                at = end
    return "".join(pieces) + text[at:], answers, is_open


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
