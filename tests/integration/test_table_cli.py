"""``lm-eval table``, ``load_results`` and ``load_samples`` on runs whose scores are known."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import lm_eval
from lm_eval.errors import ComparisonError, LmEvalWarning, MissingExtraError, UsageError
from lm_eval.registry import MODELS
from tests.support.command_line import Workplace
from tests.support.known_model import KnownLM

FORMATS = "t.yaml@mcqa,t.yaml@cloze,t.yaml@generate"


@pytest.fixture
def work(tmp_path: Path, own_registries: None) -> Workplace:
    for name in ("known", "other"):
        MODELS.register(name, KnownLM)
    place = Workplace(tmp_path)
    rows = [
        {"question": f"Q{at}?", "choices": ["w", "x", "y", "z"], "answer": at % 4, "level": at % 2}
        for at in range(40)
    ]
    place.write("docs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    place.task()
    return place


def run(work: Workplace, *argv: str, model: str = "known") -> None:
    work.run(*argv, model=model).ok()


def table(work: Workplace, *argv: str) -> str:
    done = work.cli("table", str(work.output), *argv).ok()
    return done.out


def records(work: Workplace, *argv: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(table(work, "--to", "json", *argv))["scores"]
    return found


def refused(work: Workplace, *argv: str) -> str:
    done = work.cli("table", str(work.output), *argv)
    assert done.code == 1, done.out
    assert "Traceback" not in done.err
    return done.err


def test_formats_are_columns_and_the_caption_says_what_all_share(work: Workplace) -> None:
    run(work, "--tasks", FORMATS, "--model_args", "unread=4")
    lines = table(work).splitlines()
    assert lines[0] == "| Task | mcqa | cloze | generate |"
    assert lines[2].startswith(r"| t | 1.000 \[.91, 1.00\] | .500 \[.35, .65\] | .750 ")
    caption = lines[-1]
    assert caption.startswith(
        "acc with 95 % intervals. Model known, 0-shot, n = 40. Formats: mcqa v"
    )
    facts = work.results()["formats"]["t@mcqa"]
    assert f"mcqa v{facts['version']} ({facts['fingerprint']})" in caption
    assert "An answer was found in 75 % of the replies of t@generate." in caption


def test_marks_are_paired_tests_adjusted_for_the_whole_table(work: Workplace) -> None:
    run(work, "--tasks", FORMATS, "--model_args", "unread=4")
    found = {row["format"]: row for row in records(work, "--baseline", "mcqa")}
    assert found["mcqa"]["p"] is None
    assert found["cloze"]["difference"] == -0.5
    p = {"cloze": 2 * 0.5**20, "generate": 2 * 0.5**10}
    assert found["cloze"]["p"] == pytest.approx(p["cloze"])
    assert found["cloze"]["p_adjusted"] == pytest.approx(2 * p["cloze"])
    assert found["generate"]["p_adjusted"] == pytest.approx(p["generate"])
    assert [found[name]["verdict"] for name in ("cloze", "generate")] == ["real", "confounded"]
    text = table(work, "--baseline", "mcqa")
    assert r".500\* \[" in text
    assert r".750† \[" in text
    assert "Holm-adjusted for 2 comparisons" in text


def test_shots_and_models_are_dimensions(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa")
    run(work, "--tasks", "t.yaml@mcqa", "--num_fewshot", "2")
    run(work, "--tasks", "t.yaml@mcqa", "--model_args", "mcqa=2", model="other")
    message = refused(work, "--rows", "task", "--columns", "model")
    assert "these also differ in shots (0-shot, 2-shot)" in message
    assert "Add shots to --rows or --columns." in message
    lines = table(work, "--rows", "model", "--columns", "shots").splitlines()
    assert lines[0] == "| Model | 0-shot | 2-shot |"
    assert lines[2:4] == [
        r"| known | 1.000 \[.91, 1.00\] | 1.000 \[.91, 1.00\] |",
        r"| other | .500 \[.35, .65\] | – |",
    ]
    found = records(work, "--baseline", "known", "--rows", "model,shots")
    assert [row["verdict"] for row in found] == [None, None, "real"]
    assert "0-shot" in refused(work, "--baseline", "0-short")


@pytest.mark.parametrize("stored", [False, True])
def test_scores_by_a_field_of_the_docs(work: Workplace, stored: bool) -> None:
    work.task(**({"score_by": "level"} if stored else {}))
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze", "--model_args", "cloze=2")
    found = records(work, "--by", "level", "--baseline", "mcqa")
    rows = {(row["part"], row["format"]): row for row in found}
    samples = [s for s in work.samples("t@cloze") if s["doc"]["level"] == 1]
    right = sum(sample["acc"] for sample in samples)
    assert rows["1", "cloze"]["n"] == len(samples) == 20
    assert rows["1", "cloze"]["score"] == pytest.approx(right / 20)
    assert {rows["0", "cloze"]["verdict"], rows["1", "cloze"]["verdict"]} == {
        "real",
        "inconclusive",
    }
    lines = table(work, "--by", "level", "--rows", "level").splitlines()
    assert lines[0] == "| level | mcqa | cloze |"
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| 0", "| 1"]


def test_what_is_known_of_all_docs_is_not_said_of_a_part(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@generate")
    (row,) = records(work)
    assert (row["share_read"], row["missing"]) == (1.0, 0)
    parts = records(work, "--by", "level")
    assert [(row["share_read"], row["missing"]) for row in parts] == [(None, None)] * 2


def test_a_field_that_is_not_there_is_named(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa")
    message = refused(work, "--by", "levle")
    assert "have no field 'levle'. Did you mean 'level'? Fields: answer, choices" in message
    assert "holds a list" in refused(work, "--by", "choices")


def test_groups_come_first_and_replace_their_tasks_where_named(work: Workplace) -> None:
    work.task("u.yaml", task="u")
    work.write(
        "g.yaml",
        json.dumps(
            {
                "group": "g",
                "task": ["t", "u"],
                "aggregate_metric_list": [{"metric": "acc", "weight_by_size": True}],
            }
        ),
    )
    run(work, "--tasks", "g@mcqa,g@cloze", "--include_path", str(work.folder))
    lines = table(work).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:5]] == ["| g", "| t", "| u"]
    assert lines[0] == "| Task | n | mcqa | cloze |"
    assert "| g | 80 |" in lines[2]
    assert [row["task"] for row in records(work, "--tasks", "g")] == ["g", "g"]
    found = records(work, "--tasks", "g", "--baseline", "mcqa")
    assert found[1]["verdict"] == "real"
    assert found[1]["p"] == pytest.approx(2 * 0.5**40)


def test_deleted_samples_leave_the_scores_without_marks(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze")
    for file in [*work.output.rglob("samples_*"), *work.output.rglob("items_*")]:
        file.unlink()
    done = work.cli("table", str(work.output), "--baseline", "mcqa").ok()
    assert "No score could be compared with mcqa item by item." in done.out
    assert "t@cloze is not compared with mcqa: " in done.err
    assert "has no samples of 't@" in refused(work, "--by", "level")


def test_results_of_eleutherais_harness(work: Workplace) -> None:
    results = {
        "results": {"arc": {"alias": "arc", "acc,none": 0.4, "acc_stderr,none": 0.05}},
        "configs": {"arc": {"task": "arc"}},
        "n-shot": {"arc": 5},
        "n-samples": {"arc": {"original": 100, "effective": 100}},
        "model_name": "m",
    }
    work.write("out/m/results_2026-01-01T00-00-00.000000.json", json.dumps(results))
    (row,) = records(work)
    assert (row["format"], row["shots"], row["n"]) == ("plain", 5, 100)
    assert row["low"] == pytest.approx(0.4 - 1.96 * 0.05, abs=1e-4)


def test_files_are_written_by_their_names(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze")
    done = work.cli("table", str(work.output), "--output_path", "scores.csv")
    assert done.out == "Written: scores.csv\n"
    rows = list(csv.DictReader(io.StringIO((work.folder / "scores.csv").read_text("utf-8"))))
    assert [float(row["score"]) for row in rows] == [1.0, 0.5]
    assert "name a file that ends in .md, .tex, .csv" in refused(work, "--output_path", "x.txt")
    assert "\\toprule" in table(work, "--to", "latex")
    assert "unknown value 'tex'" in refused(work, "--to", "tex")


def test_wrong_names(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa,t.yaml@cloze")
    assert "'formt' cannot make rows or columns. Did you mean 'format'?" in refused(
        work, "--rows", "formt"
    )
    assert "cannot make both the rows and the columns" in refused(
        work, "--rows", "task", "--columns", "task"
    )
    assert "--baseline 'mqca' is in none of these runs. Did you mean 'mcqa'?" in refused(
        work, "--baseline", "mqca"
    )
    assert "there is no metric acc_nrom. Did you mean 'acc_norm'?" in refused(
        work, "--metric", "acc_nrom"
    )
    message = work.cli("table", "otu").err
    assert "There is no 'otu'. Did you mean 'out'?" in message
    assert "Folders near it with runs: out." in message
    (work.folder / "empty").mkdir()
    message = work.cli("table", "empty").err
    assert "'empty' holds no results files" in message
    assert "Folders near it with runs: out." in message


# load_results, load_samples


def test_results_and_samples_as_rows(work: Workplace) -> None:
    run(work, "--tasks", FORMATS, "--model_args", "unread=4")
    rows = lm_eval.load_results(work.output, as_frame=False)
    scores = {(row["format"], row["metric"]): row for row in rows}
    assert scores["cloze", "acc"]["score"] == 0.5
    assert scores["generate", "acc_read"]["n"] == 30
    assert scores["mcqa", "acc"]["is_score"] is True
    samples = lm_eval.load_samples(work.output, as_frame=False)
    assert len(samples) == 120
    scored = next(row for row in samples if row["format"] == "cloze")
    assert scored["picked"] == scored["loglikelihoods"].index(max(scored["loglikelihoods"]))
    assert scored["answer"] == "wxyz"[scored["picked"]]
    assert scored["acc"] == float(scored["picked"] in scored["gold"])
    read = [row for row in samples if row["format"] == "generate"]
    assert sum(row["no_answer"] is not None for row in read) == 10
    assert all(isinstance(row["reply"], str) for row in read)
    assert read[0]["doc"]["question"] == "Q0?"


def test_a_data_frame_where_pandas_is(work: Workplace) -> None:
    pandas = pytest.importorskip("pandas")
    run(work, "--tasks", FORMATS)
    frame = lm_eval.load_samples(work.output)
    assert isinstance(frame, pandas.DataFrame)
    assert frame.groupby("format")["acc"].mean()["cloze"] == 0.5
    assert lm_eval.load_results(work.output)["score"].dtype == float


def test_plain_rows_where_pandas_is_not(work: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    run(work, "--tasks", "t.yaml@mcqa")
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert isinstance(lm_eval.load_results(work.output), list)
    with pytest.raises(MissingExtraError, match="pip install pandas"):
        lm_eval.load_results(work.output, as_frame=True)


def test_a_samples_file_that_is_still_growing(work: Workplace) -> None:
    run(work, "--tasks", "t.yaml@mcqa")
    file = next(work.output.rglob("samples_*.jsonl"))
    growing = file.with_name(f"{file.name}.partial")
    growing.write_bytes(file.read_bytes()[:-30])
    with pytest.warns(LmEvalWarning, match="the last line is not whole and is left out"):
        rows = lm_eval.load_samples(growing, as_frame=False)
    assert [row["doc_id"] for row in rows] == list(range(39))
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(ComparisonError, match="line 40 is not JSON"):
        lm_eval.load_samples(work.output, as_frame=False)


def test_a_file_of_data_is_not_one_of_samples(work: Workplace) -> None:
    data = work.folder / "questions.jsonl"
    data.write_text('{"question": "1 + 1?"}\n', "utf-8")
    with pytest.raises(ComparisonError, match="is not a samples file: a line has no `doc_id`"):
        lm_eval.load_samples(data, as_frame=False)
    with pytest.raises(ComparisonError, match=r"is not a results file\. Give one"):
        lm_eval.load_results(data, as_frame=False)


@pytest.mark.parametrize("load", [lm_eval.load_results, lm_eval.load_samples])
@pytest.mark.parametrize("path", [42, None, [3.5]])
def test_what_is_no_path_is_an_error_that_says_what_to_give(load: Any, path: Any) -> None:
    with pytest.raises(UsageError, match=r"path is .*\. Give a results file, a folder with"):
        load(path)


def test_numbers_of_samples_without_any(work: Workplace) -> None:
    """Samples of EleutherAI's harness have log-likelihoods as texts alone."""
    run(work, "--tasks", "t.yaml@cloze")
    file = next(work.output.rglob("samples_*.jsonl"))
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    picked = [line.pop("scored")["picked"] for line in lines]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    rows = lm_eval.load_samples(work.output, as_frame=False)
    assert [row["picked"] for row in rows] == picked
