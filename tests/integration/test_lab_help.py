"""The format lab's commands: what their help says to try works, and files do not wait for readers."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lm_eval.cli import build_parser
from tests.support.command_line import Workplace
from tests.support.paths import SOURCE

LAB = ("compare", "sweep", "power", "reread", "diff")


def parser_of(command: str) -> argparse.ArgumentParser:
    (commands,) = (a for a in build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    found: argparse.ArgumentParser = commands.choices[command]
    return found


def tries(command: str) -> list[str]:
    """The commands below the options."""
    _, _, shown = parser_of(command).format_help().partition("\nTry:  ")
    return [line.strip().partition("   ")[0] for line in shown.splitlines()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs and the list of formats that the examples name."""
    work = Workplace(tmp_path_factory.mktemp("help"))
    dummy = ("--tasks", "demo_mcq@mcqa,demo_mcq@cot,demo_mcq@cloze", "--model", "dummy")
    for out, limit in (("out", "20"), ("run_a", "20"), ("run_b", "18")):
        args = ("--model_args", "seed=2") if out == "run_b" else ()
        work.cli("run", *dummy, *args, "--limit", limit, "--output_path", out).ok()
    for copy in ("old", "new"):
        shutil.copytree(work.folder / "out", work.folder / copy)
    work.cli(
        *("sweep", "--tasks", "demo_mcq", "--model", "dummy", "--limit", "8"),
        *("--formats", "3", "--output_path", "lists"),
    ).ok()
    (saved,) = (work.folder / "lists").glob("formats_*.yaml")
    saved.rename(work.folder / "formats.yaml")
    return work.folder


@pytest.mark.parametrize("columns", ["60", "80", "100"])
def test_a_command_in_the_help_is_not_broken_at_its_hyphen(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for command in ("run", *LAB):
        assert "lm-\n" not in parser_of(command).format_help()


@pytest.mark.parametrize("line", [line for command in LAB for line in tries(command)])
def test_every_command_to_try_works(folder: Path, line: str) -> None:
    program, *argv = shlex.split(line)
    assert program == "lm-eval"
    if argv[0] == "sweep":
        argv += ["--model", "dummy"]
    done = Workplace(folder).cli(*argv).ok()
    assert done.out


@pytest.mark.parametrize("command", LAB)
def test_help_has_examples_that_fit_a_screen(command: str) -> None:
    assert len(tries(command)) >= 3
    text = parser_of(command).format_help()
    assert max(map(len, text.splitlines())) <= 90


@pytest.mark.parametrize("command", LAB)
def test_every_option_says_what_it_does(command: str) -> None:
    assert [a.dest for a in parser_of(command)._actions if not a.help] == []


@pytest.mark.parametrize(
    "line",
    [
        "compare out --resamples 100 --output_path written/c.json",
        "power out --difference 0.1 --output_path written/p.json",
        "diff out out --formats mcqa,cot --output_path written/d.json",
        "reread out --format cot --as generate --output_path written/r.jsonl",
        "reread --corpus --scorer choice --output_path written/o.jsonl",
    ],
)
def test_a_file_is_written_even_if_nobody_reads_the_report(folder: Path, line: str) -> None:
    """As with ``| head``, where the reader is gone before the report ends."""
    argv = line.split()
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "lm_eval", *argv],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / argv[-1]).stat().st_size > 0
