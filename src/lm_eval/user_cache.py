"""The user's cache: where files are kept that can be made anew."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """This program's folder in it."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "lm-eval-formats"
