"""A task's ``dataset_path``, ``dataset_name`` and ``dataset_kwargs`` → its splits, read on demand.

A path is a file type with ``data_files``, a data file, a folder of files named by split, or else a
name on the Hugging Face hub. Local files are looked for beside the YAML file, then in the current
folder.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, overload

from lm_eval.data.columns import check_columns
from lm_eval.data.files import READERS, SUFFIXES, file_type, read_file
from lm_eval.data.hub.library import load_from_hub, with_dates
from lm_eval.data.paths import Places
from lm_eval.data.table import Table
from lm_eval.errors import DataError, LmEvalWarning, did_you_mean, listing

T = TypeVar("T")
Loader = Callable[[], Table]

_SYNONYMS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_CANONICAL = {word: split for split, words in _SYNONYMS.items() for word in words}
_SHARD = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?")
_NOT_DATA = frozenset(
    ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
)
_HUB_ONLY = frozenset(
    ("trust_remote_code", "cache_dir", "revision", "streaming", "download_mode", "token",
     "verification_mode", "num_proc", "keep_in_memory", "save_infos")
)  # fmt: skip


def _nothing() -> None:
    """What a change calls where nobody wants to know of it."""


class Splits(Mapping[str, Table]):
    """Split name → ``Table``; a split's files are read when it is first asked for.

    ``any_name`` is a loader that answers to whatever name comes first, for data that is one file.
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
        """What is called when a split is replaced."""
        self.columns: Any = None
        """The columns that every split must have, as a task file states them."""

    @property
    def names(self) -> list[str]:
        """The splits there are; empty for a single file that nobody has named yet."""
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
        self._loaders[split] = lambda: table
        self._tables[split] = table
        self.on_change()

    def __contains__(self, name: object) -> bool:
        is_unnamed = self._any_name is not None and not self._loaders
        return is_unnamed or self._find(str(name)) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self._loaders)

    @overload
    def get(self, name: str, /) -> Table | None: ...
    @overload
    def get(self, name: str, /, default: T) -> Table | T: ...
    def get(self, name: str, /, default: Any = None) -> Any:
        """The split, or ``default`` where there is none of that name."""
        if name not in self:
            return default
        return self[name]

    def __repr__(self) -> str:
        return f"Splits({self.source}: {listing(self.names)})"

    def reading_by(self, change: Callable[[Loader], Loader]) -> Splits:
        """The same splits, each read by its changed loader."""
        return Splits(
            {name: change(loader) for name, loader in self._loaders.items()},
            self.source,
            any_name=None if self._any_name is None else change(self._any_name),
            synonyms=self._synonyms,
        )

    def _find(self, name: str) -> str | None:
        if name in self._loaders:
            return name
        if self._synonyms and name in _CANONICAL:
            return _CANONICAL[name] if _CANONICAL[name] in self._loaders else None
        return None

    def _read(self, name: str) -> Table:
        table = self._loaders[name]()
        if not len(table):
            raise DataError(f"{self.source}: the split {name!r} has no rows. Give it some.")
        if self.columns is not None:
            check_columns(table, self.columns, source=self.source, split=name)
        return table

    def _missing(self, name: str) -> str:
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


def is_on_hub(
    dataset_path: str,
    dataset_name: str | None = None,
    dataset_kwargs: Mapping[str, Any] | None = None,
    *,
    base_dir: Path | str | None = None,
) -> bool:
    """Whether ``load_splits`` would ask the hub (or another server) rather than read local files."""
    if dataset_path in READERS:
        return _has_url((dataset_kwargs or {}).get("data_files"))
    places = Places(base_dir)
    path = places.find(dataset_path)
    if path is None:
        return not places.looks_like_path(dataset_path, SUFFIXES)
    return not path.is_file() and not _is_data_folder(path, dataset_path, dataset_name)


def load_splits(
    dataset_path: str,
    dataset_name: str | None = None,
    dataset_kwargs: Mapping[str, Any] | None = None,
    *,
    revision: str | None = None,
    files: Any = None,
    base_dir: Path | str | None = None,
    reads_dates: bool = False,
) -> Splits:
    """The splits of a dataset; nothing local is read yet, but every named file must exist.

    ``base_dir`` is the folder of the task's YAML file. ``dataset_name`` chooses a subfolder of a
    local folder or a configuration on the hub; for plain files it means nothing. ``revision`` and
    ``files`` (split → names or patterns) choose a commit and files of a data set on the hub; a
    local folder has files alone. ``reads_dates`` makes dates of date strings in JSON, as the
    ``datasets`` library does.
    """
    if not isinstance(dataset_path, str) or not dataset_path.strip():
        raise DataError(f"dataset_path is {dataset_path!r}; it needs a file, a folder or a name.")
    kwargs = dict(dataset_kwargs or {})
    if files is not None:
        _add_files(kwargs, files, dataset_path)
    if is_on_hub(dataset_path, dataset_name, kwargs, base_dir=base_dir):
        if revision is not None:
            kwargs["revision"] = revision
        return _from_hub(dataset_path, dataset_name, kwargs)
    if revision is not None:
        warnings.warn(
            f"{dataset_path} is read from this machine, so dataset_revision ({revision}) says nothing "
            "of it.",
            LmEvalWarning,
            stacklevel=2,
        )
    local = _local_splits(dataset_path, dataset_name, _local_options(kwargs), Places(base_dir))
    return _with_dates(local) if reads_dates else local


def _add_files(kwargs: dict[str, Any], files: Any, dataset_path: str) -> None:
    """``dataset_files`` as ``data_files``, the older spelling."""
    if dataset_path in READERS or "data_files" in kwargs:
        raise DataError(
            "dataset_files names files of a data set on the hub or of a folder. With "
            f"`dataset_path: {dataset_path}`, use dataset_kwargs: {{data_files: …}} alone."
        )
    kwargs["data_files"] = dict(files) if isinstance(files, Mapping) else files


def _local_splits(
    dataset_path: str, name: str | None, options: dict[str, Any], places: Places
) -> Splits:
    if dataset_path in READERS:
        return _from_data_files(dataset_path, options, places)
    path = places.find(dataset_path)
    if path is None:
        raise DataError(places.missing(dataset_path))
    return _from_file(path, options) if path.is_file() else _from_folder(path, name, options)


def _local_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    ignored = sorted(_HUB_ONLY & kwargs.keys())
    if ignored:
        import logging

        names = ", ".join(ignored)
        logging.getLogger(__name__).info("dataset_kwargs %s mean nothing for local files.", names)
    return {name: value for name, value in kwargs.items() if name not in _HUB_ONLY}


def _has_url(data_files: Any) -> bool:
    if isinstance(data_files, Mapping):
        return any(map(_has_url, data_files.values()))
    if isinstance(data_files, (list, tuple)):
        return any(map(_has_url, data_files))
    return isinstance(data_files, str) and "://" in data_files


def _from_data_files(type_name: str, options: dict[str, Any], places: Places) -> Splits:
    data_files, data_dir = options.pop("data_files", None), options.pop("data_dir", None)
    READERS[type_name].check_options(options, type_name)
    if data_dir is not None:
        folder = places.find(str(data_dir))
        if folder is None or not folder.is_dir():
            raise DataError(places.missing(str(data_dir), what="folder"))
        if data_files is None:
            return _from_folder(folder, None, options, type_name)
        places = Places(folder)
    if not data_files:
        raise DataError(
            f"dataset_path: {type_name} needs to know its files: dataset_kwargs: "
            f"{{data_files: {{test: test.{type_name}}}}}."
        )
    by_split = data_files if isinstance(data_files, Mapping) else {"train": data_files}
    loaders = {
        _split_name(split): _Files(places.expand(entry, split), options, type_name)
        for split, entry in by_split.items()
    }
    return Splits(loaders, f"dataset_kwargs.data_files ({type_name})")


def _split_name(split: Any) -> str:
    if not isinstance(split, str):
        raise DataError(f"data_files has the split {split!r}, which is not a text. Quote it.")
    return split


def _from_file(path: Path, options: dict[str, Any]) -> Splits:
    type_name = _type_of(path)
    data_files = options.pop("data_files", None)
    if data_files is not None:
        raise DataError(
            f"dataset_path is the file {path}, and dataset_kwargs.data_files names files as well. "
            f"Use `dataset_path: {type_name}` with data_files."
        )
    READERS[type_name].check_options(options, type_name)
    return Splits({}, str(path), any_name=_Files([path], options, type_name))


def _type_of(path: Path) -> str:
    type_name = file_type(path)
    if type_name is None:
        raise DataError(
            f"{path}: the ending {path.suffix!r} tells no file type. Known: {listing(SUFFIXES)} "
            f"(also with .gz). Or use `dataset_path: json` with dataset_kwargs.data_files."
        )
    return type_name


def _with_dates(splits: Splits) -> Splits:
    return splits.reading_by(
        lambda load: replace(load, dates=True) if isinstance(load, _Files) else load
    )


@dataclass(frozen=True)
class _Files:
    """Reads ``paths`` in order into one table; without a type, each file's name tells its own."""

    paths: list[Path]
    options: Mapping[str, Any]
    type_name: str | None
    dates: bool = False

    def __call__(self) -> Table:
        kinds = [self.type_name or _type_of(path) for path in self.paths]
        tables = [
            read_file(path, kind, self.options)
            for path, kind in zip(self.paths, kinds, strict=True)
        ]
        table = tables[0]
        if len(tables) > 1:
            columns = [name for table in tables for name in table.column_names]
            table = Table.owning([row for table in tables for row in table], columns)
        # The library reads a list under a `field` in another way, which makes no dates.
        has_dates = self.dates and {*kinds} <= {"json", "jsonl"} and "field" not in self.options
        return with_dates(table) if has_dates else table


# --- folders --------------------------------------------------------------------------------------


def _is_data_folder(path: Path, written: str, name: str | None) -> bool:
    """Whether a folder is meant, and not a hub dataset that shares its name."""
    if written.startswith((".", "/", "~")) or written.endswith("/"):
        return True
    return bool(_data_files_in(path / name if name and (path / name).is_dir() else path))


def _from_folder(
    folder: Path, name: str | None, options: dict[str, Any], type_name: str | None = None
) -> Splits:
    if "data_files" in options:
        return _from_data_files(_single_type(options, folder), options, Places(folder))
    folder = _subfolder(folder, name)
    groups = _by_split(_data_files_in(folder, type_name), folder)
    if not groups:
        raise DataError(
            f"The folder {folder} holds no data files. Name them by split, such as test.jsonl or "
            f"train.csv; known endings: {listing(SUFFIXES)}. It holds: "
            f"{listing(sorted(path.name for path in folder.iterdir()), 8)}."
        )
    loaders = {}
    for split, paths in groups.items():
        for kind in sorted({type_name or _type_of(path) for path in paths}):
            READERS[kind].check_options(options, kind)
        loaders[split] = _Files(paths, options, type_name)
    return Splits(loaders, str(folder), synonyms=True)


def _single_type(options: Mapping[str, Any], folder: Path) -> str:
    text = str(options["data_files"])
    types = {SUFFIXES[match] for match in re.findall(r"\.\w+", text) if match in SUFFIXES}
    if len(types) != 1:
        raise DataError(
            f"dataset_path is the folder {folder}; its data_files must be of one known type "
            f"({listing(SUFFIXES)}). Or use `dataset_path: json` with data_files."
        )
    return types.pop()


def _subfolder(folder: Path, name: str | None) -> Path:
    if name is None or name == "default":
        return folder
    if (folder / name).is_dir():
        return folder / name
    inside = sorted(path.name for path in folder.iterdir() if path.is_dir())
    raise DataError(
        f"dataset_name is {name!r}, and the folder {folder} has no such subfolder."
        f"{did_you_mean(name, inside)} Subfolders: {listing(inside)}. "
        f"Leave dataset_name out to use the folder itself."
    )


def _data_files_in(folder: Path, type_name: str | None = None) -> list[Path]:
    """The data files of a folder, its ``data/`` folder and its folders named by split."""
    if not folder.is_dir():
        return []
    files: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")) or path.name in _NOT_DATA:
            continue
        if path.is_dir() and (path.name == "data" or path.name in _CANONICAL):
            files += _data_files_in(path, type_name)
        elif path.is_file() and _is_data(path, type_name):
            files.append(path)
    return files


def _is_data(path: Path, type_name: str | None) -> bool:
    kind = file_type(path)
    if kind == "text":  # README.txt and the like are not docs
        return type_name == "text" or _stem(path) in _CANONICAL
    wanted = "json" if type_name == "jsonl" else type_name
    return kind is not None and wanted in (None, kind)


def _by_split(files: list[Path], folder: Path) -> dict[str, list[Path]]:
    labels: dict[str, list[Path]] = {}
    for path in files:
        labels.setdefault(_label(path, folder), []).append(path)
    for label, paths in labels.items():
        if len(paths) > 1 and not all(_is_shard(path, folder) for path in paths):
            raise DataError(
                f"The folder {folder} has several files for the split {label!r}: "
                f"{listing(path.name for path in paths)}. Keep one, or name the files in "
                f"dataset_kwargs.data_files."
            )
    canonical = [_CANONICAL.get(label, label) for label in labels]
    unique = {name for name in canonical if canonical.count(name) == 1}
    return {
        name if name in unique else label: paths
        for (label, paths), name in zip(labels.items(), canonical, strict=True)
    }


def _label(path: Path, folder: Path) -> str:
    """The split that a file's name tells: its shard's, one split word in it, or the whole name."""
    parent = path.parent
    if parent != folder and parent.name in _CANONICAL:
        return parent.name
    stem = _stem(path)
    shard = _SHARD.fullmatch(stem)
    if shard:
        return shard["split"]
    words = [word for word in re.split(r"[-._ \d]+", stem.lower()) if word in _CANONICAL]
    return words[0] if len(words) == 1 else stem


def _is_shard(path: Path, folder: Path) -> bool:
    in_split_folder = path.parent != folder and path.parent.name in _CANONICAL
    return in_split_folder or _SHARD.fullmatch(_stem(path)) is not None


def _stem(path: Path) -> str:
    return Path(path.stem).stem if path.suffix.lower() == ".gz" else path.stem


# --- the hub --------------------------------------------------------------------------------------


def _from_hub(path: str, name: str | None, kwargs: dict[str, Any]) -> Splits:
    if path == "tsv":  # a spelling of ours; the library knows csv with another separator
        kwargs = {"sep": "\t", **kwargs}
    found = load_from_hub({"jsonl": "json", "tsv": "csv"}.get(path, path), name, kwargs)
    source = f"The dataset {path!r}" + (f" ({name})" if name else "")
    if isinstance(found, Mapping):
        return Splits(found, source)
    return Splits({}, source, any_name=found)
