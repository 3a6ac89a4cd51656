"""Template filters that Jinja lacks: patterns, texts that contain values, boxed answers, indices.

Text in data is never executed: ``from_json`` and ``from_literal`` read values and refuse anything else.
A value that cannot be read is an error that names the task and the doc, never an empty value.
"""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jinja2 import Undefined

from lm_eval.config.limits import bounded

_SHOWN = 60


class FilterError(Exception):
    """A value that a filter does not accept; the message says which filter and what to do."""


# Patterns


def regex_replace(text: str, pattern: str, replacement: str, count: int = 0) -> str:
    """The text with every match of ``pattern`` replaced, or the first ``count``."""
    replaced: str = bounded(re.sub, pattern, replacement, _text(text, "regex_replace"), count)
    return replaced


def regex_findall(text: str, pattern: str) -> list[Any]:
    """Every match of ``pattern`` in order: its group where it has one, a list of groups if several."""
    matches = bounded(re.findall, pattern, _text(text, "regex_findall"))
    return [list(match) if isinstance(match, tuple) else match for match in matches]


# Texts that contain values


def from_json(text: str) -> Any:
    """The value of a JSON text; lists and objects keep their types."""
    return json.loads(_text(text, "from_json"))


def from_literal(text: str) -> Any:
    """The value of a Python literal: texts, numbers, lists, dicts. Tuples become lists."""
    source = _text(text, "from_literal").strip()
    value = ast.literal_eval(source)
    if _joins_texts(source):
        raise FilterError(
            f"from_literal: two texts in {_shown(source)} have no comma between them, and Python would "
            "join them. Part them with regex_findall, or correct the data"
        )
    return _with_lists(value)


def _with_lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_with_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_lists(item) for key, item in value.items()}
    return value


_ADJACENT = re.compile(r"[\"']\s*[rRuU]?[\"']")


def _joins_texts(source: str) -> bool:
    """Whether two quoted texts follow each other with only white space between them."""
    if not _ADJACENT.search(source):
        return False
    import tokenize

    was_text = False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT):
            continue
        if was_text and token.type == tokenize.STRING:
            return True
        was_text = token.type == tokenize.STRING
    return False


# Boxed answers

_BOX = re.compile(r"\\(?:f|frame)?box(?:ed)?(?![a-zA-Z])\s*")
_MOST_NESTED = 10
_BARE_MATH = re.compile(r"([^$\n]{0,200}?)(?:\$|\\\)|\\\])")
_BARE_WORD = re.compile(r"[^\s{}$]+")


def boxed(text: str, default: Any = FilterError) -> Any:
    """The content of the last complete ``\\boxed{…}``; ``\\fbox{…}`` and ``\\boxed 5`` count too.

    Without one: ``default`` if there is one, else an error.
    """
    content = last_box(_text(text, "boxed"))
    if content is not None:
        return content
    if default is FilterError:
        raise FilterError(
            f"boxed: {_shown(text)} has no \\boxed{{…}}. Give the value for such docs, "
            "`boxed('none')`, or leave them out"
        )
    return default


def last_box(text: str) -> str | None:
    """The content of the last complete box in a text; None without one."""
    content = None
    for start, end in box_spans(text):
        content = text[start:end].strip()
    for _ in range(_MOST_NESTED):  # a box that contains only a box
        inner = next(box_spans(content), None) if content and _BOX.match(content) else None
        if inner is None or inner[1] < len(content or "") - 1:
            break
        content = (content or "")[slice(*inner)].strip()
    return content


def box_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the contents of boxes begin and end, in order; a box within a box is part of it.

    A box that is not closed, as in a reply that was cut off, is left out.
    """
    ends = None
    at = 0
    while match := _BOX.search(text, at):
        start = at = match.end()
        if text.startswith("{", start):
            ends = _closing_braces(text) if ends is None else ends
            if start in ends:
                at = ends[start] + 1
                yield start + 1, ends[start]
        elif bare := _bare_box(text, start):
            at = bare[1]
            yield bare


def _bare_box(text: str, start: int) -> tuple[int, int] | None:
    """The ``5`` of ``\\boxed 5$``: the rest of the formula; outside a formula, the next word."""
    formula = _BARE_MATH.match(text, start)
    if formula and formula[1].strip():
        return start, formula.end(1)
    word = _BARE_WORD.match(text, start)
    return (start, start + len(word[0].rstrip(".,;:!?"))) if word else None


def _closing_braces(text: str) -> dict[int, int]:
    """Each opening brace → its closing one; ``\\{`` and ``\\}`` are signs, not braces."""
    open_at: list[int] = []
    ends: dict[int, int] = {}
    for match in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        if match[0] == "{":
            open_at.append(match.start())
        elif match[0] == "}" and open_at:
            ends[open_at.pop()] = match.start()
    return ends


# Indices


def indices(values: Sequence[Any], value: Any) -> list[int]:
    """The indices at which a list holds ``value``, counted from 0."""
    if not isinstance(values, list | tuple):
        raise FilterError(
            f"indices takes a list, such as `labels | indices(1)`, not {_shown(_defined(values))}"
        )
    return [index for index, item in enumerate(values) if item == value]


# Digests


def digest(text: str) -> str:
    """Twelve hexadecimal digits computed from a text, to name a row that has no id."""
    return hashlib.sha256(_text(text, "digest").encode("utf-8", "surrogatepass")).hexdigest()[:12]


# Shared checks


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise FilterError(f"{name} takes a text, not {_shown(_defined(value))}")
    return value


def _defined(value: Any) -> Any:
    if isinstance(value, Undefined):
        str(value)  # raises, with the name
    return value


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"


TEMPLATE_FILTERS: Mapping[str, Callable[..., Any]] = {
    "regex_replace": regex_replace,
    "regex_findall": regex_findall,
    "from_json": from_json,
    "from_literal": from_literal,
    "boxed": boxed,
    "indices": indices,
    "digest": digest,
}
"""Name in a template → function."""
