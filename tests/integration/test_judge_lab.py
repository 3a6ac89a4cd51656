"""Runs of judges in the format lab: nuggets as items, topics as clusters, prompt types as formats."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from lm_eval.cli import main
from lm_eval.lab.stored.measurement import align
from lm_eval.lab.stored.run import StoredRun, open_runs
from lm_eval.lab.stored.select import chosen
from lm_eval.registry import RUN_READERS
from nugget_eval.lab_runs import READER
from tests.support.nuggets.toy_judge import Question, ToyJudge, better_with_reasoning, gold, plain
from tests.support.nuggets.workplace import DATA, TOPICS, Outcome, Workplace
from tests.support.servers.faulty import FaultyServer

pytest.importorskip("aiohttp")
IS_INSTALLED = bool(metadata.entry_points(group="lm_eval.runs"))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if "nugget_eval" not in RUN_READERS:  # an installation from before the reader was added
        RUN_READERS.register("nugget_eval", READER)
    return Workplace(tmp_path)


def lab(work: Workplace, *argv: str) -> Outcome:
    """``lm-eval`` in the folder of the run."""
    out, err = io.StringIO(), io.StringIO()
    here = os.getcwd()
    os.chdir(work.folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(argv))
    finally:
        os.chdir(here)
    return Outcome(code, out.getvalue(), err.getvalue())


def compared(work: Workplace, *argv: str, style: Any = better_with_reasoning) -> None:
    """``nugget-eval compare`` over two prompt types and two format types."""
    with FaultyServer(ToyJudge(style)) as server:
        model = work.model(server.url)[:-2]
        work.cli(
            *("compare", *DATA, *model, *argv),
            *("--prompt_types", "short_cot,no_reasoning", "--format_types", "json,adaptive"),
        ).ok()


def opened(work: Workplace, folder: str = "out") -> StoredRun:
    (run,) = open_runs([work.folder / folder])
    return run


def test_a_comparison_is_one_run_with_a_result_for_each_trial(work: Workplace) -> None:
    compared(work, "--gold", gold(work))
    run = opened(work)
    assert run.model == "toy"
    assert sorted(run.names) == [
        "nuggets@no_reasoning×adaptive",
        "nuggets@no_reasoning×json",
        "nuggets@short_cot×adaptive",
        "nuggets@short_cot×json",
    ]
    found = {one.format: one for one in chosen([run])[0]}
    one = found["short_cot×json"]
    assert (one.task, one.metric, len(one.items)) == ("nuggets", "accuracy", 7)
    assert one.clusters == ("t1",) * 4 + ("t2",) * 3
    assert one.scores.tolist() == [1.0] * 7
    assert one.is_read is not None
    assert one.is_read.all()
    assert found["no_reasoning×json"].scores.mean() == pytest.approx(3 / 7)
    assert align(list(found.values())).scores.shape == (4, 7)
    comparison = json.loads((work.folder / "out/comparison.json").read_text())
    for name, folder in comparison["trials"].items():
        summary = json.loads((work.folder / "out" / folder / "summary.json").read_text())
        accuracy = summary["agreement"]["measures"]["accuracy"]["value"]
        assert found[name].scores.mean() == pytest.approx(accuracy)


@pytest.mark.parametrize("damaged", [None, "{}", "[", '{"trials": 1}'])
def test_the_first_trial_that_was_asked_for_is_the_default(
    work: Workplace, damaged: str | None
) -> None:
    compared(work, "--gold", gold(work))
    asked = ["short_cot×json", "short_cot×adaptive", "no_reasoning×json", "no_reasoning×adaptive"]
    if damaged is not None:
        (work.folder / "out/comparison.json").write_text(damaged)
        asked.sort()
    assert [one.format for one in chosen([opened(work)])[0]] == asked
    lab(work, "compare", "out", "--output_path", "found.json").ok()
    (found,) = json.loads((work.folder / "found.json").read_text())["comparisons"]
    assert found["default"] == asked[0]


def test_without_gold_the_gain_of_a_label_is_its_score(work: Workplace) -> None:
    compared(work)
    run = opened(work)
    found = {one.format: one for one in chosen([run])[0]}["short_cot×json"]
    assert found.metric == "gain"
    assert found.scores.tolist() == [1.0, 1.0, 0.0, 0.5, 1.0, 0.5, 0.0]
    assert "no gold labels" in run.results["notes"]["nuggets@short_cot×json"][0]


def test_a_missing_label_is_not_read_and_not_right(work: Workplace) -> None:
    def silent_on_t2(question: Question) -> str:
        return "I'd rather not." if "Ice" in question.prompt else plain(question)

    with FaultyServer(ToyJudge(silent_on_t2)) as server:
        work.run(server.url, "--gold", gold(work)).ok()
    (found,) = chosen([opened(work)])[0]
    assert found.scores.tolist() == [1.0] * 4 + [0.0] * 3
    assert found.is_read is not None
    assert found.is_read.tolist() == [True] * 4 + [False] * 3


def test_diff_of_two_prompt_types(work: Workplace) -> None:
    compared(work, "--gold", gold(work))
    formats = "short_cot×json,no_reasoning×json"
    done = lab(work, "diff", "out", "out", "--formats", formats, "--output_path", "diff.json").ok()
    (result,) = json.loads((work.folder / "diff.json").read_text())["results"]
    assert result["difference"] == pytest.approx(4 / 7)
    assert result["parts"]["prompts"] == pytest.approx(4 / 7)
    assert result["paired"]["test"] == "exact sign flips"  # over two topics
    assert result["paired"]["p"] == 0.5
    assert "prompts not stored" in " ".join(done.out.split()).lower()
    assert "Prompts differ because of: format." in " ".join(done.out.split())


def test_diff_of_two_folders(work: Workplace) -> None:
    compared(work, "--gold", gold(work))
    done = lab(work, "diff", "out/short_cot_json", "out/no_reasoning_json").ok()
    assert "A − B +.571" in " ".join(done.out.split())


def test_stored_prompts_are_compared(work: Workplace) -> None:
    compared(work, "--gold", gold(work), "--log_prompts")
    done = lab(
        work, "diff", "out", "out", "--formats", "no_reasoning×json,no_reasoning×adaptive"
    ).ok()
    assert "prompts       7 of 7 differ" in done.out
    assert "doc 0, from character" in done.out


def test_compare_and_power(work: Workplace) -> None:
    compared(work, "--gold", gold(work))
    done = lab(work, "compare", "out").ok()
    assert "nuggets · 7 items in 2 clusters · 4 formats · toy" in done.out
    assert "no_reasoning×json" in done.out
    power = lab(work, "power", "out").ok()
    assert "nuggets@no_reasoning×json" in " ".join(power.out.split())


def test_reread_with_another_format_type(work: Workplace) -> None:
    """Two answers in one reply: the one in the format that was asked for counts."""

    def twice(question: Question) -> str:
        right, wrong = list(question.labels), ["partial_support"] * len(question.labels)
        return f"{','.join(wrong)}\n\n{json.dumps(right)}"

    with FaultyServer(ToyJudge(twice)) as server:
        work.run(server.url, "--gold", gold(work), "--format_type", "json").ok()
    again = lab(
        work, "reread", "out", "--scorer", "nugget_labels,format_type=csv", "-o", "again.jsonl"
    ).ok()
    rows = [json.loads(line) for line in (work.folder / "again.jsonl").read_text().splitlines()]
    assert len(rows) == 7
    assert {row["item"] for row in rows[:2]} == {
        "topic t1, r1 nugget 1",
        "topic t1, r1 nugget 2",
    }
    stored = [label for labels in work.labels().values() for label in labels]
    assert [row["before"]["answer"] for row in rows] == stored
    assert None not in stored
    assert [row["after"]["no_answer"] for row in rows] == ["ambiguous"] * 7  # none is in CSV alone
    assert "7 lower" in " ".join(again.out.split())
    same = lab(work, "reread", "out", "--scorer", "nugget_labels,format_type=json")
    assert "Verdicts that flip" not in same.out


def test_reread_puts_labels_together_as_the_judge_did(work: Workplace) -> None:
    """Several orders, questions asked again, canaries of before: the same reader changes nothing."""
    count = iter(range(1000))

    def forgetful(question: Question) -> str:
        labels = list(question.labels)
        return json.dumps(labels if next(count) % 3 else labels[:-1])

    with FaultyServer(ToyJudge(forgetful)) as server:
        options = ("--permutations", "3", "--gold", gold(work))
        work.run(server.url, *options).ok()
    config = work.summary()["config"]["model"]["format_type"]
    path = work.folder / "out" / "replies.jsonl"
    old = [_with_canary(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in old))
    lab(
        *(work, "reread", "out", "--scorer", f"nugget_labels,format_type={config}"),
        *("-o", "again.jsonl"),
    ).ok()
    rows = [json.loads(line) for line in (work.folder / "again.jsonl").read_text().splitlines()]
    assert [row["after"]["answer"] for row in rows] == [row["before"]["answer"] for row in rows]


def _with_canary(row: dict[str, Any]) -> dict[str, Any]:
    """A reply as versions with canaries stored it: the first label is that of a made-up nugget."""
    reply = json.dumps(["not_support", *json.loads(row["reply"])])
    canary = {"kind": "absent", "text": "Nobody said this.", "place": 0}
    count = row["expected_count"] + 1
    return {**row, "reply": reply, "expected_count": count, "canaries": [canary], "alarm": None}


def test_replies_of_an_older_version_are_matched_by_topic(work: Workplace) -> None:
    compared(work, "--gold", gold(work))
    for path in work.folder.rglob("replies.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        old = [{k: v for k, v in row.items() if k not in ("item", "gold")} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in old))
    (found, *_) = chosen([opened(work)])[0]
    assert (found.metric, len(found.items)) == ("gain", 7)  # gold is not known without the replies


WRONG = {
    "reread out --scorer number": "is not a list of labels",
    "reread out --scorer nugget_labels --format cot": "--format 'cot' is in none of these runs",
    "diff out out --formats short_cot×json,x": "--format 'x' is in none of these runs",
    "reread out/nowhere --scorer nugget_labels": "There is no",
    "reread out --scorer nugget_labels,format_type=jsn": "not 'jsn'. Did you mean 'json'?",
    "compare out/short_cot_json": "Add a format: `nugget-eval compare --prompt_types",
    "power out/short_cot_json": "several formats (`nugget-eval compare --prompt_types",
}


def test_wrong_input(work: Workplace) -> None:
    def seven(question: Question) -> str:
        return f"7 {plain(question)}"

    compared(work, "--gold", gold(work), style=seven)
    for command, said in WRONG.items():
        lab(work, *command.split()).refused(said)


def test_a_gain_beside_an_accuracy_is_no_comparison(work: Workplace) -> None:
    compared(work, "--gold", gold(work), "--output_path", "a")
    compared(work, "--output_path", "b")
    done = lab(work, "diff", "a", "b", "--tasks", "nuggets@short_cot×json")
    assert "These are not the same measure: A is accuracy, B is gain." in done.out


def test_a_folder_of_something_else_is_left_to_others(work: Workplace) -> None:
    (work.folder / "else").mkdir()
    (work.folder / "else/summary.json").write_text("{}")
    assert not READER.reads(work.folder / "else")
    lab(work, "diff", "else", "else").refused("holds no results files")


def test_a_damaged_summary_is_told(work: Workplace) -> None:
    compared(work)
    (work.folder / "out/short_cot_json/summary.json").write_text("{}")
    lab(work, "diff", "out", "out").refused("is not a summary of `nugget-eval`")


@pytest.mark.skipif(not IS_INSTALLED, reason="installed before the entry point was added")
def test_the_installed_program_finds_the_reader(work: Workplace) -> None:
    compared(work, "--gold", gold(work))
    done = subprocess.run(
        [sys.executable, "-m", "lm_eval", "diff", "out/short_cot_json", "out/no_reasoning_json"],
        cwd=work.folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout


def test_topics_are_the_clusters_of_the_interval(work: Workplace) -> None:
    compared(work, "--gold", gold(work))
    formats = "no_reasoning×json,short_cot×json"
    lab(work, "diff", "out", "out", "--formats", formats, "--output_path", "diff.json").ok()
    (result,) = json.loads((work.folder / "diff.json").read_text())["results"]
    assert len(TOPICS) == 2
    assert result["scores"][0]["method"] == "t over 2 clusters, few clusters"


def test_prompt_and_format_types_are_compared_as_formats(work: Workplace) -> None:
    compared(work, "--gold", gold(work))
    done = lab(work, "compare", "out", "--output_path", "found.json", "--flips").ok()
    text = " ".join(done.out.split())
    assert "nuggets · " in text
    assert " formats · toy" in text
    (block,) = json.loads((work.folder / "found.json").read_text("utf-8"))["comparisons"]
    assert len(block["pairs"]) == 6
    assert block["num_clusters"] == len(TOPICS)


@pytest.mark.parametrize(
    ("file", "damage", "text"),
    [
        ("replies.jsonl", {"labels": ["support"]}, "`labels` is not what a judge writes"),
        ("replies.jsonl", {"nuggets": 3}, "`nuggets` is not what a judge writes"),
        ("replies.jsonl", {"item": "x"}, "`item` is not what a judge writes"),
        ("replies.jsonl", {"span": "ab"}, "`span` is not what a judge writes"),
        ("replies.jsonl", {"judge": None}, "`judge` is not what a judge writes"),
        ("summary.json", {"prompts": {"short_cot": [None]}}, "is damaged: `config`"),
        ("summary.json", {"config": {"model": {}, "data": {}}}, "is damaged: `config`"),
    ],
)
def test_damaged_files_are_one_message(
    work: Workplace, file: str, damage: dict[str, Any], text: str
) -> None:
    compared(work)
    path = next((work.folder / "out").rglob(file))
    first, *rest = (
        path.read_text("utf-8").splitlines() if file.endswith("l") else [path.read_text()]
    )
    path.write_text("\n".join([json.dumps(json.loads(first) | damage), *rest]), "utf-8")
    lab(work, "reread", "out", "--scorer", "nugget_labels").refused(text, path.name)
