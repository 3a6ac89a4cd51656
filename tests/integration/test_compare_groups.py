"""Groups under several formats: each has its own score, and they are compared as one large task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

from tests.support.command_line import Workplace

SIZES = {"a": 40, "b": 60, "c": 20}


@pytest.fixture
def work(tmp_path: Path) -> Workplace:
    place = Workplace(tmp_path)
    for name, size in SIZES.items():
        rows = [
            {"question": f"{name}{n}?", "choices": list("wxyz"), "answer": n % 4, "part": n // 5}
            for n in range(size)
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        data = place.data(f"{name}.jsonl", lines)
        task(place, name, dataset_kwargs=data)
    group(place)
    return place


def task(place: Workplace, name: str, **keys: Any) -> None:
    place.task(f"{name}.yaml", task=name, formats=..., output_type="multiple_choice", **keys)


def group(
    place: Workplace, tasks: str = "[a, b, c]", *, metric: str = "acc", by_size: bool = True
) -> None:
    score = f"{{metric: {metric}, weight_by_size: {str(by_size).lower()}}}"
    place.write("g.yaml", f"group: g\ntask: {tasks}\naggregate_metric_list: [{score}]\n")


def run(place: Workplace, tasks: str, *more: str) -> str:
    done = place.run("--tasks", tasks, "--include_path", ".", *more).ok()
    return " ".join(done.out.split())


def compared(place: Workplace, *argv: str) -> list[dict[str, Any]]:
    place.cli("compare", "out", *argv, "--output_path", "found.json").ok()
    found = json.loads((place.folder / "found.json").read_text("utf-8"))
    blocks: list[dict[str, Any]] = found["comparisons"]
    return blocks


def test_a_group_has_a_score_under_each_format(work: Workplace) -> None:
    run(work, "g@mcqa,g@cloze")
    results = work.results()
    for name in ("mcqa", "cloze"):
        right = sum(s["acc"] for task in SIZES for s in work.samples(f"{task}@{name}"))
        assert results["groups"][f"g@{name}"]["acc,none"] == pytest.approx(right / 120)
        assert results["group_subtasks"][f"g@{name}"] == [f"{task}@{name}" for task in SIZES]


def test_the_group_is_compared_first_as_all_items_of_its_tasks(work: Workplace) -> None:
    run(work, "g@mcqa,g@cloze")
    whole, *parts = compared(work)
    assert [part["task"] for part in parts] == list(SIZES)
    assert (whole["task"], whole["members"], whole["num_items"]) == ("g", list(SIZES), 120)
    stored = work.results()
    for row in whole["rows"]:
        name, score = f"g@{row['label']}", row["score"]
        assert score["value"] == pytest.approx(stored["groups"][name]["acc,none"])
        ends = stored["intervals"][name]["acc,none"]
        assert [score["low"], score["high"]] == pytest.approx(ends)
    (pair,) = whole["pairs"]
    first = [row["label"] for row in whole["rows"]].index(pair["first"])
    wins = sum(part["flip_counts"][first][1 - first] for part in parts)
    losses = sum(part["flip_counts"][1 - first][first] for part in parts)
    assert pair["counts"] == [wins, losses]
    assert pair["result"]["p"] == pytest.approx(stats.binomtest(wins, wins + losses).pvalue)


def test_a_group_that_is_named_stands_for_itself_alone(work: Workplace) -> None:
    run(work, "g@mcqa,g@cloze")
    assert [block["task"] for block in compared(work, "--tasks", "g")] == ["g"]
    assert [block["task"] for block in compared(work, "--tasks", "g,b")] == ["g", "b"]
    assert [block["task"] for block in compared(work, "--tasks", "b")] == ["b"]
    assert "Did you mean 'g'?" in work.cli("compare", "out", "--tasks", "gg").err
    flips = work.cli("compare", "out", "--tasks", "g", "--flips", "1").out
    assert "doc a/" in flips
    assert "g@mcqa − g@cloze" in work.cli("power", "out", "--tasks", "g").out


def test_the_end_of_a_run_leaves_the_tasks_of_a_group_to_compare(work: Workplace) -> None:
    text = run(work, "g@mcqa,g@cloze")
    assert "120 items detect" in text
    assert "a 1 pair" not in text
    assert "Details lm-eval compare" in text
    told = work.cli("run", "--model", "dummy", "--tasks", "g@mcqa,g@cloze", "--include_path", ".")
    assert "a 1 pair inconclusive." in " ".join(told.out.split())  # nowhere else without files


def test_models_are_compared_on_a_group_of_plain_tasks(work: Workplace) -> None:
    for seed in ("1", "2"):
        run(work, "g", "--model_args", f"seed={seed}")
    (block,) = compared(work, "--tasks", "g")
    assert (block["compares"], block["within"], block["num_items"]) == ("models", "plain", 120)


def test_a_group_that_counts_tasks_alike_is_compared_task_by_task(work: Workplace) -> None:
    group(work, by_size=False)
    text = run(work, "g@mcqa,g@cloze")
    assert "a 1 pair inconclusive." in text
    assert "120 items detect" not in text
    assert [block["task"] for block in compared(work)] == list(SIZES)
    assert [block["task"] for block in compared(work, "--tasks", "g")] == list(SIZES)


def test_clusters_of_different_tasks_are_different_ones(work: Workplace) -> None:
    for name in SIZES:
        data = {"data_files": {"test": str(work.folder / f"{name}.jsonl")}}
        task(work, name, dataset_kwargs=data, cluster=... if name == "c" else "part")
    run(work, "g@mcqa,g@cloze")
    whole, *_ = compared(work)
    assert whole["num_clusters"] == 40 // 5 + 60 // 5 + 20  # items without any count by themselves


def test_groups_in_groups_and_tasks_with_a_format_of_their_own(work: Workplace) -> None:
    group(work, "[inner, c@cot]")
    work.write("inner.yaml", "group: inner\ntask: [a, b]\naggregate_metric_list: [{metric: acc}]\n")
    run(work, "g@mcqa,g@cloze")
    subtasks = work.results()["group_subtasks"]
    assert subtasks["g@cloze"] == ["inner@cloze", "c@cot"]
    blocks = {block["task"]: block for block in compared(work)}
    assert (blocks["inner"]["num_items"], blocks["g"]["num_items"]) == (100, 120)
    assert blocks["g"]["members"] == ["c", "a", "b"]


def test_a_group_that_asks_a_task_twice_is_compared_task_by_task(work: Workplace) -> None:
    group(work, "[a@mcqa, a@cloze, b@mcqa]")
    for seed in ("1", "2"):
        run(work, "g", "--model_args", f"seed={seed}")
    assert {block["task"] for block in compared(work)} == {"a", "b"}


def test_under_every_format_a_group_has_scores_where_its_tasks_have_them(work: Workplace) -> None:
    group(work, metric="acc_bytes")
    run(work, "g@*", "--limit", "2")
    assert {"g@cloze", "g@mcqa"} <= work.results()["group_subtasks"].keys()
    assert "g@cloze" in work.results()["groups"]
    assert "g@mcqa" not in work.results()["groups"]
    done = work.run("--tasks", "g@mcqa", "--include_path", ".")
    assert "Group 'g@mcqa' aggregates 'acc_bytes'" in done.err


def test_a_damaged_list_of_tasks_is_said(work: Workplace) -> None:
    run(work, "g@mcqa,g@cloze")
    path = next(work.output.rglob("results_*.json"))
    content = json.loads(path.read_text())
    for wrong in ([5], "a", None):
        path.write_text(json.dumps(content | {"group_subtasks": {"g@mcqa": wrong}}))
        work.cli("compare", "out").refused("`group_subtasks` of 'g@mcqa' is not a list of names")
    path.write_text(json.dumps(content | {"group_subtasks": {"g@mcqa": ["g@mcqa"]}}))
    assert [block["task"] for block in compared(work)] == list(SIZES)
