"""Suites: ``aggregate: primary``, ``rescale``, ``weights`` and ``as`` in a group's YAML."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import lm_eval
from lm_eval.cli import main
from lm_eval.models.base import LM
from lm_eval.requests import LoglikelihoodRequest
from lm_eval.tasks import TaskManager

ROW = {"dataset_path": "json", "test_split": "test", "doc_to_text": "q", "doc_to_choice": "c"}
SIZES = {"two": (2, 20), "four": (4, 60)}
"""Task → choices and docs; of each task, every third doc has choice 0 as its gold."""


class FirstLM(LM):
    """Picks the first choice."""

    def loglikelihood(self, requests: Sequence[LoglikelihoodRequest]) -> list[tuple[float, bool]]:
        return [(-float(request.index) - 1, False) for request in requests]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, (choices, docs) in SIZES.items():
        rows = [
            {"q": f"{name} {at}?", "c": list("wxyz"[:choices]), "a": 0 if at % 3 == 0 else 1}
            for at in range(docs)
        ]
        Path(f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        task = {"task": name, **ROW, "doc_to_target": "a", "formats": "mcqa"}
        task["dataset_kwargs"] = {"data_files": {"test": f"{name}.jsonl"}}
        Path(f"{name}.yaml").write_text(yaml.safe_dump(task))


def run(task: list[Any], **keys: Any) -> dict[str, Any]:
    group = {"group": "suite", "task": task, "aggregate": "primary", **keys}
    Path("suite.yaml").write_text(yaml.safe_dump(group))
    manager = TaskManager(include_path=".", include_defaults=False)
    return dict(lm_eval.simple_evaluate(model=FirstLM(), tasks=["suite"], task_manager=manager))


RUN = ["run", "--tasks", "suite.yaml", "--model", "dummy"]
RIGHT = {"two": 7 / 20, "four": 20 / 60}


def test_the_mean_of_each_members_score_with_its_interval() -> None:
    found = run(["two", "four"])
    scores = found["groups"]["suite"]
    assert scores["mean,none"] == pytest.approx(sum(RIGHT.values()) / 2)
    errors = [found["results"][name]["acc_stderr,none"] for name in SIZES]
    assert scores["mean_stderr,none"] == pytest.approx(math.hypot(*errors) / 2)
    low, high = scores["mean_ci95,none"]
    assert low < scores["mean,none"] < high
    assert found["interval_methods"]["suite"]["mean,none"] == "pooled"
    assert found["suites"]["suite"]["members"]["two"]["weight"] == 0.5


def test_weights_by_docs() -> None:
    scores = run(["two", "four"], weights="micro")["groups"]["suite"]
    assert scores["mean,none"] == pytest.approx(27 / 80)


def test_rescaled_from_chance() -> None:
    found = run(["two", "four"], rescale="chance")
    scores = found["groups"]["suite"]
    above = {"two": 0.0, "four": (RIGHT["four"] - 0.25) / 0.75}
    assert scores["mean_above_chance,none"] == pytest.approx(sum(above.values()) / 2)
    assert scores["mean,none"] == pytest.approx(sum(RIGHT.values()) / 2)
    errors = [
        found["results"]["two"]["acc_stderr,none"] / 0.5,
        found["results"]["four"]["acc_stderr,none"] / 0.75,
    ]
    assert scores["mean_above_chance_stderr,none"] == pytest.approx(math.hypot(*errors) / 2)
    member = found["suites"]["suite"]["members"]["four"]
    assert (member["chance"], member["metric"]) == (0.25, "acc")
    assert member["above_chance"] == pytest.approx(above["four"])


def test_chance_may_be_given_by_the_task_or_by_the_suite() -> None:
    member = {"task": "four", "metadata": {"baseline": 0.1}}
    found = run([member], rescale="chance")["suites"]["suite"]["members"]["four"]
    assert found["chance"] == 0.1
    found = run(["two", "four"], rescale={"four": 0.2})["suites"]["suite"]["members"]
    assert found["four"]["chance"] == 0.2
    assert "chance" not in found["two"]


def test_one_task_twice_under_formats_and_settings() -> None:
    members = [
        "two@mcqa",
        {"task": "two@cloze", "primary_metric": "acc_norm"},
        {"task": "two@mcqa", "as": "two_shots", "num_fewshot": 2},
    ]
    found = run(members)
    assert list(found["suites"]["suite"]["members"]) == ["two@mcqa", "two@cloze", "two_shots@mcqa"]
    assert found["suites"]["suite"]["members"]["two@cloze"]["metric"] == "acc_norm"
    assert found["n-shot"]["two_shots@mcqa"] == 2
    scores = found["groups"]["suite"]
    errors = [m["stderr"] for m in found["suites"]["suite"]["members"].values()]
    assert scores["mean_stderr,none"] == pytest.approx(sum(errors) / 3)  # one data set: added


def test_groups_in_suites_bring_their_own_score() -> None:
    inner = {"group": "inner", "task": ["four"], "aggregate": "primary", "rescale": {"four": 0.25}}
    found = run(["two", inner])
    members = found["suites"]["suite"]["members"]
    assert members["suite::inner"]["metric"] == "mean_above_chance"
    assert members["suite::inner"]["score"] == pytest.approx((RIGHT["four"] - 0.25) / 0.75)
    rescaled = run(["two", {"group": "inner", "task": ["four"]}], rescale="chance")
    assert rescaled["groups"]["suite"]["mean_above_chance,none"] == pytest.approx(
        (RIGHT["four"] - 0.25) / 0.75 / 2
    )


def test_plain_tasks_of_the_harness_are_members_too() -> None:
    member = {"task": "plain", **ROW, "doc_to_target": "a", "output_type": "multiple_choice"}
    member["dataset_kwargs"] = {"data_files": {"test": "four.jsonl"}}
    found = run(["two", member], rescale="chance")["suites"]["suite"]["members"]
    assert found["suite::plain"]["chance"] == 0.25


def test_the_table_has_a_row_for_the_suite(capsys: pytest.CaptureFixture[str]) -> None:
    run(["two", "four"], rescale="chance")
    code = main([*RUN, "--include_path", str(Path.cwd())])
    assert code == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("suite"))
    assert "mean_above_chance" in row
    assert "80" in row.split()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"aggregate": "mean"}, "aggregate must be primary, which averages"),
        ({"aggregate": None, "rescale": "chance"}, "write `aggregate: primary` beside them"),
        ({"weights": "size"}, "weights must be mean (the default) or micro"),
        ({"rescale": {"two": 1.5}}, "from 0 to below 1"),
        ({"rescale": {"tow": 0.5}}, "which is not a member. Did you mean 'two'?"),
        (
            {"rescale": "chance", "metadata": {}, "task": [{"task": "two", "as": "a b"}]},
            "`as` cannot be",
        ),
        (
            {"task": ["two", {"task": "two", "num_fewshot": 3}]},
            "in a group with `as: name` beside its `task`",
        ),
        (
            {"task": [{"task": "two", "metadata": {"baseline": "25 %"}}], "rescale": "chance"},
            "metadata.baseline is '25 %'",
        ),
    ],
)
def test_wrong_suites_are_told(
    keys: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group = {"group": "suite", "task": ["two"], "aggregate": "primary", **keys}
    Path("suite.yaml").write_text(yaml.safe_dump(group))
    assert main([*RUN, "--include_path", str(Path.cwd())]) != 0
    error = " ".join(capsys.readouterr().err.split())
    assert said in error
    assert "Traceback" not in error
