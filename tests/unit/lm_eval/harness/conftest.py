"""The peer's answers, and the cases they belong to."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PEER = Path(__file__).with_name("peer")


def _cases() -> ModuleType:
    spec = importlib.util.spec_from_file_location("harness_cases", PEER / "cases.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def cases() -> ModuleType:
    return _cases()


@pytest.fixture(scope="session")
def golden() -> Any:
    """Answers of lm_eval 0.4.13, written by ``peer/make_golden.py``."""
    return json.loads((PEER / "golden.json").read_text(encoding="utf-8"))
