"""Settings of the hub: its address and the cache, from the variables of its own tools.

``HF_ENDPOINT`` is a mirror, ``HF_HUB_CACHE`` or ``HF_HOME`` the folder, and ``HF_HUB_OFFLINE`` forbids
the network. ``reading_from`` is ``--data_path``: a folder that ``lm-eval fetch --to`` has filled. The
token (``HF_TOKEN``, ``hf auth login``) is the library's business.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval.errors import DataError, UsageError

DATA_PATH_VARIABLE = "LM_EVAL_DATA_PATH"
"""``--data_path`` for programs that call this package."""
ENDPOINT = "https://huggingface.co"
_TRUE = ("1", "true", "yes", "on")
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


@dataclass(frozen=True)
class HubSettings:
    """The hub as this process sees it."""

    endpoint: str
    cache: Path
    """The folder of all data sets."""
    offline: str | None = None
    """Why the network is not used, such as ``HF_HUB_OFFLINE is set``; None if it is used."""
    is_copy: bool = False
    """Whether ``cache`` is a portable folder: plain files, no links."""
    copies_from: Path | None = None
    """Another folder whose files need not be fetched again."""


class _DataPath:
    """The folders of ``--data_path`` and ``fetch --to``, while a command runs."""

    folder: Path | None = None
    target: Path | None = None


RUNS: dict[HubSettings, Any] = {}
"""What is known about a hub, until a run begins or ends."""


@contextmanager
def reading_from(folder: str | Path | None) -> Iterator[None]:
    """Read data sets of the hub only from this folder; None: from the hub and its cache.

    Earlier answers of the hub are forgotten, so that each run sees the hub as it is.
    """
    path = None if folder is None else Path(folder).expanduser()
    if path is not None and not path.is_dir():
        raise UsageError(
            f"--data_path: there is no folder {str(folder)!r}. Make one where there is a network: "
            f"`lm-eval fetch TASKS --to {folder}`."
        )
    before, _DataPath.folder = _DataPath.folder, path
    try:
        RUNS.clear()
        yield
    finally:
        _DataPath.folder = before
        RUNS.clear()


@contextmanager
def fetching_to(folder: str | Path | None) -> Iterator[None]:
    """Fetch data sets of the hub to this folder; None: to the cache."""
    before, _DataPath.target = _DataPath.target, None
    try:
        RUNS.clear()
        _DataPath.target = None if folder is None else Path(folder).expanduser()
        yield
    finally:
        _DataPath.target = before
        RUNS.clear()


def hub_settings() -> HubSettings:
    """The current settings, from the environment and ``--data_path``."""
    endpoint = _endpoint()
    folder = _DataPath.folder or os.environ.get(DATA_PATH_VARIABLE)
    if folder and _DataPath.target is None:
        path = Path(folder).expanduser()
        return HubSettings(endpoint, path, "only that folder is used", is_copy=True)
    named = next((n for n in _OFFLINE if os.environ.get(n, "").lower() in _TRUE), None)
    offline = named and f"{named} is set"
    if _DataPath.target is not None:
        target, cache = _DataPath.target, cache_of_hub()
        return HubSettings(endpoint, target, offline, is_copy=True, copies_from=cache)
    return HubSettings(endpoint, cache_of_hub(), offline)


def cache_of_hub() -> Path:
    """The folder in which the hub's own tools keep what they download."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    return _home() / "hub"


def _home() -> Path:
    home = os.environ.get("HF_HOME")
    if home:
        return Path(home).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "huggingface"


def _endpoint() -> str:
    written = os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or ENDPOINT
    if not re.fullmatch(
        r"https?://(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::\d+)?(?:/[^?#@\s]*)?", written
    ):
        raise DataError(
            f"HF_ENDPOINT must be the address of a hub, such as {ENDPOINT}, without a user, `?` or `#`. "
            "Correct it, or unset it."
        )
    return written
