"""Where local data files are looked for: beside the YAML file, then in the current folder."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

from lm_eval.config.budget import BudgetError, bounded
from lm_eval.data.files import file_type
from lm_eval.errors import DataError, did_you_mean, listing


class Places:
    """The folders in which a relative path is looked for, in order."""

    def __init__(self, base_dir: Path | str | None) -> None:
        here = Path.cwd()
        first = here if base_dir is None else Path(base_dir)
        self.folders = [first] if first.resolve() == here.resolve() else [first, here]

    def find(self, written: str) -> Path | None:
        """The file or folder of that name, or None."""
        if "\0" in written:
            return None
        path = next((path for path in self._candidates(written) if path.exists()), None)
        if path is not None and not path.is_dir():
            _check_plain(path)
        return path

    def looks_like_path(self, written: str, suffixes: Collection[str]) -> bool:
        """Whether a file or folder is meant, rather than a name on the hub."""
        starts = written.startswith(("./", "../", "/", "~", ".\\", "..\\"))
        known = file_type(written) is not None or Path(written).suffix.lower() in suffixes
        return starts or known or written.endswith("/")

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
        """The message for a path that is nowhere: where it was looked for, and what is there."""
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
                names = _matching(str(pattern))
                files = [Path(name) for name in names if os.path.isfile(name)]
                if files:
                    return files
        raise DataError(self.missing(item, why=f" (data_files, split {split!r})"))


def _check_plain(path: Path) -> None:
    """Refuse devices, pipes and the system's own pages, which may have no end."""
    if not path.is_file() or path.resolve().is_relative_to("/proc"):
        raise DataError(
            f"{str(path)!r} is not a plain file but a device, a pipe or a page of the system. Copy what "
            "it holds into a file."
        )


def _matching(pattern: str) -> list[str]:
    try:
        return sorted(bounded(partial(glob.glob, pattern, recursive=True)))
    except (BudgetError, RecursionError):
        raise DataError(
            f"{pattern!r} (data_files) searches too many folders. Name the folder that holds the files."
        ) from None


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
