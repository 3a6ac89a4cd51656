"""``score_by`` in a task's YAML: parts of the docs in the table, the results, the samples and items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval.cli import main
from lm_eval.reports.items import ItemColumns
from lm_eval.stats.clusters import clustered_estimate
from lm_eval.stats.estimates import mean_estimate

DOCS = [
    {
        "question": f"Question {at}?",
        "choices": ["a", "b"],
        "answer": at % 2,
        "subject": ["law", "art", "law", None][at % 4],
        "passage": f"p{at // 3}",
        "level": at,
    }
    for at in range(24)
]
TASK = {
    "task": "t",
    "dataset_path": "rows.jsonl",
    "test_split": "test",
    "doc_to_text": "question",
    "doc_to_choice": "choices",
    "doc_to_target": "answer",
    "formats": "mcqa",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text("".join(f"{json.dumps(doc)}\n" for doc in DOCS))


def run(*more: str, **changes: Any) -> dict[str, Any]:
    task = {key: value for key, value in {**TASK, **changes}.items() if value is not None}
    Path("t.yaml").write_text(json.dumps(task))
    arguments = ["--model", "dummy", "--log_samples", "--output_path", "out", *more]
    code = main(["run", "--tasks", "t.yaml", *arguments])
    assert code == 0
    return dict(json.loads(next(Path("out/dummy").glob("results_*.json")).read_text()))


def samples() -> list[dict[str, Any]]:
    text = next(Path("out/dummy").glob("samples_t_*.jsonl")).read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("plain", [False, True])
def test_each_part_has_its_score_and_interval(plain: bool) -> None:
    more = {"formats": None, "output_type": "multiple_choice"} if plain else {}
    found = run(score_by="subject", **more)["score_by"]["t"]["subject"]
    assert list(found) == ["(none)", "art", "law"]
    for part, scores in found.items():
        values = [s["acc"] for s in samples() if s["parts"] == {"subject": part}]
        expected = mean_estimate(values)
        assert scores["n"] == len(values)
        assert scores["acc,none"] == pytest.approx(expected.value)
        assert scores["acc_ci95,none"] == pytest.approx([expected.low, expected.high])


def test_several_fields_and_names(capsys: pytest.CaptureFixture[str]) -> None:
    found = run(score_by=["subject", "{{ level % 12 }}"])
    assert list(found["score_by"]["t"]) == ["subject", "{{ level % 12 }}"]
    printed = " ".join(capsys.readouterr().out.split())
    assert "mcqa by subject: (none) " in printed
    assert "mcqa by {{ level % 12 }}: 12 parts, from " in printed
    assert "--table full lists them" in printed


def test_intervals_are_over_clusters_where_the_task_has_them() -> None:
    pytest.importorskip("scipy")
    found = run(score_by={"s": "subject"}, cluster="passage")["score_by"]["t"]["s"]["law"]
    law = [s for s in samples() if s["parts"] == {"s": "law"}]
    expected = clustered_estimate([s["acc"] for s in law], [s["cluster"] for s in law])
    assert found["acc_stderr,none"] == pytest.approx(expected.stderr)


def test_items_carry_the_parts() -> None:
    run(score_by="subject")
    items = json.loads(next(Path("out/dummy").glob("items_*.json")).read_text())["items"][0]
    assert items["parts"]["subject"]["names"] == ["(none)", "art", "law"]
    columns = ItemColumns.from_dict(items)
    assert columns.parts["subject"][:4] == ["law", "art", "law", "(none)"]
    items["parts"]["subject"]["codes"][0] = 99
    with pytest.raises(ValueError, match="without names"):
        ItemColumns.from_dict(items)


def test_without_it_nothing_changes() -> None:
    assert "score_by" not in run()
    assert "parts" not in samples()[0]
    items = json.loads(next(Path("out/dummy").glob("items_*.json")).read_text())["items"][0]
    assert "parts" not in items


@pytest.mark.parametrize(
    ("score_by", "said"),
    [
        ("subjet", "Did you mean 'subject'?"),
        ("choices", "a doc is in one part"),
        ("{{ subject", "not valid Jinja"),
        (5, "such as `score_by: subject`"),
        ([], "such as `score_by: subject`"),
        ([["a"]], "such as `score_by: subject`"),
    ],
)
def test_wrong_fields_are_told_before_anything_is_asked(
    score_by: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("t.yaml").write_text(json.dumps({**TASK, "score_by": score_by}))
    assert main(["run", "--tasks", "t.yaml", "--model", "dummy"]) != 0
    error = capsys.readouterr().err
    assert said in " ".join(error.split())
    assert "score_by" in error
    assert main(["validate", "--tasks", "t.yaml"]) != 0


def test_docs_drawn_at_random_are_spread_over_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = {}
    for count in ("4", "8"):
        for folder in Path().glob("out/dummy/*"):
            folder.unlink()
        results = run("--limit", count, "--sample", "random", score_by="subject")
        assert f"{count} of 24 items, drawn at random, seed 0" in capsys.readouterr().out
        assert results["config"]["sample"] == "drawn at random, seed 0"
        drawn[count] = {sample["doc_id"]: sample["parts"]["subject"] for sample in samples()}
    parts = list(drawn["8"].values())
    assert [parts.count(part) for part in ("law", "art")] == [4, 2]
    assert drawn["4"].items() < drawn["8"].items()
    assert list(drawn["8"]) != list(range(8))
    for folder in Path().glob("out/dummy/*"):
        folder.unlink()
    run("--limit", "8", "--sample", "random", "--seed", "1", score_by="subject")
    assert {sample["doc_id"] for sample in samples()} != set(drawn["8"])


def test_samples_may_name_tasks_of_other_commands() -> None:
    run("--samples", '{"t": [3, 5], "of_another_command": [0]}')
    assert [sample["doc_id"] for sample in samples()] == [3, 5]
