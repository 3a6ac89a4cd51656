"""Which weights a local model has: the SHA-256 of each file, computed once.

Answers are stored under this digest, so it must change with every byte. Reading a large file takes a
while, so its digest is cached for as long as the file's size, times and inode are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from lm_eval.errors import ModelError, listing
from lm_eval.support.files import cache_folder, write_whole
from lm_eval.support.progress import Progress

KEPT_FROM_BYTES = 64 * 2**20
"""Digests of smaller files are not cached."""
_BLOCK = 8 * 2**20
_SETTLED_S = 2.0
"""A file that changed less than this long ago may change again under the same time stamp."""


def check_gguf(path: Path, argument: str) -> None:
    """Refuse a path, given with an argument of this name, where there is no GGUF file."""
    if path.is_dir():
        files = sorted(p.name for p in path.glob("*.gguf"))
        hint = f"It holds {listing(files, 5)}." if files else "It holds no .gguf file."
        raise ModelError(f"{path} is a folder, not a GGUF file. {hint} Give the file's path.")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except FileNotFoundError:
        raise ModelError(
            f"There is no file {path}. Check the path given with --model_args {argument}=…."
        ) from None
    except OSError as error:
        raise ModelError(f"Cannot read {path}: {error.strerror}. Check its permissions.") from error
    if magic != b"GGUF":
        raise ModelError(
            f"{path} is not a GGUF file (it begins with {magic!r}). Convert the model with "
            "llama.cpp's convert_hf_to_gguf.py, or download a .gguf file."
        )


def file_digests(files: Iterable[Path]) -> dict[Path, str]:
    """``sha256:…`` of each file."""
    files = list(files)
    blocks = sum(path.stat().st_size // _BLOCK + 1 for path in files)
    with (
        Progress("Hashing weights", total=blocks) as progress,
        ThreadPoolExecutor(min(len(files), os.cpu_count() or 1) or 1) as threads,
    ):
        return dict(
            zip(files, threads.map(lambda path: _digest(path, progress), files), strict=True)
        )


def file_digest(path: Path) -> str:
    """``sha256:…`` of one file."""
    return file_digests([path])[path]


def _digest(path: Path, progress: Progress) -> str:
    state = _state(path)
    if state["size"] < KEPT_FROM_BYTES:
        return _read(path, progress)
    note = (
        cache_folder()
        / "digests"
        / f"{hashlib.sha256(state['path'].encode()).hexdigest()[:32]}.json"
    )
    with suppress(OSError, ValueError):
        kept = json.loads(note.read_text(encoding="utf-8"))
        if isinstance(kept, dict) and {name: kept.get(name) for name in state} == state:
            progress.found(state["size"] // _BLOCK + 1)
            return str(kept["digest"])
    digest = _read(path, progress)
    settled = time.time_ns() - max(state["mtime_ns"], state["ctime_ns"]) > _SETTLED_S * 1e9
    if settled and _state(path) == state:
        with suppress(OSError):
            write_whole(note, json.dumps({**state, "digest": digest}))
    return digest


def _state(path: Path) -> dict[str, Any]:
    """What shows, without reading it, whether a file is still the same."""
    real = path.resolve()
    stat = real.stat()
    return {
        "path": str(real),
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "ctime_ns": stat.st_ctime_ns,
        "inode": stat.st_ino,
    }


def _read(path: Path, progress: Progress) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while data := file.read(_BLOCK):
            digest.update(data)
            progress.advance()
    return f"sha256:{digest.hexdigest()}"
