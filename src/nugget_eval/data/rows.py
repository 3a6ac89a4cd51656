"""Lines of JSONL → rows with typed access → records, and back to lines.

Every error names the file, the line, the key and what to do. Nothing here knows about nuggets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from lm_eval.errors import DataError, did_you_mean, listing

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Row:
    """An object of a JSONL file; ``place`` is ``answers.jsonl, line 3``."""

    values: Mapping[str, Any]
    place: str

    def error(self, problem: str) -> DataError:
        """An error about this object."""
        return DataError(f"{self.place}: {problem}")

    def key(self, *names: str) -> str:
        """The first of ``names`` that is a key here; an error if none is."""
        for name in names:
            if name in self.values:
                return name
        hints = (did_you_mean(name, list(self.values)) for name in names)
        wanted = " or ".join(repr(name) for name in names)
        raise self.error(
            f"the key {wanted} is missing.{next((hint for hint in hints if hint), '')} "
            f"Keys there: {listing(self.values)}."
        )

    def text(self, *names: str) -> str:
        """The text under the first of ``names`` that is there."""
        name = self.key(*names)
        value = self.values[name]
        if not isinstance(value, str):
            raise self.error(f"{name!r} must be a text, not {shown(value)}.")
        return value

    def optional_text(self, *names: str) -> str:
        """The same, or "" if there is no such key or it holds null."""
        if all(self.values.get(name) is None for name in names):
            return ""
        return self.text(*(name for name in names if self.values.get(name) is not None))

    def name(self, *names: str) -> str:
        """An id: a text, or a whole number as text. Blanks around it would never match."""
        key = self.key(*names)
        value = self.values[key]
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"{key!r} must be an id such as '2024-105741', not {shown(value)}.")
        return value

    def optional_name(self, name: str) -> str:
        """The same, or "" if there is no such key or it holds null."""
        return "" if self.values.get(name) is None else self.name(name)

    def whole_number(self, name: str) -> int | None:
        """A whole number of 0 or more; None if there is no such key or it holds null."""
        value = self.values.get(name)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or value < 0
        ):
            raise self.error(f"{name!r} must be a whole number, not {shown(value)}.")
        return value

    def names(self, name: str) -> tuple[int | str, ...]:
        """A list of texts or whole numbers; empty if there is no such key or it holds null."""
        values = self.values.get(name)
        items = [] if values is None else values
        if not isinstance(items, list) or any(
            isinstance(item, bool) or not isinstance(item, (int, str)) for item in items
        ):
            raise self.error(f"{name!r} must be a list of texts or numbers, not {shown(values)}.")
        return tuple(items)

    def rows(self, *names: str) -> Iterator[Row]:
        """The objects of a list, each with its own place."""
        name = self.key(*names)
        value = self.values[name]
        if not isinstance(value, list):
            raise self.error(f"{name!r} must be a list of objects, not {shown(value)}.")
        for number, item in enumerate(value, start=1):
            place = f"{self.place}, {name}[{number}]"
            if not isinstance(item, dict):
                raise DataError(f"{place}: must be an object, not {shown(item)}.")
            yield Row(item, place)

    def one_of(self, name: str, valid: Iterable[str], missing: Iterable[Any]) -> str | None:
        """One of ``valid``; None for a missing key, null or one of ``missing``."""
        value = self.values.get(name)
        if value is None or value in tuple(missing):
            return None
        valid = tuple(valid)
        if isinstance(value, str) and value in valid:
            return value
        raise self.error(
            f"unknown {name} {shown(value)}.{did_you_mean(str(value), valid)} Valid: "
            f"{', '.join(valid)}; null if there is none."
        )


def shown(value: Any) -> str:
    """A value as the file has it, cut if it is long."""
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def read_rows(path: str | Path) -> Iterator[Row]:
    """The objects of a JSONL file, one at a time; blank lines are skipped.

    Raises ``DataError`` with file and line number for a file that is not there, is not UTF-8, or
    has a line that is not a JSON object.
    """
    for number, line in _lines(path):
        place = f"{path}, line {number}"
        yield Row(_decoded(line, place), place)


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The lines that hold anything, with their numbers, without their line ends."""
    number = 0
    try:
        # In bytes, lines end at "\n" alone: a text in JSON may hold U+2028 and other breaks as they are.
        with open(path, "rb") as file:
            for number, content in enumerate(file, start=1):
                line = content.decode("utf-8-sig" if number == 1 else "utf-8")
                if not line.isspace():
                    yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}, line {number}: not UTF-8 ({error.reason}). Save the file as UTF-8."
        ) from None
    except IsADirectoryError:
        files = sorted(file.name for file in Path(path).glob("*.jsonl"))
        raise DataError(
            f"{path} is a folder. Give one of its files; those with JSON lines: {listing(files)}."
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}. Check the path.") from None


def _decoded(line: str, place: str) -> dict[str, Any]:
    try:
        value = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        near = line[max(0, error.pos - 30) : error.pos + 30]
        raise DataError(
            f"{place}, column {error.colno}: broken JSON: {error.msg.removesuffix(' at')}, near "
            f"{shown(near)}. Correct this line, or remove it."
        ) from None
    except (ValueError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DataError(f"{place}: {problem}. Correct this line, or remove it.") from None
    if not isinstance(value, dict):
        raise DataError(
            f"{place}: each line must be a JSON object, but this one is {shown(value)}."
        )
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs)


def merged(source: Mapping[str, Any] | None, values: Mapping[str, Any]) -> dict[str, Any]:
    """``values`` in the order of ``source``, whose other keys are kept.

    An id that the file has as a number stays one. An empty value adds no key to an object that was read.
    """
    row = dict(source or {})
    for key, value in values.items():
        old = row.get(key)
        is_same = key in row and (old == value or (isinstance(old, int) and str(old) == value))
        if not is_same and (value or source is None or (old or old == 0)):
            row[key] = value
    return row


# Records


R = TypeVar("R", bound="Record")


def stored(
    read: Callable[..., Any],
    *keys: str,
    write: Callable[[Any, bool], Any] | None = None,
    is_optional: bool = False,
    default: Any = MISSING,
) -> Any:
    """A field of a record: how ``Row`` reads it and under which keys (its own name).

    ``write`` makes it plain, given whether the record was read. An empty optional field is left out.
    """
    how = {"read": read, "keys": keys, "write": write or _as_written, "is_optional": is_optional}
    return field(metadata=how) if default is MISSING else field(default=default, metadata=how)


def _as_written(value: Any, _: bool) -> Any:
    if not isinstance(value, tuple):
        return value
    return [each.to_row() if isinstance(each, Record) else each for each in value]


@dataclass(frozen=True, slots=True)
class Record:
    """Base of the records: read from a row and written into one by how their fields are stored."""

    source: Mapping[str, Any] | None = field(default=None, compare=False, repr=False, kw_only=True)
    """The object that it was read from."""

    @property
    def unit(self) -> str:
        """The run or passage that it is about; "" for a topic as a whole."""
        return ""

    @classmethod
    def of(cls: type[R], row: Row) -> R:
        """The record in ``row``."""
        values = {
            name: how["read"](row, *(how["keys"] or (name,)))
            for name, how in _stored_fields(cls).items()
        }
        return cls(**values, source=row.values)

    def to_row(self) -> dict[str, Any]:
        """The object that a file holds; keys the record does not know are kept."""
        values, known = {}, self.source or {}
        for name, how in _stored_fields(type(self)).items():
            value = how["write"](getattr(self, name), self.source is not None)
            names = how["keys"] or (name,)
            if value or not how["is_optional"] or self.source is not None:
                values[next((n for n in names if known.get(n) is not None), names[0])] = value
        return merged(self.source, values)


def _stored_fields(kind: type[Record]) -> dict[str, Mapping[str, Any]]:
    """How each field that is ``stored`` is read and written."""
    return {each.name: each.metadata for each in fields(kind) if each.metadata}
