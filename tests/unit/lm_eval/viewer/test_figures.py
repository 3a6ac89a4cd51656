"""The figures of a run's page, from results files of ours and of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval.viewer.catalogue import Catalogue, ViewedRun
from lm_eval.viewer.figures import card, comparisons, run_page
from tests.support.command_line import Workplace
from tests.support.viewed_runs import four_formats


def viewed(folder: Path) -> ViewedRun:
    (run,) = Catalogue([folder]).runs.values()
    assert isinstance(run, ViewedRun)
    return run


def changed(folder: Path, change: Any) -> ViewedRun:
    """The run, after its results file was changed."""
    path = next(folder.rglob("results_*.json"))
    results = json.loads(path.read_text("utf-8"))
    change(results)
    path.write_text(json.dumps(results), "utf-8")
    return viewed(folder)


def test_scores_by_part_have_intervals(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    task = place.task(formats="generate", score_by="answer")
    assert place.run("--tasks", task).code == 0
    (table,) = run_page(viewed(place.output), str(tmp_path))["parts"]
    stored = place.results()["score_by"]["t"]["answer"]
    assert (table["name"], table["field"]) == ("t", "answer")
    for row in table["rows"]:
        scores = stored[row["part"]]
        assert (row["n"], row["value"]) == (scores["n"], scores["acc,none"])
        assert [row["low"], row["high"]] == scores["acc_ci95,none"]


def test_what_was_not_read_and_left_out(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=12)
    scores = place.results()["results"]["demo_mcq@generate"]
    rows = {row["name"]: row for row in card(viewed(place.output), str(tmp_path))["results"]}
    row = rows["demo_mcq@generate"]
    assert row["share_read"] == scores["share_read,none"] < 1
    assert row["unread"] == scores["unread"]
    assert row["if_read"] == scores["acc_read,none"]
    assert rows["demo_mcq@mcqa"]["share_read"] is None


@pytest.mark.parametrize(
    "change",
    [
        lambda results: results.pop("accounting"),
        lambda results: results.pop("intervals"),
        lambda results: results.update({"date": None, "config": None}),
        lambda results: results.update({"n-samples": {}, "chance": [], "chosen": 3}),
        lambda results: results["results"]["demo_mcq@cot"].update({"acc,none": "NaN"}),
        lambda results: results.update({"primary_metrics": {}, "score_by": {"gone": 1}}),
        lambda results: results.update({"total_evaluation_time_seconds": "soon"}),
        lambda results: results.update({"accounting": {"tasks": {"demo_mcq@cot": 3}, "total": []}}),
    ],
)
def test_what_a_file_lacks_is_not_shown(tmp_path: Path, change: Any) -> None:
    place = four_formats(tmp_path, limit=2)
    shown = run_page(changed(place.output, change), str(tmp_path))
    assert len(shown["results"]) == 4
    json.dumps(shown, allow_nan=False)


def test_without_an_interval_the_standard_error_tells(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=12)

    def without_intervals(results: dict[str, Any]) -> None:
        del results["intervals"], results["interval_methods"]

    run = changed(place.output, without_intervals)
    row = card(run, str(tmp_path))["results"][0]
    error = place.results()["results"][row["name"]]["acc_stderr,none"]
    assert row["by"] == "normal"
    assert row["high"] - row["value"] == pytest.approx(1.96 * error, rel=1e-3)


def test_runs_on_different_items_are_compared_on_what_they_share(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=12)
    assert place.run("--tasks", "demo_mcq@mcqa", "--limit", "8", "--model_args", "seed=3").code == 0
    runs = [run for run in Catalogue([place.output]).runs.values() if isinstance(run, ViewedRun)]
    found = comparisons(runs)
    models = [block for block in found["blocks"] if block["compares"] == "models"]
    assert [block["num_items"] for block in models] == [8]
    assert models[0]["left_out"]


def test_a_task_of_its_own_is_not_an_error(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    assert place.run("--tasks", place.task()).code == 0
    found = comparisons([viewed(place.output)])
    assert (found["blocks"], found["notes"], found["problem"]) == ([], [], None)
