"""JSON text → rows: an array of objects, or one object per line.

``NaN`` and ``Infinity`` are read as floats, as Python writes them; whole numbers stay exact. A key
that stands twice in one object is an error, because one of the two values would vanish.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from sys import intern
from typing import Any

from lm_eval.config.yaml_errors import excerpt
from lm_eval.data.table import Table
from lm_eval.errors import DataError, did_you_mean, listing


class _DuplicateKeyError(ValueError):
    pass


def read_json_text(text: str, source: str, *, field: str | None = None) -> Table:
    """The rows in ``text``. ``field`` names the key (``a.b`` for nested) that holds the list."""
    if field is not None:
        return _rows_of(_at_field(_decode(text, source), field, source), source)
    if text.lstrip().startswith("["):
        return _rows_of(_decode(text, source), source)
    return _read_lines(text, source)


def _read_lines(text: str, source: str) -> Table:
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(_lines(text), start=1):
        if not line or line.isspace():
            continue
        try:
            row = _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            if not rows:
                _refuse_single_object(text, source)
            raise _broken(error, line, source, number) from None
        if type(row) is not dict:
            raise _not_an_object(row, f"{source}, line {number}")
        rows.append(row)
    return Table.owning(rows)


def _lines(text: str) -> Iterator[str]:
    """One line after the other: a list of all would be the whole file a second time.

    They end at "\\n" only: JSON strings may hold U+2028 and the like as they are.
    """
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Each line is decoded by itself, and would bring its own copy of every key.
    result = {intern(name): value for name, value in pairs}
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _DuplicateKeyError(f"the key {twice!r} stands twice in one object")
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs)


def _decode(text: str, source: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise _broken(error, text, source, 1) from None


def _rows_of(value: Any, source: str) -> Table:
    if isinstance(value, dict) and value and all(isinstance(v, list) for v in value.values()):
        return Table.from_dict(value)
    if not isinstance(value, list):
        raise DataError(f"{source}: a list of objects is needed, not a {_kind(value)}.")
    for position, row in enumerate(value):
        if not isinstance(row, dict):
            raise _not_an_object(row, f"{source}, item {position + 1} of the list")
    return Table.owning(value)


def _at_field(value: Any, field: str, source: str) -> Any:
    if isinstance(value, dict) and field in value:
        return value[field]
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            keys = list(value) if isinstance(value, dict) else []
            raise DataError(
                f"{source} has no field {field!r}.{did_you_mean(key, keys)} "
                f"Keys there: {listing(keys)}."
            )
        value = value[key]
    return value


def _refuse_single_object(text: str, source: str) -> None:
    """Explain a file that is one object over several lines; return if it is not that."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(value, Mapping):
        return
    lists = [key for key, item in value.items() if isinstance(item, list)]
    field = lists[0] if lists else "NAME"
    raise DataError(
        f"{source} is one JSON object over several lines, not a list of rows. Name the key that "
        f"holds the rows: dataset_kwargs: {{field: {field}}}. Keys with a list: {listing(lists)}."
    )


def _broken(error: Exception, text: str, source: str, first_line: int) -> DataError:
    if isinstance(error, json.JSONDecodeError):
        line = text[text.rfind("\n", 0, error.pos) + 1 :].partition("\n")[0]
        number = first_line + error.lineno - 1
        problem = error.msg.removesuffix(" at")
        return DataError(
            f"{source}, line {number}, column {error.colno}: broken JSON: {problem}.\n"
            f"{excerpt(line, error.colno - 1)}\nCorrect this line, or remove it."
        )
    if isinstance(error, RecursionError):
        problem = "nested too deeply"
    elif isinstance(error, _DuplicateKeyError):
        problem = f"{error}; remove one of the two"
    else:
        problem = "a number with too many digits; put it in quotes"
    place = source if "\n" in text else f"{source}, line {first_line}"
    return DataError(f"{place}: {problem}.\n{excerpt(text.partition(chr(10))[0], 0)}")


def _not_an_object(row: Any, place: str) -> DataError:
    shown = json.dumps(row)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    return DataError(
        f'{place}: each row must be an object such as {{"question": "…"}}, and this one is a '
        f"{_kind(row)}: {shown}"
    )


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "literal"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "text"
    return "list" if isinstance(value, list) else "object"
