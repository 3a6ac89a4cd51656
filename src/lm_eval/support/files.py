"""Files that are written whole or not at all, and names that are safe for files and folders."""

from __future__ import annotations

import errno
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO, Any

from lm_eval.errors import OutputError
from lm_eval.support.encode import text_hash

PARTIAL = ".partial"
"""The ending of a file that is still being written; its writer holds a lock on it."""
_NUMBERS = count(1)
_ABANDONED = re.compile(r"\.\d+\.partial|samples_.*\.jsonl(?:\.sorted)?\.partial")


def cache_folder() -> Path:
    """This program's folder in the user's cache, created if missing; other users cannot read it.

    A folder that cannot be created or changed is reported when something is written into it.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(base) / "lm-eval-formats"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    return folder


def create_private(path: Path) -> None:
    """Create an empty file that only the user can read and write; one that exists is left alone."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def write_whole(path: Path, text: str) -> None:
    """Write ``text``; whatever fails, ``path`` never holds only a part of it."""
    with replacing(path) as file:
        file.write(text)


@contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """A file for the new content of ``path``, which replaces the old one once all of it is on disk.

    Folders are made as needed, and an error leaves everything as it was. A link or a device is written
    through, because a rename would replace it by a file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        with _opened(path) as file:
            yield file
        return
    partial = path.with_name(f"{path.name}.{os.getpid()}.{next(_NUMBERS)}{PARTIAL}")
    try:
        with open_held(partial) as file:
            yield file
            publish(file, partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink()
        raise


@contextmanager
def output_file(path: str | Path) -> Iterator[IO[str]]:
    """The file that ``--output_path`` names; an ``OutputError`` if it cannot be written."""
    try:
        with replacing(Path(path).expanduser()) as file:
            yield file
    except OSError as error:
        raise _unwritable(path, error.strerror) from None


def check_output_file(path: str | Path) -> None:
    """Raise an ``OutputError`` if this file clearly cannot be written later; nothing is created."""
    file = Path(path).expanduser()
    folder = next((parent for parent in file.absolute().parents if parent.exists()), file.parent)
    if file.is_dir():
        raise _unwritable(path, os.strerror(errno.EISDIR))
    if not folder.is_dir():
        raise _unwritable(path, os.strerror(errno.ENOTDIR))
    is_replaced = file.is_file() and not file.is_symlink()  # by another file in its folder
    if not os.access(file if file.exists() and not is_replaced else folder, os.W_OK):
        raise _unwritable(path, os.strerror(errno.EACCES))


def _unwritable(path: str | Path, reason: str | None) -> OutputError:
    return OutputError(f"{path} cannot be written: {reason}. Choose a place that you can write to.")


def write_output(path: str | Path, text: str) -> None:
    """Write ``text`` to the file that ``--output_path`` names."""
    with output_file(path) as file:
        file.write(text)


def open_held(path: Path, mode: str = "w") -> IO[Any]:
    """Create a file, and show other processes that it is being written."""
    file = _opened(path, mode)
    hold(file)
    return file


def hold(file: IO[Any]) -> None:
    """Show other processes, as far as the system can, that this file is being written."""
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)  # at once, or after a glance of another process


def is_held(path: Path) -> bool:
    """Whether a process is writing this file, as far as the system can tell."""
    try:
        import fcntl

        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (ImportError, OSError):
        return False
    return False


def remove_abandoned(folder: Path) -> None:
    """Remove the half-written files that processes left in a folder when they were killed."""
    with suppress(ImportError, OSError):
        import fcntl

        for path in folder.glob(f"*{PARTIAL}"):
            if _ABANDONED.search(path.name):
                with suppress(OSError), path.open("rb+") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.unlink()


def sync(file: IO[Any]) -> None:
    """Force what was written onto the disk."""
    file.flush()
    os.fsync(file.fileno())


def publish(file: IO[Any], partial: Path, path: Path) -> None:
    """Close a file that was written under a partial name, and give it its final one.

    It is held until it has that name, or other processes could take it for abandoned.
    """
    sync(file)
    if os.name == "nt":  # no locks, and no new name for a file that is open
        file.close()
    rename(partial, path)
    file.close()


def rename(partial: Path, path: Path) -> None:
    """Give a file its final name, durably if folders can be synced."""
    os.replace(partial, path)
    with suppress(OSError):
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _opened(path: Path, mode: str = "w") -> IO[Any]:
    if "b" in mode:
        return path.open(mode)
    return path.open(mode, encoding="utf-8", newline="\n")


# The characters that EleutherAI's harness replaces, and those that no file name can hold.
_UNSAFE_IN_MODEL = re.compile(r'["<>:/|\\?*\[\]\x00-\x1f\x7f\ud800-\udfff]+')
_UNSAFE_IN_TASK = re.compile(r"[^\w.@+=-]+")
_MAX_NAME_BYTES = 150


def safe_model_name(name: str) -> str:
    """A model's name as the name of a folder, as EleutherAI's harness writes it."""
    safe = _UNSAFE_IN_MODEL.sub("__", name).strip(" ")
    safe = _short(safe, name)
    return f"_{safe}" if safe.strip(".") == "" else safe


def safe_task_name(name: str) -> str:
    """``demo@mcq::gpqa`` → ``demo@mcq__gpqa``. Two names can give one: see ``unique_name``."""
    return _short(_UNSAFE_IN_TASK.sub("__", name), name)


def unique_name(name: str, taken: Iterable[str]) -> str:
    """The safe form of a name, with a few digits of its hash if that form is taken.

    Forms that differ only in case count as the same, because on some file systems they are.
    """
    forms = {_folded(form) for form in taken}
    safe, digest = safe_task_name(name), text_hash(name)
    options = (f"{safe}-{digest[:length]}" for length in range(8, len(digest) + 1, 8))
    return next(form for form in (safe, *options) if _folded(form) not in forms)


def _short(safe: str, name: str) -> str:
    """A name that fits a file system's limit, with a hash if it was cut."""
    data = safe.encode("utf-8")
    if len(data) <= _MAX_NAME_BYTES:
        return safe
    return f"{data[:_MAX_NAME_BYTES].decode('utf-8', 'ignore')}-{text_hash(name)[:8]}"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
