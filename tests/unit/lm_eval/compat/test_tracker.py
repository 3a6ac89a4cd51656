"""Results that a program holds, written as the command line writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lm_eval import simple_evaluate
from lm_eval.compat.tracker import EvaluationTracker
from lm_eval.errors import UsageError


def test_a_program_that_saves_what_it_measured(tmp_path: Path) -> None:
    """The calls of the harness's own command line, which programs have copied."""
    tracker = EvaluationTracker(output_path=str(tmp_path), token="", hub_results_org="")
    results = simple_evaluate(
        model="dummy",
        model_args="seed=3",
        tasks=["demo_mcq"],
        limit=3,
        log_samples=True,
        evaluation_tracker=tracker,
        system_instruction="Be brief.",
    )
    samples = results.pop("samples")
    tracker.save_results_aggregated(results=results, samples=samples)
    for task_name in results["configs"]:
        tracker.save_results_samples(task_name=task_name, samples=samples[task_name])
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.json*"))
    assert [path.parent.name for path in files] == ["dummy"] * 2
    assert files[0].name == f"results_{tracker.date_id}.json"
    assert files[1].name == f"samples_demo_mcq_{tracker.date_id}.jsonl"
    written = json.loads((tmp_path / files[0]).read_text())
    assert written["results"] == results["results"]
    assert written["model_name"] == "dummy"
    assert written["task_hashes"] == results["task_hashes"]
    assert tracker.general_config_tracker.system_instruction_sha is not None
    lines = [json.loads(line) for line in (tmp_path / files[1]).read_text().splitlines()]
    assert [line["doc_id"] for line in lines] == [0, 1, 2]
    assert "arg_0" in lines[0]["arguments"]["gen_args_0"]


def test_results_of_a_model_without_a_name(tmp_path: Path) -> None:
    tracker = EvaluationTracker(tmp_path)
    tracker.save_results_aggregated({"results": {}})
    [path] = tmp_path.rglob("results_*.json")
    assert path.parent.name == "model"
    named = EvaluationTracker(tmp_path)
    named.general_config_tracker.model_name_sanitized = "chosen"
    named.save_results_aggregated({"results": {}})
    assert list((tmp_path / "chosen").glob("results_*.json"))


def test_a_name_among_the_arguments(tmp_path: Path) -> None:
    tracker = EvaluationTracker(tmp_path)
    tracker.general_config_tracker.log_experiment_args("hf", "pretrained=org/name,dtype=auto")
    tracker.save_results_aggregated({"results": {}})
    assert list((tmp_path / "org__name").glob("results_*.json"))


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tracker = EvaluationTracker()
    tracker.save_results_aggregated({"results": {}})
    tracker.save_results_samples("t", [])
    tracker.recreate_metadata_card()
    assert list(tmp_path.iterdir()) == []


def test_a_hub_is_refused() -> None:
    with pytest.raises(UsageError, match="hf upload REPO FOLDER"):
        EvaluationTracker("out", push_results_to_hub=True)
