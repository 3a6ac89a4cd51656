"""Files: writing one whole or not at all, and the user's cache of files that can be made anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

PARTIAL = ".partial"
"""How the name of a file ends that is still being written."""


def cache_folder() -> Path:
    """This program's folder in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "lm-eval-formats"


def write_whole(path: Path, text: str) -> None:
    """Write ``text``; whatever fails, no half of it is ever found at ``path``."""
    with replacing(path) as file:
        file.write(text)


@contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """A file for the new content of ``path``, which replaces the old one once all of it is on disk.

    Folders are made as needed, and an error leaves everything as it was. A link or a device is written
    through, because a rename would put a file in its place.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        with _opened(path) as file:
            yield file
        return
    partial = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")
    try:
        with _opened(partial) as file:
            yield file
            sync(file)
        rename(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


def sync(file: IO[Any]) -> None:
    """Bring what was written to the disk itself."""
    file.flush()
    os.fsync(file.fileno())


def rename(partial: Path, path: Path) -> None:
    """Give a file its final name, durably where folders can be synced."""
    os.replace(partial, path)
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _opened(path: Path) -> IO[str]:
    return path.open("w", encoding="utf-8", newline="\n")
