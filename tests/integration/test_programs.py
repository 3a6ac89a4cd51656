"""Small programs in the style of public ones give here what they give with EleutherAI's 0.4.13.

``programs/golden.json`` was written by ``programs/regenerate.py`` with the peer.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

from tests.integration.programs import tiny

HERE = Path(__file__).parent / "programs"
GOLDEN = json.loads((HERE / "golden.json").read_text("utf-8"))
CLOSE = 2e-4
"""Rounding of float32 in sums over a few hundred tokens, relative to the sum."""
OF_OURS = ("sample_len", "name", "alias", "sample_count")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save(tmp_path_factory.mktemp("model") / "tiny"))


def differences(golden: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Where values differ; our results may have keys of their own."""
    if isinstance(golden, dict) and isinstance(ours, dict):
        for key, value in golden.items():
            if key not in OF_OURS:
                yield from differences(value, ours.get(key), f"{path}/{key}")
    elif isinstance(golden, list) and isinstance(ours, list) and len(golden) == len(ours):
        for place, (value, other) in enumerate(zip(golden, ours, strict=True)):
            yield from differences(value, other, f"{path}/{place}")
    elif isinstance(golden, float) and isinstance(ours, int | float):
        if not math.isclose(golden, ours, rel_tol=CLOSE, abs_tol=CLOSE):
            yield f"{path}: {golden!r} there, {ours!r} here"
    elif golden != ours:
        yield f"{path}: {golden!r} there, {ours!r} here"


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.filterwarnings("ignore:Model .* of .* answered, called in the order")
@pytest.mark.filterwarnings("ignore:Model 'Polite' takes no batch_size")
@pytest.mark.filterwarnings("ignore:Task 'two', formats.mcqa. instruction")
@pytest.mark.filterwarnings("ignore:(Task|Group|Tag) .* is that of .*, which hides")
@pytest.mark.filterwarnings("ignore:Unknown (metric|aggregation) 'no_such_")
def test_a_program(name: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = importlib.import_module(f"tests.integration.programs.{name}")
    monkeypatch.chdir(HERE.parents[1] / "differential")
    assert [*differences(GOLDEN[name], program.main(folder))] == []


def test_overrides_change_what_the_programs_report() -> None:
    forward, widths = GOLDEN["own_forward"], GOLDEN["quantiser"]
    assert forward["0.0"]["logprobs"] != forward["0.5"]["logprobs"]
    assert len({row["perplexity"] for row in widths.values()}) == len(widths)
    assert len({step["perplexity"] for step in GOLDEN["trainer"]}) == len(GOLDEN["trainer"])
