"""Readers of free text by its shape: a box, a short answer, a match of a pattern, a field of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from lm_eval.config.limits import bounded_match
from lm_eval.errors import ConfigError
from lm_eval.formats.readers.phrase import CHAT_END, LINE, after_last, unwrapped
from lm_eval.formats.readers.reading import NO_ANSWER, Reading, register_reader
from lm_eval.formats.readers.text import fold, lowered, phrase_pattern

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
        return announced.with_rule("short_answer:phrase")
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
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n`]*(?:\n|$)", re.MULTILINE)


@register_reader("code_block")
def code_block(text: str) -> Reading:
    """Read the last fenced block, if possible one with a definition; else a reply that is Python."""
    marks = [*_FENCE.finditer(text)]
    ends = [mark.start() for mark in marks[1::2]] + [len(text)]
    blocks = [(mark.end(), end) for mark, end in zip(marks[::2], ends, strict=False)]
    blocks = [(at, at + len(text[at:end].rstrip())) for at, end in blocks if text[at:end].strip()]
    defining = [
        block for block in blocks if re.search(r"^\s*(?:def|class) ", text[slice(*block)], re.M)
    ]
    for start, end in [*defining[-1:], *blocks[-1:]]:
        return Reading(text[start:end], "code_block", (start, end))
    return (
        whole_reply(text).with_rule("code_block:whole") if _is_python(text.strip()) else NO_ANSWER
    )


def _is_python(text: str) -> bool:
    import ast

    try:
        return bool(ast.parse(text).body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False


@register_reader("completion")
def completion(text: str, *, until: str | None = None) -> Reading:
    """Read the rest of a program as it is written, up to `until`, such as a closing fence."""
    end = text.find(until) if until else -1
    end = len(text) if end < 0 else end
    return Reading(text[:end], "completion", (0, end)) if text[:end].strip() else NO_ANSWER


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
    from lm_eval.formats.readers.choice import piece_of  # few tasks need it
    from lm_eval.formats.readers.options import options_of

    named = piece_of(str(reading.value), options_of(labels, choices))
    return Reading(named.value, reading.rule, reading.span) if named.is_answer else named


@register_reader("json_field")
def json_field(
    text: str,
    *,
    labels: Sequence[str] = (),
    choices: Sequence[str] = (),
    field: str = "answer",
) -> Reading:
    """Read the last ``field`` of a JSON object: text or, with labels, the index.

    Numbers stay as they are written, ``null`` and containers are not answers. ``{'answer': 'C'}``, as
    Python prints it, is read as well.
    """
    reading = NO_ANSWER
    for match in _field(field).finditer(text):
        value = _unescaped(match["string"]) if match["string"] else match[match.lastgroup or 0]
        if value.strip():
            reading = Reading(value.strip(), "json_field", match.span())
    return as_choice(reading, labels, choices) if labels or choices else reading


@lru_cache(maxsize=64)
def _field(name: str) -> re.Pattern[str]:
    """A field of an object with its value, if that is a text, a number, true or false."""
    key = rf"(?:{re.escape(json.dumps(name))}|'{re.escape(name)}')"
    return re.compile(
        rf"{key}\s{{0,9}}:\s{{0,9}}(?:\"(?P<string>(?:[^\"\\\n]|\\.){{0,100000}})\"|'(?P<single>[^'\n]{{0,2000}})'"
        r"|(?P<bare>-?\d[\d.eE+-]{0,99}|true|false))(?=\s{0,99}[,}])"
    )


def _unescaped(string: str) -> str:
    try:
        return str(json.loads(f'"{string}"', strict=False))
    except ValueError:
        return string
