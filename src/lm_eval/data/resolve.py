"""A task's ``dataset_path``, ``dataset_name`` and ``dataset_kwargs`` → its splits, read on demand.

A path is a file type with ``data_files``, a data file, a folder of files named by split, or else a
name on the Hugging Face hub. Local files are looked for beside the YAML file, then in the current
folder.
"""

from __future__ import annotations

import glob
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lm_eval.data.files import CANONICAL, NOT_DATA, READERS, SUFFIXES, file_type, stem
from lm_eval.data.splits import HUB_ONLY, FileLoader, Splits, type_of
from lm_eval.data.table import Table
from lm_eval.errors import DataError, LmEvalWarning, did_you_mean, listing

_SHARD = re.compile(r"(?P<split>.+?)-\d{5}-of-\d{5}(?:-[0-9a-f]+)?")


def is_on_hub(
    dataset_path: str,
    dataset_name: str | None = None,
    dataset_kwargs: Mapping[str, Any] | None = None,
    *,
    base_dir: Path | str | None = None,
) -> bool:
    """Whether ``load_splits`` would use the hub (or another server) rather than local files."""
    if dataset_path in READERS:
        return _has_url((dataset_kwargs or {}).get("data_files"))
    search = SearchPath(base_dir)
    path = search.find(dataset_path)
    if path is None:
        return not _looks_like_path(dataset_path)
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
    has_media: bool = False,
    is_private: bool = False,
) -> Splits:
    """The splits of a dataset; nothing local is read yet, but every named file must exist.

    ``base_dir`` is the folder of the task's YAML file. ``dataset_name`` chooses a subfolder of a
    local folder or a configuration on the hub; for plain files it has no meaning. ``revision`` and
    ``files`` (split → names or patterns) choose a commit and files of a data set on the hub; for a
    local folder, only ``files`` applies. ``reads_dates`` turns date strings in JSON into dates, as the
    ``datasets`` library does. ``has_media``: rows contain images or audio, which that library decodes.
    ``is_private``: rows may be changed, so they are not shared with other tasks.
    """
    kwargs = dict(dataset_kwargs or {})
    if files is not None:
        _add_files(kwargs, files, dataset_path)
    if is_on_hub(dataset_path, dataset_name, kwargs, base_dir=base_dir):
        from lm_eval.data.hub.load import splits_on_hub

        if revision is not None:
            kwargs["revision"] = revision
        splits = splits_on_hub(dataset_path, dataset_name, kwargs, has_media=has_media)
        return _read_by(splits, dates=reads_dates, is_private=is_private)
    if revision is not None:
        warnings.warn(
            f"{dataset_path} is read from this machine, so dataset_revision ({revision}) says nothing "
            "of it.",
            LmEvalWarning,
            stacklevel=2,
        )
    local = _local_splits(dataset_path, dataset_name, _local_options(kwargs), SearchPath(base_dir))
    return _read_by(local, dates=reads_dates, is_private=is_private)


def _add_files(kwargs: dict[str, Any], files: Any, dataset_path: str) -> None:
    """``dataset_files`` as ``data_files``, the older spelling."""
    if dataset_path in READERS or "data_files" in kwargs:
        raise DataError(
            "dataset_files names files of a data set on the hub or of a folder. With "
            f"`dataset_path: {dataset_path}`, use dataset_kwargs: {{data_files: …}} alone."
        )
    kwargs["data_files"] = dict(files) if isinstance(files, Mapping) else files


def _local_splits(
    dataset_path: str, name: str | None, options: dict[str, Any], search: SearchPath
) -> Splits:
    if dataset_path in READERS:
        return _from_data_files(dataset_path, options, search)
    path = search.find(dataset_path)
    if path is None:
        raise DataError(search.missing(dataset_path))
    return _from_file(path, options) if path.is_file() else _from_folder(path, name, options)


def _local_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    ignored = sorted(HUB_ONLY & kwargs.keys())
    if ignored:
        import logging

        names = ", ".join(ignored)
        logging.getLogger(__name__).info("dataset_kwargs %s mean nothing for local files.", names)
    return {name: value for name, value in kwargs.items() if name not in HUB_ONLY}


def _has_url(data_files: Any) -> bool:
    if isinstance(data_files, Mapping):
        return any(map(_has_url, data_files.values()))
    if isinstance(data_files, (list, tuple)):
        return any(map(_has_url, data_files))
    return isinstance(data_files, str) and "://" in data_files


def _from_data_files(type_name: str, options: dict[str, Any], search: SearchPath) -> Splits:
    data_files, data_dir = options.pop("data_files", None), options.pop("data_dir", None)
    READERS[type_name].check_options(options, type_name)
    if data_dir is not None:
        folder = search.find(str(data_dir))
        if folder is None or not folder.is_dir():
            raise DataError(search.missing(str(data_dir), what="folder"))
        if data_files is None:
            return _from_folder(folder, None, options, type_name)
        search = SearchPath(folder)
    if not data_files:
        raise DataError(
            f"dataset_path: {type_name} needs to know its files: dataset_kwargs: "
            f"{{data_files: {{test: test.{type_name}}}}}."
        )
    by_split = data_files if isinstance(data_files, Mapping) else {"train": data_files}
    loaders = {
        str(split): FileLoader(search.expand(entry, split), options, type_name)
        for split, entry in by_split.items()
    }
    return Splits(loaders, f"dataset_kwargs.data_files ({type_name})")


def _from_file(path: Path, options: dict[str, Any]) -> Splits:
    type_name = type_of(path)
    data_files = options.pop("data_files", None)
    if data_files is not None:
        raise DataError(
            f"dataset_path is the file {path}, and dataset_kwargs.data_files names files as well. "
            f"Use `dataset_path: {type_name}` with data_files."
        )
    READERS[type_name].check_options(options, type_name)
    return Splits({}, str(path), any_name=FileLoader([path], options, type_name))


def _read_by(splits: Splits, *, dates: bool, is_private: bool) -> Splits:
    """The same splits, with their files read in this way."""
    if not dates and not is_private:
        return splits

    def change(load: Callable[[], Table]) -> Callable[[], Table]:
        if not isinstance(load, FileLoader):
            return load
        return replace(load, dates=dates, is_private=is_private)

    return splits.reading_by(change)


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
        return _from_data_files(_single_type(options, folder), options, SearchPath(folder))
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
        for kind in sorted({type_name or type_of(path) for path in paths}):
            READERS[kind].check_options(options, kind)
        loaders[split] = FileLoader(paths, options, type_name)
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
        if path.name.startswith((".", "_")) or path.name in NOT_DATA:
            continue
        if path.is_dir() and (path.name == "data" or path.name in CANONICAL):
            files += _data_files_in(path, type_name)
        elif path.is_file() and _is_data(path, type_name):
            files.append(path)
    return files


def _is_data(path: Path, type_name: str | None) -> bool:
    kind = file_type(path)
    if kind == "text":  # README.txt and the like are not docs
        return type_name == "text" or stem(path) in CANONICAL
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
    canonical = [CANONICAL.get(label, label) for label in labels]
    unique = {name for name in canonical if canonical.count(name) == 1}
    return {
        name if name in unique else label: paths
        for (label, paths), name in zip(labels.items(), canonical, strict=True)
    }


def _label(path: Path, folder: Path) -> str:
    """The split of a file by its name: the name of its shards, the split word in it, or all of it."""
    parent = path.parent
    if parent != folder and parent.name in CANONICAL:
        return parent.name
    name = stem(path)
    shard = _SHARD.fullmatch(name)
    if shard:
        return shard["split"]
    words = [word for word in re.split(r"[-._ \d]+", name.lower()) if word in CANONICAL]
    return words[0] if len(words) == 1 else name


def _is_shard(path: Path, folder: Path) -> bool:
    in_split_folder = path.parent != folder and path.parent.name in CANONICAL
    return in_split_folder or _SHARD.fullmatch(stem(path)) is not None


# Local data files: beside the YAML file, then in the current folder


class SearchPath:
    """The folders in which to look for a relative path, in order."""

    def __init__(self, base_dir: Path | str | None) -> None:
        current = Path.cwd()
        first = current if base_dir is None else Path(base_dir)
        self.folders = [first] if first.resolve() == current.resolve() else [first, current]

    def find(self, written: str) -> Path | None:
        """The file or folder of that name, or None."""
        if "\0" in written:
            return None
        path = next((path for path in self._candidates(written) if path.exists()), None)
        if path is not None and not path.is_file() and not path.is_dir():
            raise DataError(f"{written!r} is a device or a pipe. Copy what it holds into a file.")
        return path

    def expand(self, entry: Any, split: str) -> list[Path]:
        """The files of one ``data_files`` entry: a name, a pattern, or a list of them."""
        entries = entry if isinstance(entry, (list, tuple)) else [entry]
        paths: list[Path] = []
        for item in entries:
            if not isinstance(item, str) or not item:
                raise DataError(
                    f"data_files for the split {split!r} takes file names, not {item!r}."
                )
            paths += self._expand_one(item, split)
        if not paths:
            raise DataError(f"data_files names no file for the split {split!r}.")
        return paths

    def missing(self, written: str, *, what: str = "file", why: str = "") -> str:
        """The message for a missing path: where it was looked for, and what is there."""
        candidates = self._candidates(written)
        name = candidates[0].name
        there = [_names_in(path.parent) for path in candidates]
        hint = next((text for names in there if (text := did_you_mean(name, names))), "")
        looked = listing(str(path) for path in candidates)
        folder, names = next(
            ((p.parent, n) for p, n in zip(candidates, there, strict=True) if n),
            (candidates[0].parent, []),
        )
        return (
            f"Missing {what} {written!r}{why}.{hint} Looked for: {looked}. "
            f"In {folder}: {_shown(names)}. Paths are relative to the task's YAML file."
        )

    def _candidates(self, written: str) -> list[Path]:
        expanded = os.path.expanduser(written)
        if os.path.isabs(expanded):
            return [Path(expanded)]
        return [folder / expanded for folder in self.folders]

    def _expand_one(self, item: str, split: str) -> list[Path]:
        path = self.find(item)
        if path is not None and path.is_file():
            return [path]
        if path is not None and path.is_dir():
            raise DataError(
                f"{item!r} (data_files, split {split!r}) is a folder, not a file. Name the files in "
                f"it, such as {_example_in(path, item)!r}. In {path}: {_shown(_names_in(path))}."
            )
        if path is None and glob.has_magic(item):
            for pattern in self._candidates(item):
                names = sorted(glob.glob(str(pattern), recursive=True))
                files = [Path(name) for name in names if os.path.isfile(name)]
                if files:
                    return files
        raise DataError(self.missing(item, why=f" (data_files, split {split!r})"))


def _looks_like_path(written: str) -> bool:
    """Whether a file or folder is meant, rather than a name on the hub."""
    starts = written.startswith(("./", "../", "/", "~", ".\\", "..\\"))
    return starts or written.endswith("/") or file_type(written) is not None


def _shown(names: list[str]) -> str:
    return listing(names, 8) if names else "nothing, or there is no such folder"


def _example_in(folder: Path, written: str) -> str:
    """A pattern for the data files in ``folder``."""
    suffixes = [Path(name).suffix for name in _names_in(folder) if file_type(name) is not None]
    return f"{written.rstrip('/')}/*{suffixes[0] if suffixes else '.jsonl'}"


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except (OSError, ValueError):
        return []
