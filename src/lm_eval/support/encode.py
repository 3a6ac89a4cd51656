"""Anything a run produces → JSON text that every reader accepts, and the hashes over it.

Strict JSON: a number that is NaN or infinite becomes ``null``, and the outermost object says so
under ``nonfinite`` (path → ``NaN``, ``Infinity`` or ``-Infinity``). Key order is kept as given.
``AsDict`` gives dataclasses their ``to_dict``.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, time
from enum import Enum
from json.encoder import encode_basestring
from operator import attrgetter
from os import PathLike
from typing import Any, ClassVar

NONFINITE = "nonfinite"

# Legal inside JSON strings, but str.splitlines() would break a line of JSONL at each.
_LINE_BREAKS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")


def to_json(value: Any, *, indent: int | None = None) -> str:
    """``value`` as JSON text that can be encoded as UTF-8; without ``indent``, on one line."""
    try:
        text = _dumps(value, indent)
    except (ValueError, TypeError):  # not finite, or keys that are not strings
        text = _dumps(_strict(value), indent)
    if not text.isascii():
        for char, escape in _LINE_BREAKS.items():  # faster than translate() on long texts
            text = text.replace(char, escape)
    return text


def jsonable(value: Any) -> Any:
    """A value that JSON can hold, for an object that it cannot: the ``default`` of the encoder."""
    if hasattr(value, "tolist"):  # numpy and torch: scalars and arrays
        return value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=lambda item: (type(item).__name__, str(item)))
    return value.value if isinstance(value, Enum) else _text_of(value)


def source_text(function: Any) -> str:
    """A function as its source; ``!function module.name`` if the source is not available."""
    import inspect
    import textwrap

    target = function.func if isinstance(function, functools.partial) else function
    try:
        return textwrap.dedent(inspect.getsource(target))
    except (OSError, TypeError):
        name = getattr(target, "__qualname__", type(target).__qualname__)
        return f"!function {getattr(target, '__module__', None) or 'unknown'}.{name}"


def text_hash(text: str) -> str:
    """sha256 of a text, as hex digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def doc_hash(doc: Any) -> str:
    """sha256 of the doc as indented JSON, the bytes that EleutherAI's harness hashes."""
    try:
        text = _indented(doc, "\n")
    except (_NotPlainError, RecursionError):
        text = json.dumps(doc, indent=2, ensure_ascii=False, default=_harness_default)
    return text_hash(text)


class _NotPlainError(Exception):
    """A value that only the library's encoder can write."""


def _indented(value: Any, line: str) -> str:
    """``json.dumps(value, indent=2, ensure_ascii=False)`` of plain values, several times faster.

    ``line`` is a line break with the indentation of ``value``.
    """
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is int:
        return int.__repr__(value)
    if kind is float and math.isfinite(value):
        return float.__repr__(value)
    if value is None or kind is bool:
        return "null" if value is None else "true" if value else "false"
    inside = f"{line}  "
    if kind is list:
        items = [_indented(item, inside) for item in value]
        return f"[{inside}{f',{inside}'.join(items)}{line}]" if items else "[]"
    if kind is dict and all(type(key) is str for key in value):
        items = [f"{encode_basestring(k)}: {_indented(item, inside)}" for k, item in value.items()]
        return f"{{{inside}{f',{inside}'.join(items)}{line}}}" if items else "{}"
    raise _NotPlainError


def prompt_hash(prompt: str | Sequence[Mapping[str, str]]) -> str:
    """sha256 of the prompt text; chat messages are hashed as JSON."""
    if isinstance(prompt, str):
        return text_hash(prompt)
    return text_hash(json.dumps([dict(message) for message in prompt], ensure_ascii=False))


def target_hash(target: Any) -> str:
    """sha256 of the target as a string."""
    return text_hash(str(target))


def task_hash(samples: Iterable[Mapping[str, Any]]) -> str:
    """sha256 over the doc, prompt and target hashes of all samples, in order."""
    return text_hash("".join(sample_hashes(sample) for sample in samples))


def sample_hashes(sample: Mapping[str, Any]) -> str:
    """The three hashes of one sample, concatenated; a missing one is left out."""
    return "".join(str(sample.get(f"{part}_hash", "")) for part in ("doc", "prompt", "target"))


def _dumps(value: Any, indent: int | None) -> str:
    dumps = functools.partial(json.dumps, value, indent=indent, default=jsonable, allow_nan=False)
    text = dumps(ensure_ascii=False)
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate: only its escape can be written
        return dumps(ensure_ascii=True)
    return text


def _strict(value: Any) -> Any:
    lost: dict[str, str] = {}
    plain = _plain(value, "", lost)
    if not lost:
        return plain
    return {**plain, NONFINITE: lost} if isinstance(plain, dict) else plain


def _plain(value: Any, path: str, lost: dict[str, str]) -> Any:
    """Only dicts with string keys, lists and scalars; what is lost is noted under its path."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        lost[path] = json.dumps(value)
        return None
    if isinstance(value, dict):
        return {
            _key(key): _plain(item, f"{path}.{_key(key)}".lstrip("."), lost)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{path}[{place}]", lost) for place, item in enumerate(value)]
    return _plain(jsonable(value), path, lost)


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    return json.dumps(key) if key is None or isinstance(key, (bool, int, float)) else str(key)


def _text_of(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, PathLike):
        return str(value)
    if callable(value):
        return source_text(value)
    return _ADDRESS.sub("", str(value))  # an address differs from run to run


def _harness_default(value: Any) -> Any:
    if type(value).__name__ in ("int64", "int32"):
        return int(value)
    if isinstance(value, (set, frozenset)):
        return jsonable(value)
    return str(value)


Keys = tuple[str | tuple[str, str], ...]
"""Attributes in the order in which they are written; ``(key, attribute)`` if the two differ. A
dotted attribute is one of a value: ``("n", "estimate.n")``."""


@dataclass(frozen=True, slots=True)
class AsDict:
    """Base of the dataclasses that have ``to_dict()``."""

    KEYS: ClassVar[Keys] = ()
    """What is written; empty: every field, then ``ALSO``."""
    ALSO: ClassVar[tuple[str, ...]] = ()
    """Properties that are written after the fields."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        keys = self.KEYS or (*(f.name for f in fields(self)), *self.ALSO)
        pairs = ((key, key) if isinstance(key, str) else key for key in keys)
        return {key: plain(attrgetter(attribute)(self)) for key, attribute in pairs}


def plain(value: Any) -> Any:
    """``value`` with dicts and lists for all dataclasses, mappings, tuples and sets in it."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value
