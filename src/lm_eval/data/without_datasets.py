"""What stands in for ``import datasets`` in a task's helper where that library is not installed.

Helpers mostly make or transform small tables, which ``Table`` does. Loading from a hub is refused with
the line that installs the library.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn

from lm_eval.data.table import Table
from lm_eval.errors import MissingExtraError


class DatasetDict(dict[str, Table]):
    """Split name → rows."""


def concatenate_datasets(tables: list[Table]) -> Table:
    """The rows of several tables, one after the other."""
    return Table.from_list([row for table in tables for row in table])


def load_dataset(path: str, *_: Any, **__: Any) -> NoReturn:
    raise MissingExtraError(
        f"A task's helper loads {path!r} with the `datasets` library, which is not installed.",
        install="pip install 'lm-eval-formats[datasets]'",
    )


def stand_in() -> ModuleType:
    """A module named ``datasets`` with the names that helpers use."""
    module = ModuleType("datasets", __doc__)
    module.Dataset = Table  # type: ignore[attr-defined]
    module.DatasetDict = DatasetDict  # type: ignore[attr-defined]
    module.concatenate_datasets = concatenate_datasets  # type: ignore[attr-defined]
    module.load_dataset = load_dataset  # type: ignore[attr-defined]
    return module
