"""Readers of free text by its shape: a box, a short answer, a match of a pattern, a field of JSON."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

from lm_eval.config.budget import bounded_match
from lm_eval.errors import ConfigError
from lm_eval.formats.readers.phrase import CHAT_END, LINE, after_last, unwrapped
from lm_eval.formats.readers.reading import AMBIGUOUS, NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import fold, key_of, lowered, phrase_pattern

_IN_BOX = (
    re.compile(r"\$\$?([^$]+)\$\$?"),
    re.compile(r"\\\((.*)\\\)", re.DOTALL),
    re.compile(r"\\(?:text|math)(?:bf|it|rm|sf|tt)?\s?\{([^{}]*)\}"),
    re.compile(r"\\f?box(?:ed)?\s?\{([^{}]*)\}"),
)
_BOX_EDGES = " \t\r\n~"
_ECHOED_BOX = re.compile(r"(?:your |the )?(?:final )?answer|\.{2,}|…", re.IGNORECASE)


@register_reader("boxed")
def boxed(text: str) -> Reading:
    r"""Read what is in the last ``\boxed{…}`` that is closed and not empty, braces inside it included.

    ``\fbox{…}`` and ``\boxed 5`` count as well. Dollars, ``\text{…}`` and blanks around all of it go;
    the rest stays as written, for scoring to compare.
    """
    from lm_eval.config.filters import box_spans  # few runs need it

    for box in reversed([*box_spans(text)]) if "box" in text else ():
        start, end = _inside_box(text, *box)
        if start < end and not _ECHOED_BOX.fullmatch(text, start, end):
            return Reading(text[start:end], "boxed", (start, end))
    return NO_ANSWER


def _inside_box(text: str, start: int, end: int) -> tuple[int, int]:
    """The content of a box without blanks and wrappers around all of it."""
    while True:
        inside = text[start:end]
        start += len(inside) - len(inside.lstrip(_BOX_EDGES))
        end -= len(inside) - len(inside.rstrip(_BOX_EDGES))
        wrapped = next(filter(None, (mark.fullmatch(text, start, end) for mark in _IN_BOX)), None)
        if wrapped is None or start >= end:
            return start, max(start, end)
        start, end = wrapped.span(1)


@register_reader("short_answer")
def short_answer(text: str, *, phrase: str = "Answer:") -> Reading:
    """Read what a reply announces as its answer, else its first line that says something.

    An answer is announced by ``phrase``, "the answer is" and the like, as with ``after_last``. Emphasis,
    quotes, boxes and the final period are removed. A line that was cut off, as far as the backend
    knows, is not read.
    """
    announced: Reading = after_last(text, phrase=phrase)
    if announced.is_answer:
        return announced.by("short_answer:phrase")
    folded = fold(text)
    ended = CHAT_END.search(folded)
    folded = folded[: ended.start()] if ended else folded
    begins = _OPENING.match(folded)
    cue = phrase_pattern(phrase).match(lowered(folded), begins.end()) if begins else None
    line = LINE.match(folded, cue.end() if cue else 0)
    if line is None:
        return NO_ANSWER
    start, end = unwrapped(text, *line.span(1))
    if start >= end:
        return NO_ANSWER
    is_whole = line.end() < len(folded)
    return Reading(text[start:end], "short_answer:line", (start, end), is_claim=is_whole)


@register_reader("whole_reply")
def whole_reply(text: str) -> Reading:
    """Read all of the reply, without blanks around it and what follows the end of the model's turn."""
    ended = CHAT_END.search(text)
    value = text[: ended.start()].strip() if ended else text.strip()
    start = text.find(value)
    return Reading(value, "whole_reply", (start, start + len(value))) if value else NO_ANSWER


_OPENING = re.compile(r"[\s*_#]*")


@register_reader("regex")
def regex(
    text: str,
    *,
    pattern: str,
    group: int | str | None = None,
    which: Literal["last", "first"] = "last",
) -> Reading:
    """Read what ``pattern`` captures: ``group`` (the first if there is one, else all) of a match.

    The pattern decides how long a search takes, within a bound; the other readers are linear in the
    length of the reply.
    """
    compiled, number = _compiled(pattern, group)
    spans = bounded_match(
        lambda reply: list(compiled.finditer(reply)), text, pattern=pattern, owner="Reader 'regex'"
    )
    matches = [match for match in spans if match[number] is not None]
    if not matches:
        return NO_ANSWER
    match = matches[-1 if which == "last" else 0]
    value = match[number].strip()
    start = match.start(number) + match[number].find(value)
    return Reading(value, "regex", (start, start + len(value)))


@lru_cache(maxsize=512)
def _compiled(pattern: str, group: int | str | None) -> tuple[re.Pattern[str], int]:
    """The compiled pattern and the number of the group to read."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"Reader 'regex': pattern {pattern!r} is not a regular expression: {error.msg} at "
            f"position {error.pos}. Correct it there; in YAML, single quotes keep backslashes."
        ) from None
    except (OverflowError, RecursionError, RuntimeError) as error:
        raise ConfigError(f"Reader 'regex': pattern {pattern!r} cannot be used: {error}.") from None
    return compiled, _group_number(compiled, group)


def _group_number(compiled: re.Pattern[str], group: int | str | None) -> int:
    if group is None:
        return min(compiled.groups, 1)
    number = compiled.groupindex.get(group, -1) if isinstance(group, str) else group
    if 0 <= number <= compiled.groups:
        return number
    names = f" or a name of {', '.join(compiled.groupindex)}" if compiled.groupindex else ""
    raise ConfigError(
        f"Reader 'regex': pattern {compiled.pattern!r} has no group {group!r}. "
        f"Give a number from 0 to {compiled.groups}{names}."
    )


def as_choice(reading: Reading, labels: Sequence[str], choices: Sequence[str]) -> Reading:
    """A reading of text as the index of the choice it names, by label or by text.

    Unreadable if it names none: an answer that is not among the choices is not an answer to them.
    """
    if not reading.is_answer:
        return reading
    index = _index_of(fold(str(reading.value)), labels, choices)
    if index is None:
        return NO_ANSWER
    return AMBIGUOUS if index < 0 else Reading(index, reading.rule, reading.span)


_NOT_LABEL = re.compile(r"[^\W_]+|[^\w\s()\[\]{}\"'*.,:;$/&]")
_LABEL_FIRST = re.compile(r"\W*(\w+)\W*[.):\]\s–—-]\s*(.*)", re.DOTALL)


def _index_of(text: str, labels: Sequence[str], choices: Sequence[str]) -> int | None:
    """The index of the choice that all of ``text`` names; -1 if it names several, None if none."""
    text_key = key_of(text)
    keys = [key_of(choice) for choice in choices]
    if text_key in keys and keys.count(text_key) == 1:
        return keys.index(text_key)
    names = [label.strip(" ()[]{}.:") for label in labels]
    is_any_case = len({name.casefold() for name in names}) == len(names)
    by_name = {name.casefold() if is_any_case else name: i for i, name in enumerate(names)}
    tokens = [found.casefold() if is_any_case else found for found in _NOT_LABEL.findall(text)]
    named = {by_name[token] for token in tokens if token in by_name}
    joined = [token for token in tokens if token not in by_name and token not in ("and", "or")]
    if not joined and len(named) > 1:
        return -1
    if not joined and named:
        return named.pop()
    first = _LABEL_FIRST.match(text)
    index = by_name.get(first[1].casefold() if is_any_case else first[1]) if first else None
    if first is None or index is None or index >= len(keys):
        return None
    return index if key_of(first[2]) == keys[index] else None


_MARK = re.compile(r'[{}"\\\n]')
# Objects may be nested; parsing each of them again must not take more than this.
_PARSED_PER_CHARACTER = 4


@register_reader("json_field")
def json_field(
    text: str,
    *,
    labels: Sequence[str] = (),
    choices: Sequence[str] = (),
    field: str = "answer",
) -> Reading:
    """Read ``field`` of the last JSON object that has it: text or, with labels, the index.

    Numbers stay as they are written, ``null`` and containers are not answers. ``{'answer': 'C'}``, as
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
    """Spans of balanced braces. A quote starts a string only inside them, up to the line's end."""
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
