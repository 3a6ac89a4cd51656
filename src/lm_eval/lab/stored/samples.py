"""A samples file → its samples: all in order, or any by number without reading the file into memory.

In: a ``.jsonl`` file, complete or still growing. Out: its lines as objects, each checked.
``SampleLines`` keeps only the offset of each line, 8 bytes a line; if the file has grown, reading goes
on at its old end, and if it was replaced, reading starts again.
"""

from __future__ import annotations

import json
import os
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from threading import Lock
from types import NoneType
from typing import Any, BinaryIO, cast

from lm_eval.errors import ComparisonError, LmEvalWarning
from lm_eval.support.files import PARTIAL

BLOCK_BYTES = 1 << 24

_SHAPES: Mapping[str, tuple[type, ...]] = {
    "doc_id": (int,),
    "arguments": (dict, list, NoneType),
    "resps": (list, NoneType),
    "reading": (dict, NoneType),
    "readings": (list, NoneType),
    "read_with": (dict, NoneType),
}


def parsed_samples(lines: Iterable[bytes], path: Path) -> Iterator[dict[str, Any]]:
    """The samples in the lines of a file; an error names the first line that is not one."""
    for number, line in enumerate(lines, start=1):
        yield _parsed(line, path, number, json.loads)


def whole_samples(path: Path) -> Iterator[Mapping[str, Any]]:
    """The samples of one file; an incomplete last line is left out, with a warning."""
    lines = SampleLines(path)
    count = lines.count()
    if lines.rest_bytes:
        warnings.warn(
            f"{path}: the last line is not whole and is left out. The file is still being written, or "
            "was cut off.",
            LmEvalWarning,
            stacklevel=4,
        )
    for sample in lines.samples(0, count):
        if "doc_id" not in sample:
            raise ComparisonError(
                f"{path} is not a samples file: a line has no `doc_id`. Give one (samples_….jsonl), a "
                "results file, or the folder of a run."
            )
        yield sample


def _parsed(line: bytes, path: Path, number: int, loads: Callable[[bytes], Any]) -> dict[str, Any]:
    try:
        sample = loads(line)
    except (ValueError, RecursionError):
        raise _damaged(path, number, "is not JSON") from None
    flaw = _flaw(sample)
    if flaw is not None:
        raise _damaged(path, number, flaw)
    return cast("dict[str, Any]", sample)


def _flaw(sample: Any) -> str | None:
    """What is wrong with a sample; None if nothing is."""
    if not isinstance(sample, dict):
        return "is not a sample: it holds no object"
    for key, types in _SHAPES.items():
        if not isinstance(sample.get(key, 0 if key == "doc_id" else None), types):
            return f"is not a sample: `{key}` is {str(sample[key])[:40]!r}"
    return None


def _damaged(path: Path, line: int, flaw: str) -> ComparisonError:
    return ComparisonError(
        f"{path}, line {line} {flaw}. The file is damaged: run again, or delete the run."
    )


class SampleLines:
    """The complete lines of one file. Several threads may ask at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._starts = array("Q", [0])
        self._state: tuple[int, int] = (0, 0)
        """The inode of the file whose lines are known, and how many of its bytes were read."""
        self._lock = Lock()

    def count(self, at_least: int | None = None) -> int:
        """How many lines there are; counting stops once ``at_least`` of them are known.

        A last line without a line break is not counted: it is still being written, or was cut off.
        """
        file, starts = self._indexed(at_least)
        file.close()
        return len(starts) - 1

    def changed_at(self) -> float:
        """When the file was last written to."""
        with self._lock, self._opened() as file:
            return os.fstat(file.fileno()).st_mtime

    @property
    def rest_bytes(self) -> int:
        """Bytes after the last complete line; right once all lines were counted."""
        return self.path.stat().st_size - self._starts[-1]

    def _indexed(self, at_least: int | None) -> tuple[BinaryIO, array[int]]:
        """The open file and the offsets of its lines, which match even if the file is replaced."""
        with self._lock:
            try:
                file = self._opened()
                try:
                    self._read_on(file, at_least)
                except BaseException:
                    file.close()
                    raise
            except OSError as error:
                raise ComparisonError(f"{self.path} cannot be read: {error.strerror}.") from None
            return file, self._starts

    def _opened(self) -> BinaryIO:
        """The file; under its final name if its writer has renamed it by now."""
        try:
            return self.path.open("rb")
        except FileNotFoundError:
            if self.path.suffix != PARTIAL:
                raise
        final = self.path.with_suffix("")
        file = final.open("rb")
        self.path = final
        return file

    def _read_on(self, file: BinaryIO, at_least: int | None) -> None:
        status = os.fstat(file.fileno())
        inode, known = self._state
        if inode != status.st_ino or status.st_size < known:
            self._starts, known = array("Q", [0]), 0
        file.seek(known)
        while at_least is None or len(self._starts) <= at_least:
            block = file.read(BLOCK_BYTES)
            if not block:
                break
            self._starts.extend(_starts(block, known))
            known += len(block)
        self._state = (status.st_ino, known)

    def read(self, first: int, count: int) -> Iterator[bytes]:
        """These lines, or as many of them as there are."""
        file, starts = self._indexed(first + count)
        with file:
            last = min(first + count, len(starts) - 1)
            if first < last:
                file.seek(starts[first])
            for _ in range(first, last):
                yield file.readline()

    def samples(self, first: int, count: int) -> Iterator[dict[str, Any]]:
        """The samples in these lines; an error names the first line that is not one."""
        for number, line in enumerate(self.read(first, count), start=first + 1):
            yield _parsed(line, self.path, number, _loads)


def _starts(block: bytes, offset: int) -> Iterator[int]:
    """The offsets of the lines that follow a line break in the block."""
    index = block.find(b"\n")
    while index >= 0:
        yield offset + index + 1
        index = block.find(b"\n", index + 1)


def _loads(line: bytes) -> Any:
    """JSON, parsed by orjson if that is installed: four times as fast, and stricter about odd texts."""
    fast = _orjson()
    if fast is not None:
        try:
            return fast.loads(line)
        except ValueError:  # lone surrogates, NaN
            pass
    return json.loads(line)


@cache
def _orjson() -> Any:
    try:
        import orjson
    except ImportError:
        return None
    return orjson
