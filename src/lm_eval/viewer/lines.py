"""The lines of a samples file by number, without reading the file into memory.

In: a ``.jsonl`` file, complete or still growing. Out: any of its lines as an object. Only where each
line starts is kept, 8 bytes a line; a file that has grown is read on from where it ended, and one that
was replaced is read anew.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

from lm_eval.errors import ComparisonError
from lm_eval.lab.stored.run import damaged

BLOCK_BYTES = 1 << 24


class SampleLines:
    """The complete lines of one file. Several threads may ask at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._starts = array("Q", [0])
        self._state: tuple[int, int] = (0, 0)
        """The inode of the file whose lines are known, and how many of its bytes were looked at."""
        self._lock = Lock()

    def count(self, at_least: int | None = None) -> int:
        """How many lines are known; all there are, or as soon as there are ``at_least`` of them.

        A last line without a line break is not counted: it is still being written, or was cut off.
        """
        with self._lock:
            try:
                self._read_on(at_least)
            except OSError as error:
                raise ComparisonError(f"{self.path} cannot be read: {error.strerror}.") from None
            return len(self._starts) - 1

    @property
    def rest_bytes(self) -> int:
        """Bytes after the last complete line, of a file that was looked at to its end."""
        return self.path.stat().st_size - self._starts[-1]

    def _read_on(self, at_least: int | None) -> None:
        found = self.path.stat()
        inode, known = self._state
        if inode != found.st_ino or found.st_size < known:
            self._starts, known = array("Q", [0]), 0
        with self.path.open("rb") as file:
            file.seek(known)
            while at_least is None or len(self._starts) <= at_least:
                block = file.read(BLOCK_BYTES)
                if not block:
                    break
                self._starts.extend(_starts(block, known))
                known += len(block)
        self._state = (found.st_ino, known)

    def read(self, first: int, count: int) -> Iterator[bytes]:
        """These lines, as far as there are any."""
        last = min(first + count, self.count(first + count))
        if first >= last:
            return
        with self.path.open("rb") as file:
            file.seek(self._starts[first])
            for _ in range(first, last):
                yield file.readline()

    def samples(self, first: int, count: int) -> Iterator[dict[str, Any]]:
        """The objects in these lines; an error that names the line which is not one."""
        for number, line in enumerate(self.read(first, count), start=first + 1):
            yield sample_of(line, self.path, number)


def _starts(block: bytes, offset: int) -> Iterator[int]:
    """Where lines start that begin after a line break in the block."""
    at = block.find(b"\n")
    while at >= 0:
        yield offset + at + 1
        at = block.find(b"\n", at + 1)


def sample_of(line: bytes, path: Path, number: int) -> dict[str, Any]:
    """The sample in one line."""
    try:
        sample = _loads(line)
    except (ValueError, RecursionError):
        raise damaged(path, number, "is not JSON") from None
    if not isinstance(sample, dict):
        raise damaged(path, number, "is not a sample: it holds no object")
    return sample


def _loads(line: bytes) -> Any:
    """JSON, by orjson where it is installed: four times as fast, and stricter about odd texts."""
    if _fast_loads is not None:
        try:
            return _fast_loads(line)
        except ValueError:  # lone surrogates, NaN
            pass
    return json.loads(line)


def _find_orjson() -> Any:
    try:
        import orjson
    except ImportError:
        return None
    return orjson.loads


_fast_loads = _find_orjson()


def file_state(path: Path) -> tuple[int, int] | None:
    """Size and time of a file, which change when its content does; None where it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
