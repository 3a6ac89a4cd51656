"""Date strings in JSON → dates, as ``datasets`` reads them: for comparisons with the harness alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from lm_eval.data.table import Table

_DATE = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[ T]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2}))?)?"
    r"(?:Z|(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-9]{2}))?)?)?"
)


def with_dates(table: Table) -> Table:
    """The table with dates in place of date strings, in UTC and without a time zone."""
    rows = table.to_list()
    for name in table.column_names:
        for row, value in zip(rows, _typed([row[name] for row in rows]), strict=True):
            row[name] = value
    return Table.owning(rows, table.column_names)


def _typed(values: Sequence[Any]) -> Sequence[Any]:
    """The values of one column; None is of any type."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {str}:
        return _dates(values)
    if kinds == {list}:
        return _typed_lists(values)
    return _typed_objects(values) if kinds == {dict} else values


def _dates(values: Sequence[str | None]) -> Sequence[Any]:
    dates = []
    for value in values:
        date = None if value is None else _date(value)
        if date is None and value is not None:
            return values
        dates.append(date)
    return dates


def _typed_lists(values: Sequence[list[Any] | None]) -> list[Any]:
    items: Iterator[Any] = iter(_typed([item for value in values for item in value or ()]))
    return [None if value is None else [next(items) for _ in value] for value in values]


def _typed_objects(values: Sequence[dict[str, Any] | None]) -> list[Any]:
    typed = [None if value is None else dict(value) for value in values]
    names = dict.fromkeys(name for value in typed for name in value or ())
    for name in names:
        having = [value for value in typed if value is not None and name in value]
        for value, item in zip(having, _typed([one[name] for one in having]), strict=True):
            value[name] = item
    return typed


def _date(text: str) -> datetime | None:
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    hours, minutes = int(match["hours"] or 0), int(match["minutes"] or 0)
    ahead = timedelta(hours=hours, minutes=minutes) * (-1 if match["sign"] == "-" else 1)
    if hours > 23 or minutes > 59:
        return None
    try:
        return datetime(*(int(part or 0) for part in match.groups()[:6])) - ahead  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None
