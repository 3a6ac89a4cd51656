"""What commands say about the differences of a comparison, against stored screens.

Regenerate after an intended change: ``python -m tests.unit.lm_eval.lab.compare.test_findings``.
"""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from lm_eval.lab.compare.findings import print_findings
from tests.support.comparison_cases import CASES, comparison
from tests.support.paths import GOLDEN

FINDINGS = GOLDEN / "findings"


def printed(case: str, width: int = 100) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
    print_findings(comparison(case).blocks, console)
    return stream.getvalue()


@pytest.mark.parametrize("case", CASES)
def test_golden(case: str) -> None:
    assert printed(case) == (FINDINGS / f"{case}.txt").read_text(encoding="utf-8")


def test_no_golden_file_is_left_over() -> None:
    assert {file.name for file in FINDINGS.iterdir()} == {f"{case}.txt" for case in CASES}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_line_is_wider_than_the_console(case: str, width: int) -> None:
    assert not [line for line in printed(case, width).splitlines() if len(line) > width]


@pytest.mark.parametrize("case", CASES)
def test_findings_fit_on_a_screen(case: str) -> None:
    assert len(printed(case).splitlines()) <= 14


if __name__ == "__main__":
    for name in CASES:
        (FINDINGS / f"{name}.txt").write_text(printed(name), encoding="utf-8")
