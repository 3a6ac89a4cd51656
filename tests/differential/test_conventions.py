"""Formats give the prompts of other harnesses byte for byte, on rows in the schema of their data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from lm_eval.api.task import ConfigurableTask, TaskConfig
from lm_eval.formats.compile import format_names, get_format
from lm_eval.requests import LoglikelihoodRequest, PromptOptions, build_requests
from tests.differential.library.ours import PAIRS, format_of

FOLDER = Path(__file__).parent / "conventions"
CASES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "cases.yaml").read_text("utf-8"))
GOLDEN = json.loads((FOLDER / "golden.json").read_text("utf-8"))


def ours(case: dict[str, Any], shots: int) -> list[list[Any]]:
    """The requests of a case under its format, in the shape of the golden file."""
    rows, kept = case["rows"], case.get("examples", 2)
    config = TaskConfig(
        task="convention",
        custom_dataset=lambda: {"train": rows[:kept] * 5, "test": rows[kept:]},
        test_split="test",
        fewshot_split="train",
        **{"fewshot_config": {"sampler": "first_n"}, **case["fields"]},
    )
    if isinstance(case["format"], str):
        task = ConfigurableTask(config, format_name=case["format"])
    else:
        task = ConfigurableTask(replace(config, formats=case["format"]))
    asked = []
    for doc in build_requests(task, range(len(rows) - kept), PromptOptions(num_fewshot=shots)):
        for one in doc.requests:
            if isinstance(one, LoglikelihoodRequest):
                after: Any = one.continuation
            else:
                after = {"until": list(one.gen_kwargs["until"])}
            asked.append([doc.doc_id, str(one.context), after])
    return asked


def wanted_of(name: str) -> dict[str, list[list[Any]]]:
    """Number of examples → the original's requests, or the prompts that its code gives."""
    case = CASES[name]
    if "peer" in case:
        return dict(GOLDEN[name])
    return {shots: [[0, prompt, {}]] for shots, prompt in case["wanted"].items()}


@pytest.mark.parametrize(("name", "shots"), [(name, n) for name in CASES for n in wanted_of(name)])
def test_requests_are_those_of_the_original(name: str, shots: str) -> None:
    case = CASES[name]
    wanted = wanted_of(name)[shots]
    asked = ours(case, int(shots))
    if "peer" not in case:
        asked = asked[:1]
    assert [one[:2] for one in asked] == [one[:2] for one in wanted]
    if not isinstance(wanted[0][2], dict):
        assert asked == wanted


def test_every_case_has_a_golden_and_no_other() -> None:
    assert {name for name, case in CASES.items() if "peer" in case} == set(GOLDEN)


def test_every_convention_is_compared() -> None:
    formats = {case["format"] for case in CASES.values() if isinstance(case["format"], str)}
    formats |= {format_of(name) for name, pair in PAIRS.items() if "differs" not in pair}
    assert {name for name in format_names() if get_format(name).kind == "convention"} <= formats
