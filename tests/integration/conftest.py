"""Shared by tests of the command line in this process."""

from __future__ import annotations

import pytest

from lm_eval.text import progress


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine is slow enough to show progress; what a command prints must not depend on it."""
    monkeypatch.setattr(progress, "SHOW_AFTER_S", 3600.0)
