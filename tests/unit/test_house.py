"""``scripts/house.py``: its figures of a small source tree, and some of them of ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.paths import ROOT

SCRIPT = ROOT / "scripts" / "house.py"
MOST_WITH_ONE_IMPORTER = 33
MOST_ENTERED = 64
"""Modules that the demo run may enter. Lower it with what is joined or loaded late."""
TREE = {
    "lm_eval/__init__.py": "",
    "lm_eval/__main__.py": "from lm_eval.cli import main\n",
    "lm_eval/cli.py": "def main():\n    from lm_eval.engine import Engine\n",
    "lm_eval/engine.py": "from lm_eval.parts import Wheel\nclass Engine: ...\nclass _Row: ...\n",
    "lm_eval/parts.py": "class Wheel: ...\n",
    "lm_eval/tasks/library/demo/utils.py": "class Wheel: ...\n",
    "lm_eval/stats/numeric.py": "from typing import Any\nArray = Any\n",
    "lm_eval/stats/spread.py": (
        "from lm_eval.stats.numeric import Array\n"
        "def spread(scores: list[Array]) -> float: ...\n"
        "def mean(scores: list[float]) -> float: ...\n"
    ),
    "nugget_eval/judge.py": (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from lm_eval.parts import Wheel\n"
        "class Engine: ...\nclass _Row: ...\n"
    ),
}


def printed(*arguments: str) -> str:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", check=True
    ).stdout


def figures(table: str) -> dict[str, str]:
    split = (line.split("  ", 1) for line in table.splitlines())
    return {name: value.strip() for name, value in split}


def test_figures(write: Callable[..., Path], tmp_path: Path) -> None:
    for name, text in TREE.items():
        write(f"src/{name}", text)
    table, _, lists = printed("--list", "--src", str(tmp_path / "src")).partition("\n\n")
    assert figures(table) == {
        "modules": "8",
        "lines": "17",
        "modules in the largest folder": "lm_eval: 4",
        "folders with more than 15 modules": "0",
        "modules with one importer": "2",
        "public class names in several modules": "1",
        "class names in several modules": "2",
        "longest function, in lines": "lm_eval.cli.main: 2",
        "signatures with Any in lm_eval.stats": "50% (1 of 2)",
        "modules under 100 lines": "8",
        "modules over 700 lines": "0",
    }
    assert "  lm_eval.engine ← lm_eval.cli\n" in lists
    assert "  lm_eval.stats.numeric ← lm_eval.stats.spread\n" in lists
    assert "  lm_eval.stats.spread.spread\n" in lists
    assert "  Engine: lm_eval.engine, nugget_eval.judge\n" in lists


def test_modules_are_chapters() -> None:
    """A part of one importer belongs to it, and nothing longer than a chapter is one module."""
    ours = figures(printed())
    assert int(ours["modules with one importer"]) <= MOST_WITH_ONE_IMPORTER
    assert ours["modules over 700 lines"] == "0"


def test_demo_run_enters_few_modules() -> None:
    """Someone who follows one run through the code should not have to open more files than this."""
    *entered, total, _ = printed("--walk").splitlines()
    assert total.startswith(f"{len(entered)} modules entered")
    assert len(entered) <= MOST_ENTERED, (
        "Import late what only some runs need, or join thin modules."
    )
