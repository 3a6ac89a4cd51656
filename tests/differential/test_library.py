"""Benchmarks of the library ask as EleutherAI's harness does, byte for byte, at 0 and 5 shots."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.differential.library.ours import HERE, PAIRS, requests, rows_of

GOLDEN = json.loads((HERE / "golden.json").read_text("utf-8"))
ROWS = json.loads((HERE / "rows.json").read_text("utf-8"))
CASES = [(name, shots) for name, pair in PAIRS.items() for shots in pair.get("shots", (0, 5))]


def comparable(asked: list[list[Any]]) -> list[list[Any]]:
    """Prompts and what is scored; where a reply ends is each format's own."""
    return [one if isinstance(one[2], str) else one[:2] for one in asked]


@pytest.mark.parametrize(("name", "shots"), CASES)
def test_requests_are_those_of_the_harness(name: str, shots: int) -> None:
    wanted = comparable(GOLDEN[name][str(shots)])
    asked = comparable(requests(name, shots))
    if "differs" in PAIRS[name]:
        assert asked != wanted, f"they are the same: remove `differs: {PAIRS[name]['differs']}`"
    else:
        assert asked == wanted


def test_the_golden_is_of_these_rows() -> None:
    assert {name: rows_of(name) for name in PAIRS} == ROWS, "run both scripts beside the golden"
    assert set(GOLDEN) == set(PAIRS)
