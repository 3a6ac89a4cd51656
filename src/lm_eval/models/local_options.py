"""What the backends on this machine share: checked arguments, and what identifies a file of weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lm_eval.errors import UsageError


def positive(name: str, value: Any, *, model: str, unit: str = "") -> int | None:
    """A whole number above 0, also if written as 1e9; None stays None."""
    if value is None:
        return None
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        of = f" of {unit}" if unit else ""
        raise UsageError(
            f"Model {model!r}: {name} must be a whole number{of} above 0, not {value!r}."
        )
    return number


def read_seed(value: Any, *, model: str) -> int:
    """A seed for sampling: any whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"Model {model!r}: seed must be a whole number, not {value!r}.")
    return value


def is_auto(batch_size: Any) -> bool:
    """Whether the backend chooses; ``auto:4`` of the harness is ``auto``."""
    return batch_size is None or str(batch_size).partition(":")[0] == "auto"


def check_each(
    model_args: Mapping[str, Any], checks: Mapping[str, Callable[[Any], object]]
) -> None:
    """Let the check of each argument that is given refuse its value."""
    for name, check in checks.items():
        if name in model_args:
            check(model_args[name])


def file_digest(path: Path) -> str:
    """Identifies a file: its SHA-256, or for a large one that of 16 blocks spread over it."""
    size = path.stat().st_size
    block = 2**20
    with path.open("rb") as file:
        if size <= 256 * block:
            digest = hashlib.sha256()
            while data := file.read(block):
                digest.update(data)
            return f"sha256:{digest.hexdigest()}"
        digest = hashlib.sha256(str(size).encode())
        for part in range(16):
            file.seek((size - block) * part // 15)
            digest.update(file.read(block))
    return f"sha256-of-16-blocks:{digest.hexdigest()}"
