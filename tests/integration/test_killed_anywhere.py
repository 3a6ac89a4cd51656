"""A run that is killed at any sync, rename or SQL statement goes on to the files of a clean run."""

from __future__ import annotations

import os
import sqlite3
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_resume import asked, files, run
from tests.support import logged_model
from tests.support.command_line import Workplace

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a copy of this process")
DOCS = 6
TASKS = ("t.yaml@cot",)
KILLED = 77


@pytest.fixture
def place(tmp_path: Path, own_registries: None, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    logged_model.register()
    monkeypatch.setattr(logged_model, "WINDOW", 2)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Workplace(tmp_path)
    made.rows(count=DOCS)
    made.task()
    return made


class Points:
    """Counts the points at which a run may be killed, and ends the process before the one named."""

    def __init__(self, kept: Path, die_at: int = sys.maxsize) -> None:
        self._kept = kept
        self._die_at = die_at
        self.passed = 0

    def install(self) -> None:
        points = self

        class Connection(sqlite3.Connection):
            def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
                points.passes()
                cursor = super().execute(statement, *values)
                if statement.startswith("INSERT OR REPLACE INTO answers"):
                    points.is_answer = True
                elif statement == "COMMIT" and points.is_answer:
                    points.is_answer = False
                    points.keeps()
                return cursor

        connect = sqlite3.connect
        sqlite3.connect = lambda *a, **k: connect(*a, factory=Connection, **k)  # type: ignore[misc]
        os.fsync, os.replace = self.before(os.fsync), self.before(os.replace)

    is_answer = False

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def passing(*values: Any) -> Any:
            self.passes()
            return function(*values)

        return passing

    def passes(self) -> None:
        self.passed += 1
        if self.passed == self._die_at:
            os._exit(KILLED)

    def keeps(self) -> None:
        with self._kept.open("ab", buffering=0) as log:
            log.write(b"kept\n")


def in_a_copy(work: Callable[[], int]) -> int:
    """The exit code of ``work`` in a copy of this process; a kill there leaves this one whole."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # no thread of ours is under way
        child = os.fork()
    if child == 0:
        try:
            os._exit(work())
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(place: Workplace, kept: Path, die_at: int) -> int:
    def work() -> int:
        Points(kept, die_at).install()
        return ask(place)

    return in_a_copy(work)


def ask(place: Workplace) -> int:
    return run(place, "--log_samples", tasks=TASKS).code


def newest(place: Workplace) -> dict[str, Any]:
    """The files of the last run; a kill between two renames leaves whole files of the one before."""
    by_name: dict[str, Path] = {}
    for path in sorted(path for path in place.output.rglob("*") if path.is_file()):
        earlier = by_name.get(path.name.split("_20")[0])
        if earlier is not None:
            earlier.unlink()
        by_name[path.name.split("_20")[0]] = path
    return files(place)


def test_a_kill_at_any_point_loses_nothing(place: Workplace) -> None:
    kept = place.folder / "kept.log"
    assert in_a_copy(lambda: ask(place)) == 0
    clean = files(place)
    assert len(asked(place)) == DOCS
    for die_at in range(1, 10_000):
        kept.unlink(missing_ok=True)
        code = killed(place, kept, die_at)
        if code == 0:  # the run has no further point
            break
        assert code == KILLED
        first = asked(place)
        done = len(kept.read_bytes().splitlines()) if kept.exists() else 0
        had_results = bool(list(place.output.rglob("results_*.json")))
        assert in_a_copy(lambda: ask(place)) == 0, die_at
        again = asked(place)
        assert {*first, *again} == {f"t@cot {doc} 0" for doc in range(DOCS)}, die_at
        # Whose results are there has ended: asked again, it is a new run.
        assert len(again) <= DOCS - done or had_results, die_at
        assert not list(place.output.rglob("*.partial")), die_at
        assert newest(place) == clean, die_at
    assert die_at > 30
