"""Replaces ``import datasets`` in a task's helper if that library is not installed.

Helpers mostly make or transform small tables, which ``Table`` does. ``load_dataset`` reads data sets of
the hub and local files as a task's ``dataset_path`` would; what else the library can do is refused with
the line that installs it. Names that only describe data (``Value``, ``Features``) are kept as given.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any, NoReturn

from lm_eval.data.resolve import load_splits
from lm_eval.data.table import Table
from lm_eval.errors import MissingExtraError

VERSION = "2.21.0"
"""The version that helpers see: the names here are those of that release."""


class DatasetDict(dict[str, Table]):
    """Split name → rows."""

    @property
    def column_names(self) -> dict[str, list[str]]:
        return {split: table.column_names for split, table in self.items()}

    @property
    def num_rows(self) -> dict[str, int]:
        return {split: len(table) for split, table in self.items()}

    def map(self, function: Any = None, **options: Any) -> DatasetDict:
        return DatasetDict({name: rows.map(function, **options) for name, rows in self.items()})

    def filter(self, function: Any = None, **options: Any) -> DatasetDict:
        return DatasetDict({name: rows.filter(function, **options) for name, rows in self.items()})


class Features(dict[str, Any]):
    """Column → its type."""


class Kind:
    """The type of a column (``Value("string")``, ``Sequence(…)``), as it was written."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.arguments = arguments
        self.options = options


class Split(str):
    """Names of splits."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


def concatenate_datasets(tables: Iterable[Table], **_: Any) -> Table:
    """The rows of several tables, one after the other."""
    return Table.from_list([row for table in tables for row in table])


def load_dataset(
    path: str, name: str | None = None, *, split: str | None = None, **options: Any
) -> DatasetDict | Table:
    """The splits of a data set, or one of them, which alone is then fetched."""
    if not (split is None or str(split).isidentifier()) or options.get("streaming"):
        refuse(path)
    kept = {key: value for key, value in options.items() if value is not None}
    splits = load_splits(path, name, {**kept, "loader": "hub"})
    if split is not None:
        return splits[str(split)]
    return DatasetDict({name: splits[name] for name in splits})


def refuse(path: str = "data", *_: Any, **__: Any) -> NoReturn:
    """Say that only the library itself can do that."""
    raise MissingExtraError(
        f"A task's helper loads {path!r} in a way that needs the `datasets` library, which is not "
        "installed.",
        install="pip install 'lm-eval-formats[datasets]'",
    )


def stand_in() -> ModuleType:
    """A module named ``datasets`` with the names that helpers use."""
    module = ModuleType("datasets", __doc__)
    names: dict[str, Any] = {
        "__version__": VERSION,
        "IS_STAND_IN": True,
        "Dataset": Table,
        "DatasetDict": DatasetDict,
        "Features": Features,
        "Split": Split,
        "concatenate_datasets": concatenate_datasets,
        **dict.fromkeys(("Value", "Sequence", "ClassLabel", "Image", "Audio"), Kind),
        "load_dataset": load_dataset,
        **dict.fromkeys(("get_dataset_config_names", "get_dataset_infos", "load_metric"), refuse),
    }
    for name, value in names.items():
        setattr(module, name, value)
    return module
