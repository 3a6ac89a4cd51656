"""One data file → rows, by file type; and the errors that say which line is broken.

Text goes through unchanged. Each reader takes a path and its own options and returns a ``Table``;
``READERS`` maps a type name (``json``, ``csv`` …) to its reader, ``file_type`` a file to a type.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval.data.csv_rows import read_csv_text
from lm_eval.data.json_rows import read_json_text
from lm_eval.data.table import Table
from lm_eval.errors import DataError, MissingExtraError, did_you_mean, listing

SUFFIXES = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".txt": "text",
}
"""File name endings → type; ``.gz`` may follow each."""


@dataclass(frozen=True)
class FileReader:
    """How files of one type are read: the function, and the options it takes."""

    read: Callable[..., Table]
    options: tuple[str, ...] = ()

    def check_options(self, options: Mapping[str, Any], type_name: str) -> None:
        """Refuse an option that this type does not have."""
        for name in options:
            if name not in self.options:
                raise DataError(
                    f"dataset_kwargs has {name!r}, which {type_name} files do not take."
                    f"{did_you_mean(name, self.options)} Known: data_files, data_dir"
                    f"{''.join(f', {option}' for option in self.options)}."
                )


def file_type(path: str | Path) -> str | None:
    """The type that a file's name tells, or None."""
    path = Path(str(path).lower())
    return SUFFIXES.get(Path(path.stem).suffix if path.suffix == ".gz" else path.suffix)


def read_file(path: Path, type_name: str, options: Mapping[str, Any]) -> Table:
    """The rows of one file."""
    return READERS[type_name].read(path, **options)


def _read_json(path: Path, *, field: str | None = None, encoding: str = "utf-8") -> Table:
    return read_json_text(_text(path, encoding), str(path), field=field)


def _read_csv(path: Path, *, encoding: str = "utf-8", **options: Any) -> Table:
    return read_csv_text(_text(path, encoding), str(path), **options)


def _read_tsv(path: Path, **options: Any) -> Table:
    return _read_csv(path, **{"delimiter": "\t", **options})


def _read_lines(path: Path, *, encoding: str = "utf-8", keep_linebreaks: bool = False) -> Table:
    """One row per line, blank lines too, in a column ``text``."""
    lines = io.StringIO(_text(path, encoding), newline=None)
    rows = [{"text": line if keep_linebreaks else line.removesuffix("\n")} for line in lines]
    return Table.owning(rows)


def _read_parquet(path: Path, *, columns: list[str] | None = None) -> Table:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError(
            f"Reading {path} needs pyarrow, which is not installed.",
            install="pip install 'lm-eval-formats[parquet]'",
        ) from None
    try:
        data = parquet.ParquetFile(path).read(columns=columns)
        names = data.column_names
        if len(set(names)) < len(names):
            raise DataError(f"{path} has two columns of one name: {listing(names)}.")
        return Table.owning(data.to_pylist(), names)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}. Is it complete?") from None


_CSV_OPTIONS = ("delimiter", "sep", "header", "column_names", "names", "quotechar", "quoting")
READERS: dict[str, FileReader] = {
    "json": FileReader(_read_json, ("field", "encoding")),
    "jsonl": FileReader(_read_json, ("field", "encoding")),
    "csv": FileReader(_read_csv, (*_CSV_OPTIONS, "encoding")),
    "tsv": FileReader(_read_tsv, (*_CSV_OPTIONS, "encoding")),
    "parquet": FileReader(_read_parquet, ("columns",)),
    "text": FileReader(_read_lines, ("encoding", "keep_linebreaks")),
}


def _text(path: Path, encoding: str) -> str:
    data = _bytes(path)
    if not data.strip():
        raise DataError(f"{path} is empty. Give a file with rows, or leave the split out.")
    utf8 = encoding.lower().replace("_", "-") in ("utf-8", "utf8")
    try:
        return data.decode("utf-8-sig" if utf8 else encoding)
    except LookupError:
        raise DataError(
            f"dataset_kwargs.encoding is {encoding!r}, which Python does not know. "
            f"Examples: utf-8, utf-16, latin-1, cp1252."
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(_bad_bytes(path, data, error, encoding)) from None


def _bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix.lower() == ".gz" else data
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a complete gzip file: {error}.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


def _bad_bytes(path: Path, data: bytes, error: UnicodeDecodeError, encoding: str) -> str:
    line = data.count(b"\n", 0, error.start) + 1
    around = data[max(0, error.start - 20) : error.start + 20].decode("ascii", "backslashreplace")
    guess = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
    return (
        f"{path}, line {line}: byte 0x{data[min(error.start, len(data) - 1)]:02x} is not valid "
        f"{encoding.upper()}, near {around!r}. Save the file as UTF-8, or name its encoding: "
        f"dataset_kwargs: {{encoding: {guess}}}."
    )
