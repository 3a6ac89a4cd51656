"""CSV text → rows, each column in the narrowest type that fits all its values.

An error names the line of a broken record. If the header has no comma, another separator is tried, and
used if it splits all records into equally many values.
"""

from __future__ import annotations

import csv
import io
import math
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lm_eval.config.yaml import excerpt
from lm_eval.data.table import Table
from lm_eval.errors import DataError, listing

_INT = re.compile(r"0|-?[1-9][0-9]*")
_FLOAT = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLS = {"true": True, "True": True, "false": False, "False": False}
_LIMIT_LOCK = threading.Lock()
_MAX_FIELD = min(sys.maxsize, 2**31 - 1)  # a C long, which has 32 bits on Windows


def read_csv_text(
    text: str,
    source: str,
    *,
    delimiter: str | None = None,
    sep: str | None = None,
    header: int | str | None = "infer",
    column_names: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    quotechar: str | None = '"',
    quoting: int = csv.QUOTE_MINIMAL,
) -> Table:
    """The rows in ``text``; the first record names the columns.

    ``column_names`` (or ``names``) names them instead, and the first record is then a row unless
    ``header: 0``. ``quotechar: null`` treats quotes as plain text.
    """
    names = column_names if column_names is not None else names
    has_header = _has_header(header, names, source)
    delimiter = delimiter or sep
    if delimiter is None:
        delimiter = "," if names is not None else _delimiter_of(text, quotechar, quoting)
    records = _records(text, source, _dialect(delimiter, quotechar, quoting))
    first = records.pop(0)[1] if has_header and records else []
    columns = list(names) if names is not None else _column_names(first)
    _check_names(columns, source)
    rows = [_checked(record, columns, source, line) for line, record in records]
    values = [_typed([row[i] for row in rows]) for i in range(len(columns))]
    return Table.owning(
        [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)], columns
    )


def _delimiter_of(text: str, quotechar: str | None, quoting: int) -> str:
    """The comma; if the first line has none, what splits all records into equally many values."""
    first = text.lstrip().partition("\n")[0]
    for mark in ";\t|" if "," not in first else "":
        if mark in first:
            try:
                records = _records(text, "", _dialect(mark, quotechar, quoting))
            except DataError:
                continue
            if len({len(record) for _, record in records}) == 1:
                return mark
    return ","


def _has_header(header: Any, names: Sequence[str] | None, source: str) -> bool:
    if header == "infer":
        return names is None
    if header is None or header is False:
        if names is None:
            raise DataError(
                f"{source}: without a header row the columns need names: "
                f"dataset_kwargs: {{header: null, column_names: [question, answer]}}."
            )
        return False
    if header is True or header == 0:
        return True
    raise DataError(f"{source}: `header` is infer, 0 or null, not {header!r}.")


def _dialect(delimiter: str, quotechar: str | None, quoting: int) -> dict[str, Any]:
    if not quotechar or quoting == csv.QUOTE_NONE:
        return {"delimiter": delimiter, "quoting": csv.QUOTE_NONE, "quotechar": None}
    return {"delimiter": delimiter, "quotechar": quotechar}


def _records(text: str, source: str, dialect: dict[str, Any]) -> list[tuple[int, list[str]]]:
    """Each record with the line on which it begins; blank lines are skipped."""
    records, line = [], 1
    with _unlimited_fields():
        try:
            reader = csv.reader(io.StringIO(text, newline=""), strict=True, **dialect)
            for record in reader:
                if record:
                    records.append((line, record))
                line = reader.line_num + 1
        except csv.Error as error:
            raise _broken(error, text, source, line) from None
        except (TypeError, ValueError) as error:
            raise DataError(f"{source}: delimiter or quotechar is unusable: {error}.") from None
    return records


@contextmanager
def _unlimited_fields() -> Iterator[None]:
    with _LIMIT_LOCK:  # the limit belongs to the whole interpreter
        before = csv.field_size_limit(_MAX_FIELD)
        try:
            yield
        finally:
            csv.field_size_limit(before)


def _column_names(record: list[str]) -> list[str]:
    """The names in the header; a column without one gets the name that pandas would give it."""
    return [name or f"Unnamed: {position}" for position, name in enumerate(record)]


def _check_names(columns: list[Any], source: str) -> None:
    known = set()
    for name in columns:
        if name in known:
            raise DataError(
                f"{source}, line 1: two columns are called {name!r}. Rename one of the two."
            )
        known.add(name)


def _checked(record: list[str], columns: list[str], source: str, line: int) -> list[str]:
    if len(record) != len(columns):
        raise DataError(
            f"{source}, line {line}: {len(record)} values for {len(columns)} columns "
            f"({listing(columns, 8)}). Put a value that holds the separator or a line break in "
            f"quotes{_delimiter_hint(columns)}. The values: {_short(record)}"
        )
    return record


def _delimiter_hint(columns: list[str]) -> str:
    mark = next((mark for mark in ";\t|" if len(columns) == 1 and mark in columns[0]), None)
    return (
        "" if mark is None else f", or name the separator: dataset_kwargs: {{delimiter: {mark!r}}}"
    )


def _short(record: list[str]) -> str:
    text = repr(record)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _typed(values: list[str]) -> list[Any]:
    """The values of one column in the narrowest type that fits them all."""
    present = [value for value in values if value]
    parse = _parser(present) if present else None
    if parse is None:
        return [value or None for value in values]
    return [parse(value) if value else None for value in values]


def _parser(present: list[str]) -> Callable[[str], Any] | None:
    if all(value in _BOOLS for value in present):
        return _BOOLS.__getitem__
    if all(_INT.fullmatch(value) for value in present):
        longest = max(map(len, present))
        return int if longest <= 4000 else None  # Python refuses to convert much longer ones
    if all(map(_is_plain_float, present)):
        return float
    return None


def _is_plain_float(value: str) -> bool:
    if not _FLOAT.fullmatch(value):
        return False
    number = float(value)
    # A number too large for a float, or a whole one that a float cannot represent, stays a text.
    is_whole = _INT.fullmatch(value) is not None and len(value) <= 4000
    return math.isfinite(number) and (not is_whole or int(number) == int(value))


def _broken(error: csv.Error, text: str, source: str, line: int) -> DataError:
    lines = text.split("\n")
    shown = lines[line - 1] if line <= len(lines) else ""
    return DataError(
        f"{source}, line {line}: broken CSV: {error}.\n{excerpt(shown, 0)}\n"
        f'Close the quote, or double a quote inside quotes (""). If quotes are plain text in this '
        f"file: dataset_kwargs: {{quotechar: null}}."
    )
