"""What the optional ``datasets`` library does: data sets of the Hugging Face hub, and dates in JSON.

``load_from_hub`` fetches a data set; ``with_dates`` reads date strings as that library does, for
comparisons with the harness alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from lm_eval.data.table import Table
from lm_eval.errors import DataError, MissingExtraError


def load_from_hub(
    path: str, name: str | None, kwargs: Mapping[str, Any]
) -> dict[str, Callable[[], Table]] | Callable[[], Table]:
    """Split name → a function that makes its table; a bare function where there is one split.

    Rows become plain Python values only when a split is asked for.
    """
    datasets = _import_datasets(path)
    options = {key: value for key, value in kwargs.items() if key != "trust_remote_code"}
    if "trust_remote_code" in kwargs:
        import logging

        logging.getLogger(__name__).warning(
            "%s: trust_remote_code is ignored; `datasets` no longer runs loading scripts.", path
        )
    try:
        loaded = datasets.load_dataset(path, name, **options)
    except Exception as error:
        raise DataError(_failed(path, name, error)) from error
    if isinstance(loaded, Mapping):
        return {str(split): _maker(rows) for split, rows in loaded.items()}
    return _maker(loaded)


def _maker(rows: Any) -> Callable[[], Table]:
    def make() -> Table:
        return Table.owning([dict(row) for row in rows], getattr(rows, "column_names", None) or ())

    return make


def _import_datasets(path: str) -> Any:
    try:
        import datasets
    except ImportError:
        raise MissingExtraError(
            f"dataset_path {path!r} is not a local file or folder, so it is a name on the Hugging "
            f"Face hub. For local data write `dataset_path: ./file.jsonl`, or `dataset_path: json` "
            f"with `dataset_kwargs: {{data_files: {{test: file.jsonl}}}}`. The hub needs the "
            f"`datasets` library, which is not installed.",
            install="pip install 'lm-eval-formats[datasets]'",
        ) from None
    return datasets


def _failed(path: str, name: str | None, error: Exception) -> str:
    what = f"{path!r}" + (f" (dataset_name {name!r})" if name else "")
    hint = "Check the name and the network, or save the data locally and name the file."
    if "script" in str(error).lower():
        hint = (
            "This dataset needs a loading script, which `datasets` no longer runs. Use a copy of "
            "it in Parquet or JSON."
        )
    return f"The dataset {what} cannot be loaded: {type(error).__name__}: {error}. {hint}"


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
