"""Formats give the prompts of other harnesses byte for byte, on rows in the schema of their data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from lm_eval.api.task import ConfigurableTask, TaskConfig
from lm_eval.requests import LoglikelihoodRequest, PromptOptions, build_requests

FOLDER = Path(__file__).parent / "conventions"
CASES: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "cases.yaml").read_text("utf-8"))
GOLDEN = json.loads((FOLDER / "golden.json").read_text("utf-8"))


def ours(case: dict[str, Any], shots: int) -> list[list[Any]]:
    """The requests of a case under its format, in the shape of the golden file."""
    rows, kept = case["rows"], case.get("examples", 2)
    config = TaskConfig(
        task="convention",
        custom_dataset=lambda: {"train": rows[:kept], "test": rows[kept:]},
        test_split="test",
        fewshot_split="train",
        **{"fewshot_config": {"sampler": "first_n"}, **case["fields"]},
    )
    task = ConfigurableTask(config, format_name=case["format"])
    asked = []
    for doc in build_requests(task, range(len(rows) - kept), PromptOptions(num_fewshot=shots)):
        for one in doc.requests:
            if isinstance(one, LoglikelihoodRequest):
                after: Any = one.continuation
            else:
                after = {"until": list(one.gen_kwargs["until"])}
            asked.append([doc.doc_id, str(one.context), after])
    return asked


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shots", [0, 2])
def test_requests_are_those_of_the_original(name: str, shots: int) -> None:
    case = CASES[name]
    wanted = GOLDEN[name][str(shots)]
    asked = ours(case, shots)
    assert [one[:2] for one in asked] == [one[:2] for one in wanted]
    if not isinstance(wanted[0][2], dict):
        assert asked == wanted


def test_every_case_has_a_golden_and_no_other() -> None:
    assert set(CASES) == set(GOLDEN)
