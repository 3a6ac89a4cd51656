"""Running the command line in a folder of its own: what tests of it share."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lm_eval.cli import main
from tests.support.paths import SOURCE

_PROGRESS = re.compile(r".+: [\d,.]+/[\d,.]+( MB)?(, .*)?")


def without_progress(printed: str) -> str:
    """What was printed, without what a run says while it works, if the machine lets it take a moment."""
    lines = printed.splitlines(keepends=True)
    return "".join(line for line in lines if not _PROGRESS.fullmatch(line.rstrip("\n")))


@dataclass
class Outcome:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    def ok(self) -> Outcome:
        """That it ended well."""
        assert self.code == 0, self.out + self.err
        return self

    def refused(self, *words: str) -> None:
        """That it ended with 1 and a message with all of these words, however its lines are broken."""
        assert self.code == 1, self.out + self.err
        assert "Traceback" not in self.err
        said = " ".join(self.err.split())
        missing = [word for word in words if word not in self.err and word not in said]
        assert not missing, self.err


def run_inside(folder: Path, main: Callable[[list[str]], int], argv: Sequence[str]) -> Outcome:
    """Run a program in this process, inside a folder."""
    out, err = io.StringIO(), io.StringIO()
    here = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(argv))
    finally:
        os.chdir(here)
    return Outcome(code, out.getvalue(), err.getvalue())


@dataclass
class Workplace:
    """A folder with one good task, ``t``, whose files tests overwrite at will."""

    folder: Path

    def __post_init__(self) -> None:
        self.rows()

    @property
    def output(self) -> Path:
        return self.folder / "out"

    def write(self, name: str, content: str | bytes) -> str:
        """Write a file, folders included; its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def rows(self, *, doc: int | None = None, count: int = 20, **changed: Any) -> str:
        """``docs.jsonl``: twenty questions; ``changed`` keys replace those of one doc, or of all."""
        rows = []
        for place in range(count):
            row = {"question": f"Q{place}?", "choices": ["w", "x", "y", "z"], "answer": place % 4}
            if doc is None or doc == place:
                row |= changed
            rows.append({key: value for key, value in row.items() if value is not ...})
        return self.write("docs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def task(self, name: str = "t.yaml", **keys: Any) -> str:
        """A task file (JSON is YAML); a key that is ``...`` is left out."""
        written = {
            "task": "t",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(self.folder / "docs.jsonl")}},
            "test_split": "test",
            "doc_to_text": "question",
            "doc_to_choice": "choices",
            "doc_to_target": "answer",
            "formats": "mcqa",
        } | keys
        kept = {key: value for key, value in written.items() if value is not ...}
        return self.write(name, json.dumps(kept, indent=1))

    def data(self, name: str, content: str | bytes) -> dict[str, Any]:
        """``dataset_kwargs`` for a data file with this content."""
        return {"data_files": {"test": self.write(name, content)}}

    def cli(self, *argv: str) -> Outcome:
        """Run a command in this process, inside the folder."""
        return run_inside(self.folder, main, argv)

    def run(self, *argv: str, model: str = "dummy") -> Outcome:
        """``lm-eval run`` with the dummy model; results go to ``output``."""
        return self.cli("run", "--model", model, "--output_path", str(self.output), *argv)

    def written(self) -> list[Path]:
        """Everything below the output folder."""
        return sorted(self.output.rglob("*"))

    def results(self) -> dict[str, Any]:
        """The newest results file."""
        found: dict[str, Any] = json.loads(self._newest("results_*.json").read_text("utf-8"))
        return found

    def samples(self, name: str) -> list[dict[str, Any]]:
        """The lines of the newest samples file of a result."""
        path = self._newest(f"samples_{name}_2*.jsonl")
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    def _newest(self, pattern: str) -> Path:
        return max(self.output.rglob(pattern), key=lambda path: path.name)


def subprocess_cli(*argv: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """``python -m lm_eval`` in a process of its own."""
    return python("-m", "lm_eval", *argv, cwd=cwd, **environment)


def python(
    *argv: str,
    cwd: Path | None = None,
    said: str = "",
    check: bool = False,
    timeout: float = 240,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own that finds our source; ``said`` is what it can read."""
    return subprocess.run(
        [sys.executable, *argv],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
        input=said,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="backslashreplace",
        timeout=timeout,
        check=check,
    )


def python_started(
    *argv: str, cwd: Path | None = None, stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.Popen[str]:
    """The same under way: whoever starts it reads what it prints, and ends it."""
    return subprocess.Popen(
        [sys.executable, *argv],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(SOURCE), **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )
