"""Which runs are found below a folder, and what is said where there are none."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import ComparisonError, UsageError
from lm_eval.lab.stored.run import folders_with_runs
from lm_eval.support.files import hold
from lm_eval.viewer.catalogue import Catalogue, UnfinishedRun, ViewedRun
from tests.support.command_line import Workplace
from tests.support.paths import ROOT
from tests.support.viewed_runs import four_formats

JUDGED = ROOT / "tests/fixtures/before_the_house/judged"


def test_runs_keep_their_id_wherever_the_folder_is(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=2)
    first = list(Catalogue([place.output]).runs)
    moved = tmp_path / "moved"
    place.output.rename(moved)
    assert list(Catalogue([moved]).runs) == first


def test_a_damaged_file_hides_no_other(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=2)
    bad = place.output / "dummy/results_2020-01-01T00-00-00.000000.json"
    bad.write_text("{")
    catalogue = Catalogue([place.output])
    assert len(catalogue.runs) == 1
    (problem,) = catalogue.problems
    assert str(bad) in problem.message
    bad.write_text(json.dumps({"results": {}}))
    catalogue.refresh()
    assert "is not a results file" in catalogue.problems[0].message


def test_new_runs_are_found_and_known_ones_stay_open(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=2)
    catalogue = Catalogue([place.output])
    before = dict(catalogue.runs)
    assert place.run("--tasks", "demo_mcq@mcqa", "--limit", "2").code == 0
    catalogue.refresh()
    assert len(catalogue.runs) == 2
    assert all(catalogue.runs[key] is run for key, run in before.items())


def test_an_unfinished_run_becomes_a_finished_one_under_the_same_id(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=2)
    results = next(place.output.rglob("results_*.json"))
    kept = results.read_bytes()
    results.unlink()
    path = next(place.output.rglob("samples_demo_mcq@mcqa_*"))
    partial = path.rename(path.with_name(f"{path.name}.partial"))
    catalogue = Catalogue([place.output])
    (run,) = catalogue.runs.values()
    assert isinstance(run, UnfinishedRun)
    assert sorted(run.names) == [f"demo_mcq@{one}" for one in ("cloze", "cot", "generate", "mcqa")]
    assert not run.is_running
    with partial.open("rb+") as file:
        hold(file)
        assert run.is_running
    assert not run.is_running
    partial.rename(path)
    results.write_bytes(kept)
    catalogue.refresh()
    assert list(catalogue.runs) == [run.id]
    assert isinstance(catalogue.runs[run.id], ViewedRun)


def test_runs_of_the_judge_are_found_through_the_entry_point() -> None:
    catalogue = Catalogue([JUDGED])
    assert sorted(len(run.names) for run in catalogue.runs.values()) == [1, 2]
    assert all(run.is_foreign for run in catalogue.runs.values())


def test_a_folder_without_runs_names_others(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=2)
    (tmp_path / "empty").mkdir()
    place.cli("view", "empty").refused("'empty' holds no runs", "Folders near it with runs: out")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    four_formats(tmp_path, limit=2)
    with pytest.raises(UsageError, match=r"There is no .*/oub'. Did you mean 'out'\?"):
        Catalogue([tmp_path / "oub"])


def test_nothing_anywhere(tmp_path: Path) -> None:
    deep = tmp_path / "a/b/c/d"
    deep.mkdir(parents=True)
    Workplace(deep).cli("view", ".").refused("Run something with --output_path")


def test_a_folder_that_cannot_be_listed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = four_formats(tmp_path, limit=2)
    (tmp_path / "out/locked").mkdir()
    listed = os.scandir

    def scandir(path: str) -> Any:
        if str(path).endswith("locked"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    catalogue = Catalogue([place.output])
    assert len(catalogue.runs) == 1
    assert [problem.message for problem in catalogue.problems] == [
        f"{tmp_path / 'out/locked'} cannot be read: Permission denied."
    ]


def test_environments_are_not_searched(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=2)
    for name in ("venv", "node_modules"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "results_2020-01-01T00-00-00.json").write_text("{}")
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    assert folders_with_runs(tmp_path) == [place.output]
    assert Catalogue([tmp_path]).problems == []


def test_a_run_that_was_deleted_is_said(tmp_path: Path) -> None:
    place = four_formats(tmp_path, limit=2)
    catalogue = Catalogue([place.output])
    with pytest.raises(ComparisonError, match="no run 'x' here now"):
        catalogue.run("x")


@pytest.mark.parametrize("flags", [["--port", "8000"], ["--open"]])
def test_an_export_serves_nothing(tmp_path: Path, flags: list[str]) -> None:
    Workplace(tmp_path).cli("view", ".", "--export", "x.html", *flags).refused(
        "--export writes files and serves nothing"
    )


def test_a_port_that_is_none(tmp_path: Path) -> None:
    Workplace(tmp_path).cli("view", ".", "--port", "70000").refused(
        "--port: 70000 is not a number >= 1 and <= 65,535"
    )
