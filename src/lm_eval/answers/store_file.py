"""The file of a store of answers: whether it is one, whether it is complete, and how to remove it.

It is an SQLite file with its logs beside it, which other processes may hold, change or remove at any
moment.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from lm_eval.errors import StoreError

_MAGIC = b"SQLite format 3\0"
_SIDE_FILES = ("-wal", "-shm", "-journal")


class StoreInUseError(StoreError):
    """Another process holds this store for itself."""

    retryable = True


class DamagedStoreError(StoreError):
    """A store that lost a part; ``damage`` says so without advice."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = (
            f"{path} is damaged: a part of it is missing, as after a full disk or an incomplete copy, "
            "so its answers cannot be used."
        )
        super().__init__(f"{self.damage} Delete it or name another file, and run again.")


def remove(path: Path) -> None:
    """Remove a store and the files beside it; one that is gone already, or held, is left."""
    for suffix in (*_SIDE_FILES, ""):  # once the name is free, what is beside it is another's
        with suppress(OSError):
            os.unlink(f"{path}{suffix}")


def check_is_store(path: Path) -> None:
    """Refuse a file that is not a store, before anything is done to it."""
    if path.is_dir():
        raise StoreError(f"{path} is a folder. Name a file in it for the answers.")
    try:
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    except FileNotFoundError:
        return
    if start and start != _MAGIC[: len(start)]:
        raise not_a_store(path, "it is a file of another kind")


def not_a_store(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path} does not hold kept answers: {why}. It is left as it is. Name another file: "
        "it is created if it does not exist."
    )


def is_whole(path: Path, wait_s: float) -> bool:
    """Whether no part of a store is missing, in cases that SQLite would not report itself.

    A missing file is whole, and so is an empty one without a log. SQLite notices that whole pages are
    missing, unless there is a log: then every page is read, and nothing is written.
    """
    has_log = _size(Path(f"{path}-wal")) > 0  # others may remove the log at any moment
    size = _size(path)
    if size == 0:
        return not has_log or not path.exists()
    try:
        has_whole_pages = size % _page_size(path) == 0
    except FileNotFoundError:  # removed in this moment
        return True
    return has_whole_pages and (not has_log or _is_readable(path, wait_s))


def file_id(path: Path) -> tuple[int, int] | None:
    """Tells a file from another one at the same path."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _page_size(path: Path) -> int:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(18)[16:], "big")
    return 65536 if size <= 1 else size


def _is_readable(path: Path, wait_s: float) -> bool:
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=wait_s)) as db:
            return bool(db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.OperationalError:  # such as a lock: opening it to write says so
        return True
    except sqlite3.DatabaseError:
        return False
