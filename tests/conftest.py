"""Shared by all tests: how hypothesis runs, and small fixtures."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from lm_eval.formats import compile as compiling
from lm_eval.registry import AGGREGATIONS, CHECKS, FORMATS, MODELS, READERS, TEMPLATES
from lm_eval.scoring.metrics import (
    METRICS,  # filled by then, or a test would take its metrics along
)

pytest.register_assert_rewrite("tests.support")  # a helper that fails says as much as a test

# No deadline: a loaded machine is no defect. On CI the same examples every time.
_SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("dev", deadline=None, max_examples=40, suppress_health_check=_SLOW)
settings.register_profile(
    "ci", parent=settings.get_profile("dev"), derandomize=True, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

# What tests and the processes they start keep in the user's cache goes with this session. Set before
# any test is imported: some libraries look where their cache is when they are.
_cache = tempfile.TemporaryDirectory(prefix="lm_eval_tests_")
os.environ["XDG_CACHE_HOME"] = _cache.name

# Nor does the terminal from which tests are started decide what is printed in them, nor its user's
# settings where they connect, with which key: what a test needs of these it sets itself.
_TERMINAL = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
for _name in list(os.environ):
    if _name in _TERMINAL or _name.lower().endswith(("_proxy", "_api_key")) or _name[:3] == "HF_":
        del os.environ[_name]

# A shell starts what runs in its background deaf to Ctrl-C, and so would be every process of a test.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests of models share the machine; threads that spin while they wait slow each other down.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Some virtual machines name instructions for half precision that end the process when they are used.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file below ``tmp_path``: text and bytes as they are, rows as JSON lines."""

    def write(name: str, content: str | bytes | Sequence[Mapping[str, Any]]) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, str | bytes):
            content = "".join(json.dumps(row) + "\n" for row in content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def own_registries() -> Iterator[None]:
    """What a test registers is forgotten after it."""
    compiling.format_names()
    registries = (*(AGGREGATIONS, CHECKS, FORMATS, METRICS, MODELS, READERS, TEMPLATES),)
    before = [(dict(r._entries), dict(r._places), r._entry_points_read) for r in registries]
    compiled = dict(compiling._COMPILED)
    yield
    for registry, (entries, places, was_read) in zip(registries, before, strict=True):
        registry._entries, registry._places = entries, places
        registry._entry_points_read = was_read
    compiling._COMPILED.clear()
    compiling._COMPILED.update(compiled)
