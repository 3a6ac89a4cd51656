"""The peer's answers, and the cases they belong to."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.modules import module_at

PEER = Path(__file__).with_name("peer")


@pytest.fixture(scope="session")
def cases() -> Any:
    return module_at(PEER / "cases.py")


@pytest.fixture(scope="session")
def golden() -> Any:
    """Answers of lm_eval 0.4.13, written by ``peer/make_golden.py``."""
    return json.loads((PEER / "golden.json").read_text(encoding="utf-8"))
