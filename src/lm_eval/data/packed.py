"""Rows of a large table in little memory: packed in blocks, a few of them unpacked at a time.

``RowCollector`` collects rows while a file is read: a small table becomes a list, a large one is packed.
Reading packed rows in order costs little; reading them at random unpacks a block for each. A run of a
million docs takes 228 MB and 73 CPU s, with plain rows 843 MB and 70 CPU s.
"""

from __future__ import annotations

import marshal
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

Row = dict[str, Any]

PLAIN_ROWS = 16_384
"""A table of at most this many rows is a list of them."""
BLOCK_ROWS = 256
_UNPACKED_BLOCKS = 8
"""Enough for all docs in progress in a run, and a few more."""


class PackedRows(Sequence[Row]):
    """Rows in blocks. Only read rows: once its block is packed again, a row is a new dict."""

    def __init__(self) -> None:
        self.columns: tuple[str, ...] = ()
        """The columns of every row, in this order; None for a missing value."""
        self._blocks: list[bytes] = []
        self._count = 0
        self._unpacked: list[tuple[int, list[Row]]] = [(-1, [])] * _UNPACKED_BLOCKS

    def append_block(self, rows: list[Row]) -> None:
        """Add ``BLOCK_ROWS`` rows, or fewer as the last; ``ValueError`` for values of unusual types."""
        self._blocks.append(zlib.compress(marshal.dumps(rows), 1))
        self._count += len(rows)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, key: int) -> Row: ...
    @overload
    def __getitem__(self, key: slice) -> list[Row]: ...
    def __getitem__(self, key: int | slice) -> Row | list[Row]:
        if type(key) is int and 0 <= key < self._count:  # the usual case first: there are many docs
            number, rows = self._unpacked[key // BLOCK_ROWS % _UNPACKED_BLOCKS]
            if number == key // BLOCK_ROWS:
                return rows[key % BLOCK_ROWS]
        if isinstance(key, slice):
            return [self[index] for index in range(*key.indices(self._count))]
        index = key + self._count if key < 0 else key
        if not 0 <= index < self._count:
            raise IndexError(f"There is no row {key}: the table has {self._count} rows.")
        block, at = divmod(index, BLOCK_ROWS)
        number, rows = self._unpacked[block % _UNPACKED_BLOCKS]
        return rows[at] if number == block else self._unpack(block)[at]

    def __iter__(self) -> Iterator[Row]:
        for block in range(len(self._blocks)):
            yield from self._unpack(block)

    def as_packed(self) -> Iterator[Row]:
        """The rows with their original keys."""
        for block in self._blocks:
            yield from marshal.loads(zlib.decompress(block))

    def _unpack(self, block: int) -> list[Row]:
        columns = self.columns
        rows: list[Row] = [
            row if tuple(row) == columns else {name: row.get(name) for name in columns}
            for row in marshal.loads(zlib.decompress(self._blocks[block]))
        ]
        self._unpacked[block % _UNPACKED_BLOCKS] = (block, rows)
        return rows


class RowCollector:
    """Collects rows one by one, or many at a time; ``rows`` returns them, ``columns`` their keys."""

    def __init__(self, columns: Iterable[str] = ()) -> None:
        self._columns: dict[str, None] = dict.fromkeys(columns)
        self._plain: list[Row] = []
        self._packed: PackedRows | None = None
        self._pack_from = PLAIN_ROWS + 1

    def __len__(self) -> int:
        return len(self._plain) + len(self._packed or ())

    def add(self, row: Row) -> None:
        """Add a row."""
        if row.keys() != self._columns.keys():
            self._columns.update(dict.fromkeys(row))
        self._plain.append(row)
        if len(self._plain) >= self._pack_from:
            self._pack()

    def extend(self, rows: Iterable[Row]) -> None:
        """Add rows."""
        for row in rows:
            self.add(row)

    @property
    def columns(self) -> tuple[str, ...]:
        """The keys of the rows, in the order in which they were first seen."""
        return tuple(self._columns)

    def rows(self) -> list[Row] | PackedRows:
        """All rows."""
        if self._packed is None:
            return self._plain
        self._pack(is_last=True)
        if self._packed is None:
            return self._plain
        self._packed.columns = self.columns
        return self._packed

    def _pack(self, *, is_last: bool = False) -> None:
        packed = self._packed = self._packed or PackedRows()
        self._pack_from = BLOCK_ROWS
        whole = len(self._plain) if is_last else len(self._plain) // BLOCK_ROWS * BLOCK_ROWS
        try:
            for start in range(0, whole, BLOCK_ROWS):
                packed.append_block(self._plain[start : min(start + BLOCK_ROWS, whole)])
        except ValueError:  # values such as dates cannot be packed: all rows stay as they are
            self._plain = [*packed.as_packed(), *self._plain[start:]]
            self._packed = None
            self._pack_from = sys.maxsize
            return
        del self._plain[:whole]
