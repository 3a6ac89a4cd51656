"""Files are whole or not there, and a place that cannot be written is found before the run."""

import errno
import json
import os
from datetime import datetime
from functools import partial

import pytest

from lm_eval.errors import OutputError
from lm_eval.reports import writer as files
from lm_eval.reports.writer import ResultWriter
from lm_eval.support.encode import task_hash
from lm_eval.support.files import remove_abandoned

NOW = datetime(2026, 1, 2, 3, 4, 5, 6)
TIME = "2026-01-02T03-04-05.000006"


def sample(doc_id, **more):
    hashes = {f"{part}_hash": f"{part}{doc_id}" for part in ("doc", "prompt", "target")}
    return {"doc_id": doc_id, **hashes, **more}


def names(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_names_are_those_of_the_harness(tmp_path):
    writer = ResultWriter(tmp_path / "out", "org/tiny", now=NOW)
    writer.add_sample("demo@mcq::gpqa", sample(0))
    path = writer.finish({"results": {}})
    assert path == tmp_path / "out" / "org__tiny" / f"results_{TIME}.json"
    assert names(tmp_path) == [path.name, f"samples_demo@mcq__gpqa_{TIME}.jsonl"]
    assert json.loads(path.read_text())["samples_files"] == {
        "demo@mcq::gpqa": f"samples_demo@mcq__gpqa_{TIME}.jsonl"
    }


def test_samples_are_readable_while_the_run_goes_on(tmp_path):
    with ResultWriter(tmp_path, "m", now=NOW) as writer:
        writer.add_sample("demo", sample(0, text="é\ud800\u2028"))
        partial = writer.samples_path("demo").with_name(f"samples_demo_{TIME}.jsonl.partial")
        assert lines(partial) == [sample(0, text="é\ud800\u2028")]
        assert not writer.samples_path("demo").exists()
    assert names(tmp_path) == [partial.name]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_run_that_ends_beside_it_takes_no_file_away(tmp_path, monkeypatch, order):
    """Whenever another run clears the folder of what killed ones left."""
    for name in ("fsync", "replace"):

        def cleared(call, *arguments):
            remove_abandoned(tmp_path / "m")
            return call(*arguments)

        monkeypatch.setattr(os, name, partial(cleared, getattr(os, name)))
    writer = ResultWriter(tmp_path, "m", now=NOW)
    for doc_id in order:
        writer.add_sample("demo", sample(doc_id))
    path = writer.finish({"results": {}})
    assert lines(writer.samples_path("demo")) == [sample(0), sample(1)]
    assert names(tmp_path) == [path.name, f"samples_demo_{TIME}.jsonl"]


def test_samples_end_in_the_order_of_their_docs_whatever_order_they_came_in(tmp_path):
    contents, hashes = [], []
    for place, order in enumerate(([0, 1, 2], [2, 0, 1])):
        with ResultWriter(tmp_path / str(place), "m", now=NOW) as writer:
            for doc_id in order:
                writer.add_sample("demo", sample(doc_id, text="ü" * doc_id))
            hashes.append(writer.task_hashes())
            writer.finish({})
            contents.append(writer.samples_path("demo").read_bytes())
        assert not any("partial" in name for name in names(tmp_path))
    assert contents[0] == contents[1]
    assert hashes[0] == hashes[1] == {"demo": task_hash([sample(i) for i in range(3)])}


def test_names_that_would_collide_do_not(tmp_path):
    with ResultWriter(tmp_path, "m", now=NOW) as writer:
        for name in ("a/b", "a:b", "A__b"):
            writer.add_sample(name, sample(0, name=name))
        writer.finish({})
        for name in ("a/b", "a:b", "A__b"):
            assert lines(writer.samples_path(name))[0]["name"] == name


def test_finish_twice_is_harmless(tmp_path):
    with ResultWriter(tmp_path, "m", now=NOW) as writer:
        writer.add_sample("demo", sample(0))
        assert writer.finish({"a": 1}) == writer.finish({"a": 1})
        assert len(lines(writer.samples_path("demo"))) == 1


def test_a_file_where_a_folder_is_needed(tmp_path):
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OutputError, match="There is a file where a folder is needed"):
            ResultWriter(path, "m")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_is_named_like_a_json_file(tmp_path):
    (tmp_path / "x.json").mkdir()
    assert ResultWriter(tmp_path / "x.json", "m").folder == tmp_path / "x.json" / "m"


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EACCES, "that you can write to"),
        (errno.EROFS, "that you can write to"),
        (errno.ENOSPC, "Free some space"),
    ],
)
def test_what_the_system_refuses_is_said_before_the_run(tmp_path, monkeypatch, code, advice):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.tempfile, "TemporaryFile", refuse)
    with pytest.raises(OutputError) as caught:
        ResultWriter(tmp_path, "m")
    assert os.strerror(code) in str(caught.value)
    assert advice in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="Permission denied"):
        ResultWriter(tmp_path / "x", "m")
    tmp_path.chmod(0o700)


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000])
def test_a_path_that_cannot_exist(path):
    with pytest.raises(OutputError, match="Cannot write results"):
        ResultWriter(path, "m")


def test_a_disk_that_fills_up_leaves_nothing_under_the_final_name(tmp_path, monkeypatch):
    writer = ResultWriter(tmp_path, "m", now=NOW)
    writer.add_sample("demo", sample(0))

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        writer.finish({})
    writer.close()
    assert names(tmp_path) == [f"samples_demo_{TIME}.jsonl.partial"]


def test_what_killed_runs_left_is_removed_at_the_end_of_another(tmp_path):
    pytest.importorskip("fcntl")
    for name in ("samples_t_2020.jsonl", "samples_t_2020.jsonl.sorted", "results_2020.json.123"):
        (tmp_path / "m" / f"{name}.partial").parent.mkdir(exist_ok=True)
        (tmp_path / "m" / f"{name}.partial").write_text("half")
    (tmp_path / "m" / "mine.partial").write_text("not written by a run")
    with ResultWriter(tmp_path, "m") as other, ResultWriter(tmp_path, "m") as writer:
        other.add_sample("t", sample(0))  # another process, still at work
        writer.finish({})
        left = sorted(path.name for path in (tmp_path / "m").glob("*.partial"))
        assert left == ["mine.partial", f"{other.samples_path('t').name}.partial"]
