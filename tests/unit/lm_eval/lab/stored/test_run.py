"""Runs on disk → measurements on the same items, or a message that says why not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lm_eval.errors import ComparisonError
from lm_eval.lab.stored import run as stored
from lm_eval.lab.stored.measurement import Measurement, align
from lm_eval.lab.stored.run import StoredRun, open_runs
from lm_eval.lab.stored.select import chosen

STAMP = "2026-01-02T03-04-05.000006"


def write_run(folder: Path, **changed: Any) -> Path:
    """A run as EleutherAI's harness leaves it: results and samples, no items file."""
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        "results": {"t": {"alias": "t", "acc,none": 0.5, "acc_stderr,none": 0.5}},
        "configs": {"t": {}},
        "higher_is_better": {"t": {"acc": True}},
        "n-shot": {"t": 0},
        "model_name": "m",
        **changed,
    }
    path = folder / f"results_{STAMP}.json"
    path.write_text(json.dumps(results))
    lines = [
        {"doc_id": i, "doc": {"q": i}, "doc_hash": f"{i:064x}", "metrics": ["acc"], "acc": i % 2}
        for i in range(4)
    ]
    samples = folder / f"samples_t_{STAMP}.jsonl"
    samples.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def measured(format_name: str = "a", **changed: Any) -> Measurement:
    keys: dict[str, Any] = {
        "run": "r",
        "model": "m",
        "task": "t",
        "format": format_name,
        "name": f"t@{format_name}",
        "metric": "acc",
        "higher_is_better": True,
        "items": ("0", "1", "2"),
        "scores": np.array([1.0, 0.0, 1.0]),
        "shots": ("", "", ""),
    }
    return Measurement(**(keys | changed))


def test_files_of_the_harness_are_read_from_their_samples(tmp_path: Path) -> None:
    path = write_run(tmp_path / "m")
    (run,) = open_runs([tmp_path, path])
    assert (run.model, run.names, run.format_of("t"), run.task_of("t")) == ("m", ["t"], None, "t")
    (one,) = chosen([run])[0]
    assert (one.task, one.format, one.metric) == ("t", "plain", "acc")
    assert one.scores.tolist() == [0, 1, 0, 1]
    assert one.is_read is None
    assert [sample["doc_id"] for sample in run.samples("t")] == [0, 1, 2, 3]


def refused(path: Path) -> str:
    with pytest.raises(ComparisonError) as error:
        [chosen([run])[0] for run in open_runs([path])]
    return str(error.value)


def test_what_is_no_run_is_refused_with_what_to_do(tmp_path: Path) -> None:
    assert "There is no" in refused(tmp_path / "nothing")
    assert "holds no results files" in refused(tmp_path)
    (tmp_path / "other.json").write_text("[1]")
    assert "holds no object" in refused(tmp_path / "other.json")
    (tmp_path / "other.json").write_text("{}")
    assert "no `results` and `configs`" in refused(tmp_path / "other.json")
    (tmp_path / "other.json").write_text("{")
    assert "is not JSON" in refused(tmp_path / "other.json")
    path = write_run(tmp_path)
    samples = tmp_path / f"samples_t_{STAMP}.jsonl"
    assert "is not a results file. Give one" in refused(samples)
    for line in (b"{\n", b'{"doc_id": "\xff"}\n'):
        samples.write_bytes(line)
        assert "line 1 is not JSON. The file is damaged" in refused(path)
    samples.unlink()
    message = refused(path)
    assert "has no samples of 't'" in message
    assert "--output_path" in message


def test_what_may_not_be_read_is_not_called_damaged(tmp_path: Path) -> None:
    results = write_run(tmp_path, items_file="items.json")
    items, samples = tmp_path / "items.json", tmp_path / f"samples_t_{STAMP}.jsonl"
    items.write_text(json.dumps({"items": []}))
    for closed in (tmp_path, results, items, samples):
        closed.chmod(0o000)
        if os.access(closed, os.R_OK):
            pytest.skip("this user may read everything")
        message = refused(tmp_path)
        assert message.startswith(str(closed)), message
        assert message.endswith(" cannot be read: Permission denied."), message
        closed.chmod(0o700)


def test_files_beside_the_results_alone_are_read(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.json").write_text("{")
    path = write_run(tmp_path / "m", items_file="../elsewhere.json")
    (run,) = open_runs([path])
    assert len(chosen([run])[0]) == 1


@pytest.mark.parametrize(
    ("changed", "flaw"),
    [
        ({"formats": []}, "`formats` is not a mapping"),
        ({"n-shot": None}, "`n-shot` is not a mapping"),
        ({"results": {"t": None}}, "`results` of 't' is not a mapping"),
        ({"formats": {"t": {}}}, "`formats` of 't' does not name the format"),
        ({"fingerprints": 3}, "`fingerprints` is not a mapping"),
        ({"primary_metrics": {"t": [1]}}, "`primary_metrics` of 't' is not a mapping"),
        ({"n-samples": {"t": "x"}}, "`n-samples` of 't' is not a mapping"),
        ({"configs": {"t": [1]}}, "`configs` of 't' is not a mapping"),
    ],
)
def test_a_damaged_results_file_is_named_with_what_to_do(
    tmp_path: Path, changed: dict[str, Any], flaw: str
) -> None:
    path = write_run(tmp_path, **changed)
    assert refused(path) == f"{path} is damaged: {flaw}. Run it again, or leave the file out."


def test_a_metric_that_is_no_number_is_named(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    samples = tmp_path / f"samples_t_{STAMP}.jsonl"
    text = samples.read_text()
    samples.write_text(text.replace('"acc": 1', '"acc": NaN'))
    assert "is not a number (NaN or None) on 2 of 4 items, the first is doc 1" in refused(path)
    samples.write_text(text.replace('"acc": ', '"f1": ').replace('["acc"]', '["f1"]'))
    assert "Metrics that have: f1" in refused(path)
    write_run(tmp_path, results={"t": {"alias": "t"}})
    assert "--predict_only" in refused(path)


def test_align_puts_equal_items_in_equal_places() -> None:
    other = measured(
        "b",
        items=("2", "0", "1"),
        scores=np.array([0.5, 0.25, 0.75]),
        clusters=("x", "y", "z"),
    )
    found = align([measured(), other])
    assert found.scores.tolist() == [[1, 0, 1], [0.25, 0.75, 0.5]]
    assert found.clusters == ("y", "z", "x")
    assert (found.is_binary, found.left_out) == (False, {})
    assert bool(found.is_read.all())


def test_different_items_are_intersected_only_when_asked() -> None:
    other = measured("b", items=("1", "2", "9"), is_read=np.array([True, False, True]))
    with pytest.raises(ComparisonError, match=r"2 are in all of them.*--intersect"):
        align([measured(), other])
    found = align([measured(), other], intersect=True)
    assert found.items == ("1", "2")
    assert found.is_read.tolist() == [[True, True], [True, False]]
    assert found.left_out == {"t@a (m)": 1, "t@b (m)": 1}
    with pytest.raises(ComparisonError, match="no item in common"):
        align([measured(), measured("b", items=("7", "8", "9"))], intersect=True)


def test_what_else_differs_is_refused() -> None:
    with pytest.raises(ComparisonError, match="different tasks"):
        align([measured(), measured(task="u")])
    with pytest.raises(ComparisonError, match="For some of these metrics higher is better"):
        align([measured(), measured("b", metric="loss", higher_is_better=False)])
    with pytest.raises(ComparisonError, match=r"different few-shot examples \(1 of 3 items"):
        align([measured(), measured("b", shots=("", "", "k"))])


def test_formats_are_told_from_plain_tasks() -> None:
    run = StoredRun(
        Path("r.json"),
        {
            "results": {"a@b": {}, "g": {}},
            "configs": {"a@b": {}, "gone": {}},
            "formats": {"a@b": {"format": "b"}},
        },
    )
    assert (run.names, run.task_of("a@b"), run.format_of("a@b")) == (["a@b"], "a", "b")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\xff\xfe\x00", "line 1 is not JSON"),
        (b"[" * 100_000, "line 1 is not JSON"),
        (b"[1]", "line 1 is not a sample: it holds no object"),
        (b'{"doc_id": "x"}', "line 1 is not a sample: `doc_id` is 'x'"),
        (b'{"doc_id": 0, "reading": [1]}', "line 1 is not a sample: `reading` is '[1]'"),
        (b'{"doc_id": 0, "resps": "A"}', "line 1 is not a sample: `resps` is 'A'"),
    ],
    ids=["bytes", "depth", "list", "doc_id", "reading", "resps"],
)
def test_a_line_that_is_no_sample_is_named(tmp_path: Path, line: bytes, said: str) -> None:
    path = write_run(tmp_path)
    (tmp_path / f"samples_t_{STAMP}.jsonl").write_bytes(line + b"\n")
    assert said in refused(path)


def test_costs_that_are_no_numbers_are_left_out(tmp_path: Path) -> None:
    costs = {"tasks": {"t": {"requests": None, "tokens_in": 7}}}
    (run,) = open_runs([write_run(tmp_path, accounting=costs)])
    assert chosen([run])[0][0].usage == {"tokens_in": 7}


@pytest.mark.parametrize(
    "change",
    [
        *("{", json.dumps({"items": 3}), json.dumps({"items": ["t"]})),
        {"doc_id": None},
        {"metrics": {"acc": [0]}},
        {"doc_id": [0, 1]},
        {"doc": 3},
        {"metrics": {"acc": ["x", 1, 0, 1]}},
        {"cluster": ["a"]},
        {"missing": None},
        {"name": [1]},
    ],
    ids=str,
)
def test_a_damaged_items_file_is_named(tmp_path: Path, change: str | dict[str, Any]) -> None:
    path = write_run(tmp_path, items_file="items.json")
    columns = {
        **{"name": "t", "filter": "none", "doc_id": [0, 1, 2, 3], "doc": "0123456789abcdef" * 4},
        **{"shots": "", "metrics": {"acc": [0, 1, 0, 1]}, "read": None, "missing": 0},
    }
    items = tmp_path / "items.json"
    items.write_text(json.dumps({"items": [columns]}))
    assert chosen([open_runs([path])[0]])[0][0].scores.tolist() == [0, 1, 0, 1]
    is_text = isinstance(change, str)
    items.write_text(change if is_text else json.dumps({"items": [columns | change]}))
    message = refused(path)
    assert f"{items} is damaged: " in message
    assert "Delete it, and the samples beside it are read instead." in message


def test_no_number_in_an_items_file_is_named_as_in_samples(tmp_path: Path) -> None:
    path = write_run(tmp_path, items_file="items.json")
    columns = {
        **{"name": "t", "filter": "none", "doc_id": [0, 1], "doc": "0123456789abcdef" * 2},
        **{"shots": "", "metrics": {"acc": [0, float("nan")]}, "read": None, "missing": 0},
    }
    (tmp_path / "items.json").write_text(json.dumps({"items": [columns]}))
    assert "is not a number (NaN or None) on 1 of 2 items, the first is doc 1" in refused(path)


# Runs of other packages

FOREIGN = "foreign.txt"


class ForeignReader:
    """Reads folders and files of another package, and remembers what it was asked about."""

    def __init__(self) -> None:
        self.asked: list[Path] = []

    def reads(self, path: Path) -> bool:
        self.asked.append(path)
        return path.name == FOREIGN or (path / FOREIGN).is_file()

    def open(self, path: Path) -> list[StoredRun]:
        return [StoredRun(path, {"results": {}, "configs": {}, "model_name": "foreign"})]


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> ForeignReader:
    reader = ForeignReader()
    monkeypatch.setattr(stored, "RUN_READERS", {"foreign": reader})
    return reader


def test_readers_of_other_packages_are_not_asked_about_plain_runs(
    tmp_path: Path, foreign: ForeignReader
) -> None:
    path = write_run(tmp_path / "out" / "model")
    assert len(open_runs([path, path.parent, tmp_path / "out", tmp_path])) == 1
    assert foreign.asked == []


def test_readers_of_other_packages_are_asked_first_about_what_they_may_have_written(
    tmp_path: Path, foreign: ForeignReader
) -> None:
    folder = tmp_path / "out"
    write_run(folder / "model")
    (folder / FOREIGN).touch()
    for path in (folder, folder / FOREIGN):  # mixed: theirs, with a run of ours below
        assert [run.model for run in open_runs([path])] == ["foreign"]
    assert [run.path.parent.name for run in open_runs([tmp_path])] == ["model"]


@pytest.mark.parametrize(
    ("beside", "imported"),
    [
        (None, []),
        (
            "notes.txt",
            ["nugget_eval", "nugget_eval.files", "nugget_eval.lab_runs"],
        ),
    ],
)
def test_comparing_plain_runs_imports_nothing_of_the_judge(
    tmp_path: Path, beside: str | None, imported: list[str]
) -> None:
    """What is not a run's file makes other packages look at the folder, and looking costs little."""
    write_run(tmp_path / "out")
    if beside is not None:
        (tmp_path / beside).touch()
    code = (
        "import sys; from lm_eval.cli import main; "
        f"main(['compare', {str(tmp_path)!r}]); "
        "print(sorted(name for name in sys.modules if name.startswith('nugget_eval')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    is_installed = bool(metadata.entry_points(group="lm_eval.runs"))
    assert done.stdout.splitlines()[-1] == str(imported if is_installed else []), done.stdout


CHOICES = "{{ choices | map('string') | list }}"


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"doc_to_text": "{{question}} {{choices[0]}}", "doc_to_choice": "choices"}, "shown"),
        (
            {
                "doc_to_text": "{{question}}",
                "doc_to_choice": CHOICES,
                "output_type": "multiple_choice",
            },
            "scored",
        ),
        ({"doc_to_text": "question", "doc_to_choice": CHOICES}, "hidden"),
        ({"doc_to_text": "question", "doc_to_choice": ["A", "B"]}, None),
        ({"doc_to_text": "def f(doc):\n    return '{{' + doc", "doc_to_choice": "choices"}, None),
        ({"doc_to_text": "question"}, None),
    ],
)
def test_files_that_do_not_say_whether_choices_are_shown_are_judged_by_their_fields(
    tmp_path: Path, config: dict[str, Any], kind: str | None
) -> None:
    (run,) = open_runs([str(write_run(tmp_path, configs={"t": config}))])
    (found,), _ = chosen([run])
    assert found.choices == kind


def test_files_that_say_whether_choices_are_shown_are_believed(tmp_path: Path) -> None:
    config = {"doc_to_text": "question", "doc_to_choice": "choices"}
    for shows, kind in (({"t": True}, "shown"), ({"t": False}, "hidden"), ({}, None)):
        path = write_run(tmp_path, configs={"t": config}, shows_choices=shows)
        (found,), _ = chosen(open_runs([str(path)]))
        assert found.choices == kind


def test_a_damaged_note_on_choices_is_said(tmp_path: Path) -> None:
    path = write_run(tmp_path, shows_choices=["t"])
    with pytest.raises(ComparisonError, match="`shows_choices` is not a mapping"):
        open_runs([str(path)])
