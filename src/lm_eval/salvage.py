"""What can still be read of an SQLite file of answers that lost its end.

SQLite itself repairs a run that was killed; this is for a file that a full disk, a copy or a crashed
machine cut off.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

_PAGES_AT = 28
_SIZE_AT = 16


def is_whole(path: Path, wait_s: float) -> bool:
    """Whether every page of the file can be read. A file that is missing or empty is whole.

    A file that was closed in order says how long it is, and is not read through.
    """
    if not path.exists() or path.stat().st_size == 0:
        return True
    log = Path(f"{path}-wal")
    if _is_as_long_as_it_says(path) and not (log.exists() and log.stat().st_size):
        return True
    try:
        with closing(sqlite3.connect(path, timeout=wait_s)) as db:
            return bool(db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.OperationalError as error:
        return "locked" in str(error)  # a process works in it, so it can be read
    except sqlite3.DatabaseError:
        return False


def _is_as_long_as_it_says(path: Path) -> bool:
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100:
        return False
    page = int.from_bytes(header[_SIZE_AT : _SIZE_AT + 2], "big")
    pages = int.from_bytes(header[_PAGES_AT : _PAGES_AT + 4], "big")
    return path.stat().st_size == pages * (65536 if page == 1 else page)


def salvage(path: Path, schema: Sequence[str], stamp: Callable[[sqlite3.Connection], None]) -> int:
    """Put a whole file with all readable answers in the place of a damaged one; their number.

    Of two processes that find the damage at the same time, one waits for the other.
    """
    fresh = Path(f"{path}.recovering")
    with closing(sqlite3.connect(fresh, timeout=60, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in schema:
                db.execute(statement)
            stamp(db)
        db.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", readable(path))
        count = int(db.execute("SELECT count(*) FROM answers").fetchone()[0])
        db.execute("COMMIT")
    if fresh.exists():  # else the other process was faster
        for suffix in ("-wal", "-shm"):  # first: they would be applied to the new file
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            os.replace(fresh, path)
    return count


def readable(path: Path) -> Iterator[tuple[bytes, str, int]]:
    """Every answer that can be read, some of them twice.

    A page that is lost ends a walk through the keys, so each small range of keys is walked from
    both ends.
    """
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA writable_schema = ON")  # opens a file shorter than it should be
            for first in range(256):
                for order in ("ASC", "DESC"):
                    yield from _walk(db, first, order)
    except sqlite3.DatabaseError:
        return


def _walk(db: sqlite3.Connection, first: int, order: str) -> Iterator[tuple[bytes, str, int]]:
    low, high = bytes([first]), bytes([first + 1]) if first < 255 else b"\xff" * 64
    with suppress(sqlite3.DatabaseError):
        rows = db.execute(
            f"SELECT key, answer, checksum FROM answers WHERE key >= ? AND key < ? ORDER BY key {order}",
            (low, high),
        )
        # The rest of a page that was cut reads as zeros.
        yield from (row for row in rows if row[2] == checksum(row[0], row[1]))


def checksum(key: bytes, answer: Any) -> int:
    """Tells an answer that is whole from one that lost a part."""
    text = answer if isinstance(answer, str) else ""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"), zlib.crc32(key))
