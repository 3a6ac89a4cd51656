"""Document 003's own commands: ``python examples/template_usage.py`` and ``optimized_prompt.py``."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nugget_eval.prompts import FORMAT_TYPES, PROMPT_TYPES
from tests.support.paths import ROOT

EXAMPLES = ROOT / "examples"


def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / arguments[0]), *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_template_usage_shows_every_type_and_format_and_how_replies_are_read() -> None:
    shown = run("template_usage.py").stdout
    for prompt_type in PROMPT_TYPES:
        for format_type in FORMAT_TYPES:
            assert f"\n{prompt_type} × {format_type}   " in shown
    assert shown.count("[system]\nYou are NuggetMatchJudge") == len(PROMPT_TYPES)
    for format_type in set(FORMAT_TYPES) - {"adaptive"}:
        assert f"    read as {format_type}\n" in shown
    assert "incomplete_index: no number 3" in shown


def test_template_usage_shows_one_or_all_in_full() -> None:
    one = run("template_usage.py", "--prompt_type", "long_cot", "--format_type", "xml").stdout
    assert one.count("[system]") == 1
    assert "<labels>" in one
    assert run("template_usage.py", "--all").stdout.count("[system]") == 50


def test_optimized_prompt_shows_prompt_reply_and_reading() -> None:
    shown = run("optimized_prompt.py").stdout
    for part in (
        "Decision ladder",
        "Self-check",
        "exactly\nwhat was given: True",
        "2. not_support",
    ):
        assert part in shown
    german = run("optimized_prompt.py", "--language", "de", "--domain", "legal", "--shots", "1")
    assert "Entscheidungsleiter" in german.stdout
    assert "Velmora" in german.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("template_usage.py", "--prompt_type", "optimised"), "Did you mean 'optimized'"),
        (("optimized_prompt.py", "--domain", "leagl"), "Did you mean 'legal'"),
    ],
)
def test_a_wrong_name_is_one_clear_line(arguments: tuple[str, ...], message: str) -> None:
    assert message in run(*arguments, code=1).stderr
