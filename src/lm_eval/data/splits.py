"""A task's splits by name: each is read from its files, and checked, when it is first asked for.

Data sets change on the hub. A task that states the columns it was written for (``columns:``) fails with
one message that names the column, before any prompt is rendered from the wrong one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload
from weakref import WeakValueDictionary

from lm_eval.config.fields import shorten
from lm_eval.data.files import CANONICAL, COMPRESSED, SUFFIXES, file_type, read_file
from lm_eval.data.table import Table
from lm_eval.errors import ConfigError, DataError, did_you_mean, listing

if TYPE_CHECKING:
    from lm_eval.data.hub.load import HubData


T = TypeVar("T")
Loader = Callable[[], Table]

HUB_ONLY = frozenset(
    ("trust_remote_code", "cache_dir", "revision", "streaming", "download_mode", "token",
     "verification_mode", "num_proc", "keep_in_memory", "save_infos", "loader")
)  # fmt: skip
"""Options of a data set on the hub that mean nothing for local files."""


def _nothing() -> None:
    """The default of ``on_change``."""


class Splits(Mapping[str, Table]):
    """Split name → ``Table``; a split's files are read when it is first asked for.

    ``any_name`` is a loader for whatever name is asked for first, for data that is one file.
    ``synonyms`` lets ``dev`` find ``validation``.
    """

    def __init__(
        self,
        loaders: Mapping[str, Loader],
        source: str,
        *,
        any_name: Loader | None = None,
        synonyms: bool = False,
    ) -> None:
        self.source = source
        self._loaders = dict(loaders)
        self._any_name = any_name
        self._synonyms = synonyms
        self._tables: dict[str, Table] = {}
        self.on_change: Callable[[], None] = _nothing
        """Called when a split is replaced."""
        self.origin: HubData | None = None
        """The data set of the hub that the rows come from, if any."""
        self.columns: Any = None
        """The columns that every split must have, as a task file states them."""

    @property
    def names(self) -> list[str]:
        """The names of the splits; empty for a single file whose split was not asked for yet."""
        return list(self._loaders)

    def __getitem__(self, name: str) -> Table:
        split = self._find(name)
        if split is None and self._any_name is not None and not self._loaders:
            self._loaders[name] = self._any_name
            split = name
        if split is None:
            raise DataError(self._missing(name))
        if split not in self._tables:
            self._tables[split] = self._read(split)
        return self._tables[split]

    def __setitem__(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Replace a split's rows, or add a split; ``on_change`` is called."""
        table = rows if isinstance(rows, Table) else Table.from_list([dict(row) for row in rows])
        split = self._find(name) or name
        self._loaders = {**self._loaders, split: lambda: table}  # other views keep theirs
        self._tables = {**self._tables, split: table}
        self.on_change()

    def view(self) -> Splits:
        """These splits for another task: read once for both, replaced for each alone."""
        other = copy.copy(self)
        other.on_change = _nothing
        return other

    def __contains__(self, name: object) -> bool:
        is_unnamed = self._any_name is not None and not self._loaders
        return is_unnamed or self._find(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self._loaders)

    def shuffle(self, seed: int | None = None, **options: Any) -> Splits:
        """The same splits with their rows in random order."""
        return self.reading_by(lambda read: lambda: read().shuffle(seed, **options))

    @overload
    def get(self, name: str, /) -> Table | None: ...
    @overload
    def get(self, name: str, /, default: T) -> Table | T: ...
    def get(self, name: str, /, default: Any = None) -> Any:
        """The split, or ``default`` if there is none of that name."""
        if name not in self:
            return default
        return self[name]

    def __repr__(self) -> str:
        return f"Splits({self.source}: {listing(self.names)})"

    def reading_by(self, change: Callable[[Loader], Loader]) -> Splits:
        """The same splits, each read by its changed loader."""
        changed = Splits(
            {name: change(loader) for name, loader in self._loaders.items()},
            self.source,
            any_name=None if self._any_name is None else change(self._any_name),
            synonyms=self._synonyms,
        )
        changed.origin, changed.columns = self.origin, self.columns
        return changed

    def name_in_origin(self, name: str) -> str:
        """What the data set itself calls the split that the task calls ``name``."""
        if self._any_name is not None and self.origin is not None:
            return self.origin.splits[0]
        split = self._find(name)
        if split is None:
            raise DataError(self._missing(name))
        return split

    def _find(self, name: str) -> str | None:
        if name in self._loaders:
            return name
        if self._synonyms and name in CANONICAL:
            return CANONICAL[name] if CANONICAL[name] in self._loaders else None
        return None

    def _read(self, name: str) -> Table:
        table = self._loaders[name]()
        if not len(table):
            raise DataError(f"{self.source}: the split {name!r} has no rows. Give it some.")
        if self.columns is not None:
            check_columns(table, self.columns, source=self.source, split=name)
        return table

    def _missing(self, name: str) -> str:
        if self._any_name is not None and self.origin is not None:
            first = self.names[0]
            return (
                f"{self.source}: the files named serve as the split {first!r}; they cannot "
                f"be {name!r} as well. Name files for each: `dataset_files: {{{first}: …, {name}: …}}`."
            )
        if self._any_name is not None:
            return (
                f"{self.source} is one file and serves as the split {self.names[0]!r}; it cannot "
                f"be {name!r} as well. Give each split its file: dataset_path: "
                f"{file_type(self.source) or 'json'} with dataset_kwargs: {{data_files: "
                f"{{{self.names[0]}: {Path(self.source).name}, {name}: OTHER_FILE}}}}."
            )
        return (
            f"{self.source} has no split {name!r}.{did_you_mean(name, self.names)} "
            f"Splits: {listing(self.names)}."
        )


@dataclass(frozen=True)
class FileLoader:
    """Reads files in order into one table; without a type, each file's name decides its type.

    ``paths`` may be a function that fetches them.
    """

    paths: Sequence[Path] | Callable[[], Sequence[Path]]
    options: Mapping[str, Any]
    type_name: str | None
    dates: bool = False

    is_private: bool = False
    """Whether these rows are not shared, because they may be changed."""

    def __call__(self) -> Table:
        paths = self.paths() if callable(self.paths) else self.paths
        if self.is_private:
            return self._read(paths)
        key = self._key(paths)
        table = _READ.get(key)
        if table is None:
            table = _READ[key] = self._read(paths)
        return table

    def _key(self, paths: Sequence[Path]) -> tuple[Any, ...]:
        """A key that is equal for equal rows: the files as they are now, and how they are read."""
        stats = [(str(path), path.stat()) for path in paths]
        files = tuple((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in stats)
        return files, self.type_name, repr(sorted(self.options.items())), self.dates

    def _read(self, paths: Sequence[Path]) -> Table:
        kinds = [self.type_name or type_of(path) for path in paths]
        tables = [
            read_file(path, kind, self.options) for path, kind in zip(paths, kinds, strict=True)
        ]
        table = tables[0]
        if len(tables) > 1:
            columns = [name for table in tables for name in table.column_names]
            table = Table.owning([row for table in tables for row in table], columns)
        # The library reads a list under a `field` differently, without dates.
        has_dates = self.dates and {*kinds} <= {"json", "jsonl"} and "field" not in self.options
        if not has_dates:
            return table
        return with_dates(table)


_READ: WeakValueDictionary[tuple[Any, ...], Table] = WeakValueDictionary()
"""Tables in use of the files that were read: tasks that share a file share its rows."""


def type_of(path: Path) -> str:
    type_name = file_type(path)
    if type_name is None:
        raise DataError(
            f"{path}: the ending {path.suffix!r} tells no file type. Known: {listing(SUFFIXES)} "
            f"(texts also with {listing(COMPRESSED)}). Or use `dataset_path: json` with "
            f"dataset_kwargs.data_files."
        )
    return type_name


def splits_of(dataset: Any, source: str) -> Splits:
    """Splits from a task's own code."""
    if not isinstance(dataset, Mapping):
        raise DataError(
            f"{source} gives {shorten(dataset)}; expected a mapping of split names to rows."
        )
    return Splits({name: _table_of(rows) for name, rows in dataset.items()}, source)


def _table_of(rows: Any) -> Callable[[], Table]:
    if isinstance(rows, Table):
        return lambda: Table.owning(rows.to_list(), rows.column_names)  # theirs stays as it is
    return lambda: Table.from_list(mappings(rows, "custom_dataset"))


def mappings(rows: Any, key: str) -> list[dict[str, Any]]:
    """Docs from a task's own code or YAML, checked to be mappings."""
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
        raise DataError(f"{key} gives {shorten(rows)}; expected a list of docs (mappings).")
    docs = list(rows)
    for row in docs:
        if not isinstance(row, Mapping):
            raise DataError(f"{key} gives {shorten(row)} among its docs; expected mappings.")
    return [dict(row) for row in docs]


# ``columns:`` of a task file, compared with the columns that its data has


COLUMN_TYPES = ("string", "int", "float", "bool", "list", "dict", "any")
_FITS = {"float": ("float", "int"), "any": None}
"""Type → the types of values that fit it, if not only the type itself; None: all."""


def expected_columns(columns: Any) -> dict[str, str]:
    """``columns:`` of a task file, a list of names or a mapping, as name → type."""
    if isinstance(columns, list):
        columns = dict.fromkeys(columns, "any")
    if not isinstance(columns, Mapping) or not columns:
        raise ConfigError(
            f"columns must be a list of column names or a mapping of names to types "
            f"({listing(COLUMN_TYPES)}), not {columns!r}.",
            key="columns",
        )
    for name, kind in columns.items():
        if kind not in COLUMN_TYPES:
            raise ConfigError(
                f"columns: the type of {name!r} cannot be {kind!r}."
                f"{did_you_mean(str(kind), COLUMN_TYPES)} Types: {listing(COLUMN_TYPES)}.",
                key="columns",
            )
    return dict(columns)


def check_columns(table: Table, columns: Any, *, source: str, split: str) -> None:
    """Refuse rows that lack an expected column, or have another type in it. None fits every type."""
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


# Date strings in JSON → dates, as ``datasets`` reads them: only for comparisons with the harness


def with_dates(table: Table) -> Table:
    """The table with dates in the columns in which pyarrow's reader of JSON finds them."""
    try:
        from pyarrow import ArrowInvalid, BufferReader
        from pyarrow.json import ReadOptions, read_json
    except ImportError:
        return table
    rows = table.to_list()
    text = "\n".join(map(json.dumps, rows)).encode()
    try:
        typed = read_json(BufferReader(text), ReadOptions(block_size=len(text) + 1))
        dated = [column.name for column in typed.schema if "timestamp" in str(column.type)]
        values = {name: typed[name].to_pylist() for name in dated}
    except (ArrowInvalid, OverflowError):  # values of several types, or beyond what types hold
        return table
    for name, column in values.items():
        for row, value in zip(rows, column, strict=True):
            row[name] = value
    return Table.owning(rows, table.column_names)
