"""The same task files and the same model give the same requests and the same scores as the peer's.

``golden/*.json`` was written by ``regenerate.py`` with EleutherAI's lm_eval 0.4.13. Requests are
compared byte for byte, and so is everything that the samples and results files say, but for numbers:
scores of one doc to 1e-9, those of tasks and groups to 1e-6 (relative, for values above 1).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from compare import (
    first_difference,
    group_differences,
    request_differences,
    sample_differences,
    score_differences,
)
from ours import evaluated, run_ours, told
from variants import DELIBERATE, WRITTEN_AS_TEXT, cases, deliberate, golden_path

from lm_eval.errors import LmEvalError
from lm_eval.reports.writer import ResultWriter

CASES = cases()
REFUSED = [case for case in CASES if "error" in json.loads(golden_path(*case).read_text("utf-8"))]
"""Runs that the peer itself refuses."""


def golden(selector: str, variant: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(golden_path(selector, variant).read_text(encoding="utf-8"))
    return found


@cache
def with_parity(selector: str, variant: str) -> dict[str, Any]:
    return run_ours(selector, variant, parity=True)


def each(wanted: list[tuple[str, str]]) -> pytest.MarkDecorator:
    ids = [golden_path(*case).stem for case in wanted]
    return pytest.mark.parametrize(("selector", "variant"), wanted, ids=ids)


each_case = each([case for case in CASES if case not in REFUSED])
COMPARISONS = (request_differences, sample_differences, score_differences, group_differences)


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda compare: compare.__name__)
@each_case
def test_with_parity(selector: str, variant: str, compare: Any) -> None:
    differences = list(compare(golden(selector, variant), with_parity(selector, variant)))
    assert differences == []


@each([case for case in CASES if case not in REFUSED and deliberate(*case) is None])
def test_without_parity(selector: str, variant: str) -> None:
    """Parity changes nothing where no deliberate difference is in play."""
    assert first_difference(golden(selector, variant), run_ours(selector, variant)) is None


@each([case for case in CASES if deliberate(*case) is not None])
def test_deliberate_differences_show(selector: str, variant: str) -> None:
    """The list of deliberate differences holds no run that equals the peer's anyway."""
    try:
        difference = first_difference(golden(selector, variant), run_ours(selector, variant))
    except LmEvalError:
        return
    assert difference is not None


@each(REFUSED)
def test_what_the_peer_refuses(selector: str, variant: str) -> None:
    assert selector in WRITTEN_AS_TEXT
    assert golden(selector, variant)["message"].startswith("Answer is not a string!")
    docs = run_ours(selector, variant, parity=True)["tasks"][selector]["docs"]
    assert "\n22" in docs[0]["requests"][0][0] or " 22" in docs[0]["requests"][0][0]


@pytest.mark.parametrize("selector", ["arc", "gsm8k", "wikitext", "mmlu"])
def test_files_say_the_same(selector: str, tmp_path: Path) -> None:
    """What stands in the files is what was compared."""
    samples, found = evaluated(selector, "0shot", parity=True)
    with ResultWriter(tmp_path, "fake") as writer:
        for name, lines in samples.items():
            for sample in lines:
                writer.add_sample(name, sample)
        written = json.loads(writer.finish(found).read_text(encoding="utf-8"))
        again = {
            name: [
                json.loads(line)
                for line in writer.samples_path(name).read_text(encoding="utf-8").splitlines()
            ]
            for name in samples
        }
    assert first_difference(golden(selector, "0shot"), told(again, written)) is None


def test_every_golden_is_run() -> None:
    there = {path.name for path in golden_path("x", "y").parent.glob("*.json")}
    assert there == {golden_path(*case).name for case in CASES}
    assert len({selector for selector, _ in CASES}) >= 28


def test_every_deliberate_difference_is_run() -> None:
    named = {
        (selector, variant)
        for selectors in DELIBERATE.values()
        for selector, variants in selectors.items()
        for variant in variants or [v for s, v in CASES if s == selector]
    }
    assert named <= set(CASES)
