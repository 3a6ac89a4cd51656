"""Names of models and tasks as names of folders and files."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from lm_eval.text.encode import text_hash

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
    """The safe form of a name; with a few digits of its hash where that form is taken.

    Forms that differ only in case count as the same, because on some file systems they are.
    """
    forms = {_folded(form) for form in taken}
    safe, digest = safe_task_name(name), text_hash(name)
    options = (f"{safe}-{digest[:length]}" for length in range(8, len(digest) + 1, 8))
    return next(form for form in (safe, *options) if _folded(form) not in forms)


def _short(safe: str, name: str) -> str:
    """A name that fits a file system's limit, with a hash where it was cut."""
    data = safe.encode("utf-8")
    if len(data) <= _MAX_NAME_BYTES:
        return safe
    return f"{data[:_MAX_NAME_BYTES].decode('utf-8', 'ignore')}-{text_hash(name)[:8]}"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
