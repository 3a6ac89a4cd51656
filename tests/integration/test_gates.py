"""``--require``: a run that fails a build when a score is too low."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.command_line import Workplace


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
        *("--require", "t@generate:acc>=0.25", "t@mcqa:acc>=1.01"),
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
        (["--require", "t@mcq:acc>=0.5"], "the run has no result 't@mcq'. Did you mean 't@mcqa'?"),
        (["--require", "t@mcqa:accuracy>=0.5"], "'t@mcqa' has no metric 'accuracy'."),
        (["--require", "t@mcqa:read>=0.5"], "'t@mcqa' has no metric 'read'."),
        (["--junit", "x.xml"], "--junit writes the conditions of --require, and there are none."),
    ],
)
def test_wrong_conditions_are_refused_before_anything_is_asked(
    place: Workplace, argv: list[str], message: str
) -> None:
    done = place.run("--tasks", "t.yaml@mcqa", *argv)
    assert done.code == 1
    assert message in " ".join(done.err.split())
    assert not list(place.output.rglob("results_*.json"))
