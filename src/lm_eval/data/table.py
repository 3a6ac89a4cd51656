"""The docs of one split: an immutable sequence of rows that share one schema.

It has the part of the ``datasets.Dataset`` interface that task helpers use (``map``, ``filter``,
``select``, ``features`` …), so that a ``process_docs`` runs on local files unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import eq
from types import MappingProxyType
from typing import Any, overload

from lm_eval.data.packed import PackedRows, Row, RowCollector
from lm_eval.errors import DataError, did_you_mean, listing

_TYPE_NAMES = {
    str: "string",
    bool: "bool",
    int: "int",
    float: "float",
    list: "list",
    dict: "dict",
    type(None): "null",
}
_NO_EFFECT = frozenset(
    ("num_proc", "load_from_cache_file", "keep_in_memory", "desc", "cache_file_name",
     "writer_batch_size", "new_fingerprint", "features", "suffix_template")
)  # fmt: skip


class Table(Sequence[Any]):
    """Rows of one schema: a key absent from a row is None, columns come in first-seen order.

    Every row returned is a copy, nested lists and dicts included, so changing it does not change
    the table. ``table[3]`` is a row, ``table[2:5]`` a table, ``table["name"]`` a column.
    """

    __slots__ = ("__weakref__", "_columns", "_features", "_nested", "_rows")

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self._own([_copied_row(row, position) for position, row in enumerate(rows)])

    @classmethod
    def from_list(cls, rows: Iterable[Mapping[str, Any]]) -> Table:
        """A table of mappings, which are copied."""
        return cls(rows)

    @classmethod
    def from_dict(cls, columns: Mapping[str, Sequence[Any]]) -> Table:
        """A table from whole columns, which must be equally long."""
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            sizes = listing(f"{name} ({length})" for name, length in lengths.items())
            raise DataError(f"Columns of one table must be equally long: {sizes}.")
        names = list(columns)
        return cls(
            dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)
        )

    @classmethod
    def from_pandas(cls, df: Any, **_: Any) -> Table:
        """A table of a data frame's rows; its index is left out."""
        return cls(df.to_dict("records"))

    def to_pandas(self) -> Any:
        """The rows as a data frame, if pandas is installed."""
        import pandas  # type: ignore[import-untyped]  # optional

        return pandas.DataFrame(self.to_list(), columns=list(self._columns))

    @classmethod
    def owning(cls, rows: list[Row], columns: Iterable[str] = ()) -> Table:
        """A table of new rows that are not copied; the caller must not keep them.

        ``columns`` come first, and exist even if no row has them.
        """
        table = cls.__new__(cls)
        table._own(rows, columns)
        return table

    @classmethod
    def collected(cls, collector: RowCollector) -> Table:
        """A table of the collected rows; if there are many, they stay packed."""
        rows = collector.rows()
        if isinstance(rows, list):
            return cls.owning(rows, collector.columns)
        table = cls.__new__(cls)
        table._own([], rows.columns)
        table._rows = rows
        return table

    def _own(self, rows: list[Row], columns: Iterable[str] = ()) -> None:
        self._columns = _union_of_keys(rows, columns)
        self._rows: list[Row] | PackedRows = _filled(rows, self._columns)
        self._features: Mapping[str, str] | None = None
        self._nested: tuple[str, ...] | None = None

    # --- reading ---

    @property
    def column_names(self) -> list[str]:
        """The columns, in the order in which they were first seen."""
        return list(self._columns)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self._rows)

    @property
    def features(self) -> Mapping[str, str]:
        """Column → type name: string, int, float, bool, list, dict, null, or mixed."""
        if self._features is None:
            types: dict[str, set[type]] = {name: set() for name in self._columns}
            for row in self._rows:
                for name, kinds in types.items():
                    kinds.add(type(row[name]))
            self._features = MappingProxyType({name: _type_name(t) for name, t in types.items()})
        return self._features

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return map(self._copy, self._rows)

    @overload
    def __getitem__(self, key: int) -> Row: ...
    @overload
    def __getitem__(self, key: slice) -> Table: ...
    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    def __getitem__(self, key: int | slice | str) -> Row | Table | list[Any]:
        if isinstance(key, str):
            self._check_columns([key])
            return [_copied(row[key]) for row in self._rows]
        if isinstance(key, slice):
            return self._same_schema(self._rows[key])
        return self._copy(self._rows[key])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        if self._columns != other._columns or len(self) != len(other):
            return False
        return all(map(eq, self._rows, other._rows))

    __hash__ = None  # type: ignore[assignment]  # rows hold lists, as a list of dicts would

    def __repr__(self) -> str:
        return f"Table({len(self)} rows: {listing(self._columns)})"

    def own_rows(self) -> list[Row]:
        """The rows themselves, for a caller that may change them.

        Changing them changes the table. Unpacked rows are faster to read many times.
        """
        if isinstance(self._rows, PackedRows):
            self._rows = list(self._rows)
        return self._rows

    @property
    def rows(self) -> Sequence[Row]:
        """The rows themselves, for reading only: those of a large table stay packed."""
        return self._rows

    def to_list(self) -> list[Row]:
        """All rows, as copies."""
        return list(self)

    def unique(self, column: str) -> list[Any]:
        """The different values of a column, in first-seen order."""
        values = self[column]
        try:
            return list(dict.fromkeys(values))
        except TypeError:
            return [value for i, value in enumerate(values) if value not in values[:i]]

    # --- new tables from this one ---

    def map(
        self,
        function: Callable[..., Any],
        *,
        with_indices: bool = False,
        input_columns: str | Sequence[str] | None = None,
        batched: bool = False,
        batch_size: int | None = 1000,
        remove_columns: str | Sequence[str] | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Table:
        """Each row with what ``function`` returns for it merged in; None leaves the row as it is.

        ``remove_columns`` are removed before merging, so a returned key of that name stays. Options of
        ``datasets`` that affect only speed are accepted.
        """
        _check_options(options)
        removed = _as_list(remove_columns)
        self._check_columns(removed)
        call = self._caller(function, with_indices, input_columns, fn_kwargs)
        if batched:
            return self._map_batches(call, batch_size or max(len(self), 1), removed)
        rows = []
        for position, row in enumerate(self._rows):
            returned = call(self._copy(row), position)
            kept = {name: value for name, value in row.items() if name not in removed}
            rows.append({**self._copy(kept), **_returned(returned, function, position)})
        return Table.owning(rows, [name for name in self._columns if name not in removed])

    def filter(
        self,
        function: Callable[..., Any],
        *,
        with_indices: bool = False,
        input_columns: str | Sequence[str] | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Table:
        """The rows for which ``function`` returns something true."""
        _check_options(options)
        call = self._caller(function, with_indices, input_columns, fn_kwargs)
        rows = [row for i, row in enumerate(self._rows) if call(self._copy(row), i)]
        return self._same_schema(rows)

    def select(self, indices: Iterable[int]) -> Table:
        """The rows at ``indices``, in that order; a row may come several times."""
        rows = []
        for index in indices:
            if not -len(self) <= index < len(self):
                raise DataError(f"There is no row {index}: the table has {len(self)} rows.")
            rows.append(self._rows[index])
        return self._same_schema(rows)

    def shuffle(self, seed: int | None = None, **options: Any) -> Table:
        """The rows in the order that ``datasets`` gives for the same ``seed``.

        Without a seed it is 0 here: the same command must always see the same docs.
        """
        _check_options(options)
        import numpy as np

        return self.select(np.random.default_rng(seed or 0).permutation(len(self)).tolist())

    def add_column(self, name: str, column: Sequence[Any]) -> Table:
        """This table with one more column."""
        rows = [{**row, name: _copied(v)} for row, v in zip(self._rows, column, strict=True)]
        return Table.owning(rows, (*self._columns, name))

    def remove_columns(self, columns: str | Sequence[str]) -> Table:
        """This table without ``columns``."""
        removed = _as_list(columns)
        self._check_columns(removed)
        return self.select_columns([name for name in self._columns if name not in removed])

    def select_columns(self, columns: str | Sequence[str]) -> Table:
        """This table with ``columns`` only."""
        kept = _as_list(columns)
        self._check_columns(kept)
        return Table.owning([{name: row[name] for name in kept} for row in self._rows], kept)

    def rename_column(self, original: str, new: str) -> Table:
        """This table with one column under another name."""
        return self.rename_columns({original: new})

    def rename_columns(self, names: Mapping[str, str]) -> Table:
        """This table with columns under other names (old → new)."""
        self._check_columns(list(names))
        columns = [names.get(name, name) for name in self._columns]
        rows = [dict(zip(columns, row.values(), strict=True)) for row in self._rows]
        return Table.owning(rows, columns)

    # --- inside ---

    def _same_schema(self, rows: list[Row]) -> Table:
        table = Table.__new__(Table)
        table._rows, table._columns = rows, self._columns
        table._features, table._nested = None, None
        return table

    def _copy(self, row: Row) -> Row:
        if self._nested is None:
            containers = (list, dict, tuple, set)
            self._nested = tuple(
                name
                for name in self._columns
                if any(isinstance(row[name], containers) for row in self._rows)
            )
        copy = dict(row)
        for name in self._nested:
            if name in copy:
                copy[name] = _copied(copy[name])
        return copy

    def _check_columns(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._columns:
                raise DataError(
                    f"There is no column {name!r}.{did_you_mean(name, self._columns)} "
                    f"Columns: {listing(self._columns)}."
                )

    def _caller(
        self,
        function: Callable[..., Any],
        with_indices: bool,
        input_columns: str | Sequence[str] | None,
        fn_kwargs: Mapping[str, Any] | None,
    ) -> Callable[[Row, Any], Any]:
        """``function`` as one that takes a row (or a batch) and its index (or indices)."""
        columns = None if input_columns is None else _as_list(input_columns)
        self._check_columns(columns or [])
        kwargs = dict(fn_kwargs or {})

        def call(row: Row, index: Any) -> Any:
            inputs = [row] if columns is None else [row[name] for name in columns]
            return function(*inputs, *([index] if with_indices else []), **kwargs)

        return call

    def _map_batches(
        self, call: Callable[[Row, Any], Any], size: int, removed: Sequence[str]
    ) -> Table:
        kept = [name for name in self._columns if name not in removed]
        rows: list[Row] = []
        for start in range(0, len(self), size):
            part = self[start : start + size]
            indices = list(range(start, start + len(part)))
            returned = call({name: part[name] for name in self._columns}, indices)
            columns = {name: part[name] for name in kept}
            rows += Table.from_dict({**columns, **_returned(returned, "map", start)}).to_list()
        return Table.owning(rows, kept)


def _union_of_keys(rows: list[Row], columns: Iterable[str]) -> tuple[str, ...]:
    names: dict[str, None] = dict.fromkeys(columns)
    for row in rows:
        if row.keys() != names.keys():
            names.update(dict.fromkeys(row))
    for name in names:
        if not isinstance(name, str):
            raise DataError(f"A column's name must be a text, and {name!r} is not one.")
    return tuple(names)


def _filled(rows: list[Row], columns: tuple[str, ...]) -> list[Row]:
    """The rows with all columns, in order; rows that have them already are not copied."""
    return [
        row if tuple(row) == columns else {name: row.get(name) for name in columns} for row in rows
    ]


def _copied_row(row: Any, position: int) -> Row:
    if not isinstance(row, Mapping):
        raise DataError(f"Row {position} is a {type(row).__name__}; a mapping is needed.")
    return {name: _copied(value) for name, value in row.items()}


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return [_copied(item) for item in value]
    if kind is dict:
        return {key: _copied(item) for key, item in value.items()}
    if kind is tuple:
        return tuple(_copied(item) for item in value)
    return set(value) if kind is set else value


def _returned(value: Any, function: Any, position: int) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        name = getattr(function, "__name__", str(function))
        raise DataError(
            f"The function {name!r} returned a {type(value).__name__} for row {position}; `map` "
            f"needs a dict of columns, or None."
        )
    return {key: _copied(item) for key, item in value.items()}


def _type_name(types: set[type]) -> str:
    names = {_TYPE_NAMES.get(kind, kind.__name__) for kind in types}
    if len(names) > 1:
        names.discard("null")
    if names == {"int", "float"}:
        return "float"
    return "mixed" if len(names) > 1 else next(iter(names), "null")


def _as_list(names: str | Sequence[str] | None) -> list[str]:
    if names is None:
        return []
    return [names] if isinstance(names, str) else list(names)


def _check_options(options: Mapping[str, Any]) -> None:
    for name in options:
        if name not in _NO_EFFECT:
            raise DataError(
                f"The option {name!r} is not known here.{did_you_mean(name, _NO_EFFECT)}"
            )
