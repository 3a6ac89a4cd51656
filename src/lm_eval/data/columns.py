"""The columns that a task file expects (``columns:``), compared with those its data has.

Data sets change on the hub. A task that says what it was written for fails with one message that names
the column, before any prompt is rendered from the wrong one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_eval.data.table import Table
from lm_eval.errors import ConfigError, DataError, did_you_mean, listing

TYPES = ("string", "int", "float", "bool", "list", "dict", "any")
_FITS = {"float": ("float", "int"), "any": None}
"""Type → the types of values that fit it, where that is not the type alone; None: all."""


def expected_columns(columns: Any) -> dict[str, str]:
    """``columns:`` as a task file has it, a list of names or name → type, as name → type."""
    if isinstance(columns, list):
        columns = dict.fromkeys(columns, "any")
    if not isinstance(columns, Mapping) or not columns:
        raise ConfigError(
            f"columns must be a list of column names or a mapping of names to types "
            f"({listing(TYPES)}), not {columns!r}.",
            key="columns",
        )
    for name, kind in columns.items():
        if not isinstance(name, str):
            raise ConfigError(f"columns has the name {name!r}, which is not a text. Quote it.")
        if kind not in TYPES:
            raise ConfigError(
                f"columns: the type of {name!r} cannot be {kind!r}.{did_you_mean(str(kind), TYPES)} "
                f"Types: {listing(TYPES)}.",
                key="columns",
            )
    return dict(columns)


def check_columns(table: Table, columns: Any, *, source: str, split: str) -> None:
    """Refuse rows that lack an expected column, or hold another type in it. None fits every type."""
    problems = []
    kinds = table.features
    for name, expected in expected_columns(columns).items():
        if name not in kinds:
            problems.append(f"it has no column {name!r}")
        elif not _fits(kinds[name], expected):
            problems.append(f"{name!r} holds {_said(kinds[name])}, not {_said(expected)}")
    if problems:
        raise DataError(
            f"{source}, split {split!r}, is not what the task file expects (columns): "
            f"{'; '.join(problems)}. Columns there: "
            f"{listing(f'{name} ({kind})' for name, kind in kinds.items())}. If the data set has "
            f"changed, name the commit that the task was written for (`dataset_revision: SHA`), or "
            f"adapt the task."
        )


def _fits(kind: str, expected: str) -> bool:
    fitting = _FITS.get(expected, (expected,))
    return fitting is None or kind == "null" or kind in fitting


def _said(kind: str) -> str:
    return {"mixed": "values of several types", "dict": "objects"}.get(kind, f"{kind}s")
