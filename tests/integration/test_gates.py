"""``--require`` and ``compare --fail_if_worse``: builds that fail when a score is too low, or fell."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from lm_eval.registry import MODELS
from tests.support.command_line import Outcome, Workplace
from tests.support.known_model import KnownLM
from tests.support.paths import ROOT, SOURCE


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    place = Workplace(tmp_path)
    place.task()
    return place


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("t@generate:acc>=0.25", 0),
        ("t@generate:acc>0.25", 3),
        ("t@generate:acc.low>=0.2", 3),
        ("t@generate:acc.high>=0.2", 0),
        ("t@generate:read>=1", 0),
        ("t@generate:acc <= 0.25", 0),
        ("t@generate:acc<0.1", 3),
    ],
)
def test_the_exit_code_says_whether_it_holds(place: Workplace, condition: str, code: int) -> None:
    done = place.run(
        *("--tasks", "t.yaml@generate", "--model_args", "reply=The best answer is C."),
        *("--require", condition),
    )
    assert done.code == code, done.out + done.err
    assert f"{'ok' if code == 0 else 'failed':9}{condition}" in done.out
    assert len(list(place.output.rglob("results_*.json"))) == 1  # written all the same


def test_several_conditions_and_a_junit_file(place: Workplace) -> None:
    done = place.run(
        *("--tasks", "t.yaml@generate,t.yaml@mcqa", "--model_args", "reply=The best answer is C."),
        *("--require", "t@generate:acc>=0.25", "t@mcqa:acc>1"),
        *("--junit", str(place.folder / "deep" / "gate.xml")),
    )
    assert done.code == 3
    suite = ElementTree.parse(place.folder / "deep" / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    passed, failed = suite
    assert (passed.get("classname"), list(passed)) == ("t@generate", [])
    assert failed[0].tag == "failure"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--require", "acc>=0.5"],
            "--require 'acc>=0.5' is not a condition. Write TASK:METRIC>=NUMBER",
        ),
        (["--require", "t@mcqa:acc>=high"], "is not a condition"),
        (["--require", "t@mcqa:acc>=nan"], "is not a condition"),
        (["--require", "t@mcq:acc>=0.5"], "the run has no result 't@mcq'. Did you mean 't@mcqa'?"),
        (["--require", "t@mcqa:accuracy>=0.5"], "'t@mcqa' has no metric 'accuracy'."),
        (["--require", "t@mcqa:read>=0.5"], "'t@mcqa' has no metric 'read'."),
        (
            ["--require", "t@mcqa:acc>=60"],
            "acc is between 0 and 1, so this never holds. Write a share",
        ),
        (["--require", "t@mcqa:acc.low<60"], "acc is between 0 and 1, so this always holds."),
        (["--summary", "x.md", "--predict_only"], "--summary needs scores, and --predict_only"),
        (["--summary", "."], ". cannot be written: Is a directory. Choose a place"),
        (
            ["--require", "t@mcqa:acc>=0", "--junit", "t.yaml/x.xml"],
            "cannot be written: Not a directory",
        ),
        (["--junit", "x.xml"], "--junit writes the conditions of --require, and there are none."),
    ],
)
def test_wrong_conditions_are_refused_before_anything_is_asked(
    place: Workplace, argv: list[str], message: str
) -> None:
    place.run("--tasks", "t.yaml@mcqa", *argv).refused(message)
    assert not list(place.output.rglob("results_*.json"))


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("p:accuracy>=0.5", "'p' has no metric 'accuracy'. Metrics: acc, acc_norm."),
        ("p:read>=0.5", "'p' has no metric 'read'."),
        ("g:acc_norm>=0.5", "'g' has no metric 'acc_norm'. Metrics: acc."),
    ],
)
def test_metrics_of_plain_tasks_and_groups_are_known_before_anything_is_asked(
    place: Workplace, condition: str, message: str
) -> None:
    place.task("p.yaml", task="p", formats=..., output_type="multiple_choice")
    group = {"group": "g", "task": ["p"], "aggregate_metric_list": [{"metric": "acc"}]}
    place.write("g.yaml", json.dumps(group))
    argv = ("--tasks", "g", "--include_path", str(place.folder))
    place.run(*argv, "--require", condition).refused(message)
    assert not list(place.output.rglob("results_*.json"))
    assert place.run(*argv, "--require", "g:acc>=0", "p:acc_norm>=0").code == 0


def test_metrics_of_permuted_choices_are_known(place: Workplace) -> None:
    argv = ("--tasks", "t.yaml@mcqa", "--permute", "cyclic")
    assert place.run(*argv, "--require", "t@mcqa:acc_debiased>=0").code == 0


def test_a_summary_of_a_run(place: Workplace) -> None:
    argv = ("--tasks", "t.yaml@generate,t.yaml@mcqa", "--model_args", "reply=The best answer is C.")
    conditions = ("--require", "t@generate:acc>=0.25", "t@mcqa:acc>1")
    done = place.run(*argv, *conditions, "--summary", "deep/summary.md")
    assert done.code == 3
    text = (place.folder / "deep/summary.md").read_text("utf-8")
    assert text.startswith("### lm-eval: 1 of 2 conditions not met\n")
    assert "| t@generate:acc\\>=0.25 | yes | .250 |" in text
    assert "| t@mcqa:acc\\>1 | **no** |" in text
    assert "| Task | generate | mcqa |" in text
    assert place.run(*argv, "--summary", "summary.md").code == 0
    assert "### lm-eval: scores" in (place.folder / "summary.md").read_text("utf-8")


# --output_path x.json


def test_results_go_to_exactly_the_file_that_is_named(place: Workplace) -> None:
    argv = ("run", "--model", "dummy", "--tasks", "t.yaml", "--output_path", "deep/x.json")
    for _ in range(2):
        done = place.cli(*argv).ok()
        assert "deep/x.json" in done.out
    results = json.loads((place.folder / "deep/x.json").read_text("utf-8"))
    assert (place.folder / "deep" / results["items_file"]).is_file()
    assert (place.folder / "deep" / results["samples_files"]["t"]).is_file()
    place.cli("run", "--model", "dummy", "--tasks", "t.yaml@cloze", "--output_path", "deep/y.json")
    assert "· 20 items · 2 formats ·" in place.cli("compare", "deep").out


def test_a_file_that_holds_something_else_is_not_replaced(place: Workplace) -> None:
    place.write("mine.json", '{"a": 1}')
    place.cli("run", "--model", "dummy", "--tasks", "t.yaml", "--output_path", "mine.json").refused(
        "'mine.json' exists and is not a results file, so it is not replaced."
    )
    assert (place.folder / "mine.json").read_text() == '{"a": 1}'


# --fail_if_worse


@pytest.fixture
def runs(tmp_path: Path, own_registries: None) -> Workplace:
    """``old.json`` and runs of a model that is worse, or hardly so."""
    MODELS.register("known", KnownLM)
    place = Workplace(tmp_path)
    place.rows(count=40)
    place.task()
    for name, args in {"old": "", "worse": "mcqa=4", "hardly": "mcqa=20"}.items():
        measured(place, f"{name}.json", args)
    return place


def measured(
    place: Workplace, path: str, args: str = "", tasks: str = "t.yaml@mcqa,t.yaml@cloze", *more: str
) -> None:
    arguments = ("--model_args", args) if args else ()
    place.cli(
        *("run", "--model", "known", "--tasks", tasks, "--output_path", path, *arguments, *more)
    ).ok()


def gate(place: Workplace, *argv: str) -> Outcome:
    return place.cli("compare", *argv)


def test_a_drop_beyond_luck_fails(runs: Workplace) -> None:
    done = gate(
        *(runs, "old.json", "worse.json", "--fail_if_worse"),
        *("--junit", "j.xml", "--summary", "s.md", "--output_path", "r.json"),
    )
    assert done.code == 3, done.err
    assert (
        "Worse: 1 of 2 results (paired exact McNemar, two-sided, adjusted for 2 by Holm" in done.out
    )
    found = json.loads((runs.folder / "r.json").read_text("utf-8"))
    change = {one["name"]: one for one in found["changes"]}
    assert change["t@mcqa"]["difference"] == -0.25
    assert change["t@mcqa"]["p"] == pytest.approx(2 * 0.5**10)
    assert change["t@mcqa"]["p_adjusted"] == pytest.approx(4 * 0.5**10)
    assert [change[name]["verdict"] for name in ("t@mcqa", "t@cloze")] == ["worse", "ok"]
    suite = ElementTree.parse(runs.folder / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    message = suite.find("testcase/failure")
    assert message is not None
    assert message.get("message") == "acc fell from 1.000 to .750, p = .004"
    summary = (runs.folder / "s.md").read_text("utf-8")
    assert "| t@mcqa | 1.000 | .750 | −.250 " in summary


def test_a_drop_within_luck_and_a_gain_pass(runs: Workplace) -> None:
    done = gate(runs, "old.json", "hardly.json", "--fail_if_worse").ok()
    assert "Nothing is worse: 2 results" in done.out
    assert "a smaller one may pass." in " ".join(done.out.split())
    assert gate(runs, "worse.json", "old.json", "--fail_if_worse").code == 0


def test_the_level_is_the_one_that_is_stated(runs: Workplace) -> None:
    assert gate(runs, "old.json", "worse.json", "--fail_if_worse", "0.001").code == 0
    done = gate(runs, "old.json", "worse.json", "--fail_if_worse", "0.01")
    usual = gate(runs, "old.json", "worse.json", "--fail_if_worse")
    detects = [_detected(each.out, level) for each, level in ((usual, "5 %"), (done, "1 %"))]
    assert detects[1] == pytest.approx(
        1.22 * detects[0], abs=0.01
    )  # 3.42 against 2.80 standard errors
    assert done.code == 3
    assert "level 0.01" in done.out


def test_a_group_counts_as_one_result(runs: Workplace) -> None:
    runs.task("u.yaml", task="u")
    metrics = [{"metric": "acc", "weight_by_size": True}]
    runs.write(
        "g.yaml", json.dumps({"group": "g", "task": ["t", "u"], "aggregate_metric_list": metrics})
    )
    more = ("--include_path", str(runs.folder))
    measured(runs, "g_old.json", "", "g@mcqa", *more)
    measured(runs, "g_new.json", "mcqa=4", "g@mcqa", *more)
    done = gate(runs, "g_old.json", "g_new.json", "--fail_if_worse", "-o", "r.json")
    assert done.code == 3
    (change,) = json.loads((runs.folder / "r.json").read_text("utf-8"))["changes"]
    assert (change["name"], change["num_items"]) == ("g@mcqa", 80)


def test_only_results_and_items_are_needed(runs: Workplace) -> None:
    for file in runs.folder.glob("samples_*"):
        file.unlink()
    assert gate(runs, "old.json", "worse.json", "--fail_if_worse").code == 3


WRONG_PAIRS = {
    "old.json --fail_if_worse": "compares exactly two runs",
    "old.json worse.json --fail_if_worse 1.5": "--fail_if_worse: 1.5 is not a number > 0 and < 1",
    "old.json worse.json --junit x": "--junit writes what --fail_if_worse finds",
    "old.json worse.json --fail_if_worse --flips": "--flips is for the whole report",
    "old.json one.json --fail_if_worse": "The second run lacks what the first has",
    "old.json few.json --fail_if_worse": "not about the same items",
    "old.json shots.json --fail_if_worse": "t@mcqa, 0-shot",
}


def test_wrong_pairs_of_runs(runs: Workplace) -> None:
    measured(runs, "one.json", "", "t.yaml@mcqa")
    measured(runs, "few.json", "", "t.yaml@mcqa,t.yaml@cloze", "--limit", "10")
    measured(runs, "shots.json", "", "t.yaml@mcqa,t.yaml@cloze", "--num_fewshot", "2")
    for command, message in WRONG_PAIRS.items():
        gate(runs, *command.split()).refused(message)


def test_new_results_and_changed_formats_are_said(runs: Workplace) -> None:
    measured(runs, "one.json", "", "t.yaml@mcqa")
    done = gate(runs, "one.json", "old.json", "--fail_if_worse").ok()
    assert "New in the second run, so not compared: t@cloze, 0-shot." in " ".join(done.out.split())
    runs.task(doc_to_text="Please: {{question}}")
    measured(runs, "other.json")
    out = " ".join(gate(runs, "old.json", "other.json", "--fail_if_worse").out.split())
    assert "not the same in both runs, so a change may come from the prompts" in out


# The workflow of the page


STAND_IN = """#!{python}
import json, os, sys
from lm_eval.cli import main
from lm_eval.models.dummy import DummyLM
from lm_eval.registry import MODELS
from lm_eval.requests import Score

docs = [json.loads(line) for line in open({docs!r}, encoding="utf-8")]

class StandIn(DummyLM):
    "Right on all questions, except every k-th where the environment says so."
    def _score(self, request):
        question = str(request.context)
        at, doc = next((at, doc) for at, doc in enumerate(docs) if doc["question"] in question)
        wrong = int(os.environ["WRONG"]) and at % int(os.environ["WRONG"]) == 0
        is_gold = request.continuation.strip() == doc["choices"][doc["answer"]]
        return Score(-1.0 if is_gold != bool(wrong) else -9.0, is_greedy=False, tokens=1)

MODELS.register("stand_in", StandIn)
argv = sys.argv[1:]
sys.exit(main(argv + ["--model", "stand_in"] if argv[0] == "run" else argv))
"""


def workflow() -> list[dict[str, Any]]:
    page = (ROOT / "docs/ci.md").read_text("utf-8")
    block = re.search(r"```yaml\n(# .github/workflows/.*?)```", page, re.DOTALL)
    assert block is not None
    found: list[dict[str, Any]] = yaml.safe_load(block[1])["jobs"]["evaluate"]["steps"]
    return found


def executed(folder: Path, wrong: int) -> dict[str, int]:
    """Run the steps of the page as a service does; name → exit code."""
    codes: dict[str, int] = {}
    for step in workflow():
        if "run" not in step or step["run"].startswith("pip install"):
            continue
        if any(codes.values()) and step.get("if") != "always()":
            continue
        environment = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(SOURCE),
            "GITHUB_STEP_SUMMARY": str(folder / f"summary{len(codes)}"),
            "WRONG": str(wrong),
        }
        done = subprocess.run(
            ["bash", "-e", "-c", step["run"]],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        codes[step["name"]] = done.returncode
        assert done.returncode in (0, 3), done.stderr
    return codes


def test_the_workflow_of_the_page(tmp_path: Path) -> None:
    data = next((SOURCE / "lm_eval/tasks").rglob("demo_mcq.jsonl"))
    script = tmp_path / "lm-eval"
    script.write_text(STAND_IN.format(python=sys.executable, docs=str(data)), "utf-8")
    script.chmod(0o755)
    with_baseline = {**os.environ, "PYTHONPATH": str(SOURCE), "WRONG": "10"}
    argv = [str(script), "run", "--tasks", "demo_mcq@cloze", "--output_path", "baseline.json"]
    subprocess.run(argv, cwd=tmp_path, env=with_baseline, check=True, capture_output=True)
    assert executed(tmp_path, 10) == {"Scores": 0, "Not worse than the baseline": 0}
    assert "| demo_mcq@cloze | .900 | .900 |" in (tmp_path / "summary1").read_text("utf-8")
    assert executed(tmp_path, 2) == {"Scores": 0, "Not worse than the baseline": 3}
    assert executed(tmp_path, 1) == {"Scores": 3, "Not worse than the baseline": 3}
    assert "1 of 1 condition not met" in (tmp_path / "summary0").read_text("utf-8")
    assert ElementTree.parse(tmp_path / "worse.xml").getroot().get("failures") == "1"


def _detected(screen: str, level: str) -> float:
    """The change that the items could have shown, which the screen gives for this level."""
    text = " ".join(screen.split())
    found = re.search(
        rf"a true change of ([\d.]+) is found in 4 of 5 cases at the {level} level", text
    )
    assert found is not None, text
    return float(found[1])
