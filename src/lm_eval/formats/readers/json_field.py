"""The reader of JSON replies: one field of the last object that has it, in a code fence or not."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from lm_eval.formats.readers.free_text import as_choice
from lm_eval.formats.readers.reading import NO_ANSWER, Reading, register_reader

_MARK = re.compile(r'[{}"\\\n]')
# An object may hold objects; parsing each of them again must not add up to more than this.
_PARSED_PER_CHARACTER = 4


@register_reader("json_field")
def json_field(
    text: str,
    *,
    labels: Sequence[str] = (),
    choices: Sequence[str] = (),
    field: str = "answer",
) -> Reading:
    """Read ``field`` of the last JSON object that has it: text or, with labels, the place.

    Numbers stay as they are written, ``null`` and containers are no answer. ``{'answer': 'C'}``, as
    Python prints it, is read as well.
    """
    reading = _last_with(text, field)
    if not reading.is_answer:
        reading = _python_style(text, field)
    return as_choice(reading, labels, choices) if labels or choices else reading


def _last_with(text: str, field: str) -> Reading:
    budget = _PARSED_PER_CHARACTER * len(text)
    names = [parsed.start() for parsed in re.finditer(re.escape(json.dumps(field)), text)]
    for start, end in sorted(_objects(text), key=lambda span: -span[1]) if names else ():
        if bisect_left(names, start) == bisect_left(names, end):
            continue
        budget -= end - start
        if budget < 0:
            break
        parsed = _parsed(text[start:end])
        value = _as_text(parsed.get(field)) if isinstance(parsed, dict) else None
        if value is not None:
            return Reading(value, "json_field", (start, end))
    return NO_ANSWER


def _objects(text: str) -> Iterator[tuple[int, int]]:
    """Spans of balanced braces. A quote opens a string only inside one, up to the line's end."""
    opened: list[int] = []
    in_string, skipped = False, -1
    for mark in _MARK.finditer(text):
        char, at = mark[0], mark.start()
        if at == skipped:
            continue
        if char == "\\":
            skipped = at + 1 if in_string else -1
        elif char == '"':
            in_string = bool(opened) and not in_string
        elif char == "\n":
            in_string = False
        elif not in_string and char == "{":
            opened.append(at)
        elif not in_string and opened:
            yield opened.pop(), at + 1


def _parsed(source: str) -> Any:
    try:
        return json.loads(source, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return value.strip() if isinstance(value, str) and value.strip() else None


def _python_style(text: str, field: str) -> Reading:
    matches = list(_single_quoted(field).finditer(text))
    if not matches or not matches[-1][1].strip():
        return NO_ANSWER
    return Reading(matches[-1][1].strip(), "json_field", matches[-1].span())


@lru_cache(maxsize=64)
def _single_quoted(field: str) -> re.Pattern[str]:
    return re.compile(rf"'{re.escape(field)}'\s{{0,4}}:\s{{0,4}}'([^'\n]{{0,2000}})'")
