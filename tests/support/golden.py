"""Golden files: compared by tests, and written only when asked with ``REGENERATE=1 pytest …``."""

from __future__ import annotations

import os
from pathlib import Path


def assert_golden(path: Path, text: str) -> None:
    """Compare ``text`` with the file; with ``REGENERATE`` set, write the file instead."""
    if os.environ.get("REGENERATE"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
