"""One data file → rows, by file type: JSON, JSONL, CSV, TSV, text, Parquet, Arrow.

Text is not changed, and an error names the broken line. Each reader takes a path and options and returns
a ``Table``; ``READERS`` maps a type name (``json``, ``csv`` …) to its reader, ``file_type`` a file to a
type.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Any

from lm_eval.config.limits import check_data_size, max_data_bytes
from lm_eval.config.yaml import excerpt
from lm_eval.data.csv_rows import read_csv_text
from lm_eval.data.packed import RowCollector
from lm_eval.data.table import Table
from lm_eval.errors import DataError, MissingExtraError, did_you_mean, listing

SUFFIXES = {
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "text",
}
"""File name endings → type; one of ``COMPRESSED`` may follow those of texts."""
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
SPLIT_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""Split → the words that mean it in the names of files and folders."""
CANONICAL = {word: split for split, words in SPLIT_WORDS.items() for word in words}
"""A split's word → the split."""
NOT_DATA = frozenset(("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"))
"""Files that describe data and contain none."""

_PIECE_BYTES = 2**18
_ROWS_AT_ONCE = 1024
"""Rows of a Parquet file: a few bytes can repeat a long text in every row."""


@dataclass(frozen=True)
class FileReader:
    """How to read files of one type: the function, and its options."""

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
    """The type of a file by its name, or None."""
    path = Path(str(path).lower())
    return SUFFIXES.get(Path(path.stem).suffix if path.suffix in COMPRESSED else path.suffix)


def stem(path: Path) -> str:
    """A file's name without its endings."""
    return Path(path.stem).stem if path.suffix.lower() in COMPRESSED else path.stem


def read_file(path: Path, type_name: str, options: Mapping[str, Any]) -> Table:
    """The rows of one file."""
    return READERS[type_name].read(path, **options)


def _read_json(path: Path, *, field: str | None = None, encoding: str = "utf-8") -> Table:
    if field is None:
        try:
            return _json_lines(_lines_from(path, encoding), str(path))
        except _TROUBLE:
            pass  # a file of another shape, or a broken one: the whole text tells
    return read_json_text(_text(path, encoding), str(path), field=field)


def _lines_from(path: Path, encoding: str) -> Iterator[str]:
    """The lines of a file, read piece by piece."""
    decoder = codecs.getincrementaldecoder("utf-8-sig" if _is_utf8(encoding) else encoding)()
    size, begun = 0, [""]
    with _unpacking(path, path.suffix.lower()) as file:
        while piece := file.read(_PIECE_BYTES):
            size += len(piece)
            check_data_size(size, path)
            first, *others = decoder.decode(piece).split("\n")
            begun.append(first)
            if others:
                yield "".join(begun)
                begun = [others.pop()]
                yield from others
    yield "".join(begun) + decoder.decode(b"", final=True)


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
    pyarrow = _import_pyarrow(path)
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        names = [name for name in file.schema_arrow.names if columns is None or name in columns]
        return _rows_of_batches(
            file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns), names, path
        )
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}. Is it complete?") from None


def _read_arrow(path: Path) -> Table:
    """The rows of an Arrow file: a stream, as the ``datasets`` library saves it, or with a footer."""
    pyarrow = _import_pyarrow(path)
    from pyarrow import ipc

    try:
        with pyarrow.memory_map(str(path)) as source:
            try:
                batches = ipc.open_stream(source)
            except pyarrow.ArrowInvalid:
                file = ipc.open_file(source)
                return _rows_of_batches(
                    map(file.get_batch, range(file.num_record_batches)), file.schema.names, path
                )
            return _rows_of_batches(batches, batches.schema.names, path)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as Arrow: {error}. Is it complete?") from None


def _rows_of_batches(batches: Iterable[Any], names: list[str], path: Path) -> Table:
    if len(set(names)) < len(names):
        raise DataError(f"{path} has two columns of one name: {listing(names)}.")
    rows = RowCollector(names)
    size = 0
    for batch in batches:
        size += batch.nbytes
        check_data_size(size, path)
        rows.extend(batch.to_pylist())
    return Table.collected(rows)


def _import_pyarrow(path: Path) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(
            f"Reading {path} needs pyarrow, which is not installed.",
            install="pip install 'lm-eval-formats[parquet]'",
        ) from None
    return pyarrow


_CSV_OPTIONS = ("delimiter", "sep", "header", "column_names", "names", "quotechar", "quoting")
READERS: dict[str, FileReader] = {
    "json": FileReader(_read_json, ("field", "encoding")),
    "jsonl": FileReader(_read_json, ("field", "encoding")),
    "csv": FileReader(_read_csv, (*_CSV_OPTIONS, "encoding")),
    "tsv": FileReader(_read_tsv, (*_CSV_OPTIONS, "encoding")),
    "parquet": FileReader(_read_parquet, ("columns",)),
    "arrow": FileReader(_read_arrow),
    "text": FileReader(_read_lines, ("encoding", "keep_linebreaks")),
}


def _text(path: Path, encoding: str) -> str:
    data = _bytes(path)
    if not data.strip():
        raise DataError(f"{path} is empty. Give a file with rows, or leave the split out.")
    try:
        return data.decode("utf-8-sig" if _is_utf8(encoding) else encoding)
    except LookupError:
        raise DataError(
            f"dataset_kwargs.encoding is {encoding!r}, which Python does not know. "
            f"Examples: utf-8, utf-16, latin-1, cp1252."
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(_bad_bytes(path, data, error, encoding)) from None


def _is_utf8(encoding: str) -> bool:
    return encoding.lower().replace("_", "-") in ("utf-8", "utf8")


def _bytes(path: Path) -> bytes:
    kind = path.suffix.lower()
    try:
        with _unpacking(path, kind) as file:
            data: bytes = file.read(max_data_bytes() + 1)
        check_data_size(len(data), path)
        return data
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a complete gzip file: {error}.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None
    except _BROKEN as error:
        raise DataError(f"{path} is not a complete {kind} file: {error}.") from None


_BROKEN = (lzma.LZMAError, zlib.error, ValueError)
"""What unpacking raises; errors of pyarrow are ``ValueError``s."""
_TROUBLE = (OSError, EOFError, LookupError, RecursionError, *_BROKEN)
"""What reading JSON lines raises; reading the file whole gives a better message."""
_PACKED_BY: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def _unpacking(path: Path, kind: str) -> Any:
    """The bytes of a file as they were before it was compressed."""
    if kind == ".zst":
        return _import_pyarrow(path).input_stream(str(path), compression="zstd")
    return _PACKED_BY.get(kind, open)(path, "rb")


def _bad_bytes(path: Path, data: bytes, error: UnicodeDecodeError, encoding: str) -> str:
    line = data.count(b"\n", 0, error.start) + 1
    around = data[max(0, error.start - 20) : error.start + 20].decode("ascii", "backslashreplace")
    guess = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
    return (
        f"{path}, line {line}: byte 0x{data[min(error.start, len(data) - 1)]:02x} is not valid "
        f"{encoding.upper()}, near {around!r}. Save the file as UTF-8, or name its encoding: "
        f"dataset_kwargs: {{encoding: {guess}}}."
    )


class _DuplicateKeyError(ValueError):
    pass


class _NotLinesError(ValueError):
    """The first line is no row; holds the ``DataError`` about it."""


def read_json_text(text: str, source: str, *, field: str | None = None) -> Table:
    """The rows in ``text``. ``field`` names the key (``a.b`` for nested) that holds the list."""
    if field is not None:
        return _rows_of(_at_field(_decode(text, source), field, source), source)
    if text.lstrip().startswith("["):
        return _rows_of(_decode(text, source), source)
    try:
        return _json_lines(_lines(text), source)
    except _NotLinesError as error:
        _refuse_single_object(text, source)
        raise error.args[0] from None


def _json_lines(lines: Iterable[str], source: str) -> Table:
    """The rows of lines, of which few are in memory as text."""
    rows = RowCollector()
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        try:
            row = _DECODER.decode(line)
            problem = None if type(row) is dict else _not_an_object(row, f"{source}, line {number}")
        except (ValueError, RecursionError) as error:
            problem = _broken_json(error, line, source, number)
        if problem is not None:
            raise problem if len(rows) else _NotLinesError(problem)
        rows.add(row)
    if not len(rows):
        raise _NotLinesError(DataError(f"{source} is empty. Give a file with rows."))
    return Table.collected(rows)


def _lines(text: str) -> Iterator[str]:
    """One line after the other: a list of all would be a second copy of the file.

    Lines end only at "\\n": JSON strings may contain U+2028 and the like.
    """
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Each line is decoded separately, with a separate copy of every key.
    result = {intern(name): value for name, value in pairs}
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _DuplicateKeyError(f"the key {twice!r} occurs twice in one object")
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs)


def _decode(text: str, source: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise _broken_json(error, text, source, 1) from None


def _rows_of(value: Any, source: str) -> Table:
    if isinstance(value, dict) and value and all(isinstance(v, list) for v in value.values()):
        return Table.from_dict(value)
    if not isinstance(value, list):
        raise DataError(f"{source}: a list of objects is needed, not a {_kind(value)}.")
    for position, row in enumerate(value):
        if not isinstance(row, dict):
            raise _not_an_object(row, f"{source}, item {position + 1} of the list")
    return Table.owning(value)


def _at_field(value: Any, field: str, source: str) -> Any:
    if isinstance(value, dict) and field in value:
        return value[field]
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            keys = list(value) if isinstance(value, dict) else []
            raise DataError(
                f"{source} has no field {field!r}.{did_you_mean(key, keys)} "
                f"Keys there: {listing(keys)}."
            )
        value = value[key]
    return value


def _refuse_single_object(text: str, source: str) -> None:
    """Raise for a file that is one object over several lines; return for any other."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(value, Mapping):
        return
    lists = [key for key, item in value.items() if isinstance(item, list)]
    field = lists[0] if lists else "NAME"
    raise DataError(
        f"{source} is one JSON object over several lines, not a list of rows. Name the key that "
        f"holds the rows: dataset_kwargs: {{field: {field}}}. Keys with a list: {listing(lists)}."
    )


def _broken_json(error: Exception, text: str, source: str, first_line: int) -> DataError:
    if isinstance(error, json.JSONDecodeError):
        line = text[text.rfind("\n", 0, error.pos) + 1 :].partition("\n")[0]
        number = first_line + error.lineno - 1
        problem = error.msg.removesuffix(" at")
        return DataError(
            f"{source}, line {number}, column {error.colno}: broken JSON: {problem}.\n"
            f"{excerpt(line, error.colno - 1)}\nCorrect this line, or remove it."
        )
    if isinstance(error, RecursionError):
        problem = "nested too deeply"
    elif isinstance(error, _DuplicateKeyError):
        problem = f"{error}; remove one of the two"
    else:
        problem = "a number with too many digits; put it in quotes"
    where = source if "\n" in text else f"{source}, line {first_line}"
    return DataError(f"{where}: {problem}.\n{excerpt(text.partition(chr(10))[0], 0)}")


def _not_an_object(row: Any, where: str) -> DataError:
    shown = json.dumps(row)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}…"
    return DataError(
        f'{where}: each row must be an object such as {{"question": "…"}}, and this one is a '
        f"{_kind(row)}: {shown}"
    )


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "literal"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "text"
    return "list" if isinstance(value, list) else "object"
