"""``lm-eval fetch``, and running from what it fetched where there is no network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Workplace
from tests.support.servers.data_hub import DataHub

pytest.importorskip("pyarrow")

from tests.integration.test_hub_data import (
    FIELDS,
    QUESTIONS,
    SCRIPT,
    SIMPLE,
    jsonl,
    readme,
)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[DataHub]:
    with DataHub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        hub.repos["org/data"] = {"main": SIMPLE}
        yield hub


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    place = Workplace(tmp_path)
    place.task(**FIELDS, dataset_path="org/data", fewshot_split="train")
    return place


def data_requests(hub: DataHub) -> list[str]:
    return [name.rpartition("/")[2] for name in hub.fetched()]


def test_fetch_carry_run(hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    done = place.cli("fetch", "t.yaml", "--to", "usb").ok()
    commit = hub.commit("org/data")
    sizes = sum(map(len, SIMPLE.values()))
    assert f"org/data: test, train; 2 files, {max(1, round(sizes / 1000))} KB" in done.out
    assert f"commit {commit[:12]}" in done.out
    assert (
        "in usb. There or wherever you copy it: `lm-eval run --tasks t.yaml --data_path usb`"
        in done.out
    )
    assert not any(path.is_symlink() for path in (place.folder / "usb").rglob("*"))
    shutil.copytree(place.folder / "usb", place.folder / "elsewhere")
    shutil.rmtree(place.folder / "usb")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_HOME", str(place.folder / "none"))
    done = place.run(
        "--tasks", "t.yaml", "-f", "2", "--log_samples", "--data_path", "elsewhere"
    ).ok()
    assert "warning" not in done.err
    assert [sample["doc"]["question"] for sample in place.samples("t")] == QUESTIONS
    assert place.results()["data"]["t"]["commit"] == commit
    assert not (place.folder / "none").exists()
    for command in (
        ("validate", "--tasks", "t.yaml"),
        ("preview", "t.yaml"),
        ("sweep", "--tasks", "t.yaml", "--formats", "2", "--model", "dummy"),
    ):
        assert place.cli(*command, "--data_path", "elsewhere").code == 0
        assert place.cli(*command).code == 1


def test_the_folder_also_serves_as_a_cache_of_the_hub(
    hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.cli("fetch", "t.yaml", "--to", "usb").code == 0
    monkeypatch.setenv("HF_HUB_CACHE", str(place.folder / "usb"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert place.run("--tasks", "t.yaml").code == 0


def test_a_second_fetch_fetches_nothing(hub: DataHub, place: Workplace) -> None:
    assert place.cli("fetch", "t.yaml").code == 0
    assert sorted(data_requests(hub)) == [
        "test-00000-of-00001.parquet",
        "train-00000-of-00001.parquet",
    ]
    hub.requests.clear()
    done = place.cli("fetch", "t.yaml").ok()
    assert "here already" in done.out
    assert data_requests(hub) == []
    hub.requests.clear()
    assert place.cli("fetch", "t.yaml", "--to", "usb").code == 0
    assert data_requests(hub) == []  # copied from the cache


def test_dry_run_and_no_shots(hub: DataHub, place: Workplace) -> None:
    done = place.cli("fetch", "t.yaml", "--dry_run", "--to", "usb").ok()
    assert "Nothing was fetched" in done.out
    assert data_requests(hub) == []
    done = place.cli("fetch", "t.yaml", "--num_fewshot", "0")
    assert "org/data: test; 1 file" in done.out
    assert data_requests(hub) == ["test-00000-of-00001.parquet"]


def test_tasks_share_data_sets(hub: DataHub, place: Workplace) -> None:
    configs = [
        {"config_name": name, "data_files": [{"split": "test", "path": f"{name}.jsonl"}]}
        for name in "ab"
    ]
    rows: list[dict[str, Any]] = [{"question": "?", "choices": ["x", "y"], "answer": 0}]
    files = {"README.md": readme(*configs), "a.jsonl": jsonl(rows), "b.jsonl": jsonl(rows * 2)}
    hub.repos["org/two"] = {"main": files}
    for name in "ab":
        place.task(
            f"all/{name}.yaml",
            dataset_kwargs=...,
            dataset_path="org/two",
            dataset_name=name,
            task=name,
        )
    place.write("all/g.yaml", "group: g\ntask: [a, b]\n")
    done = place.cli("fetch", "g", "--include_path", "all").ok()
    assert "org/two a: test" in done.out
    assert "org/two b: test" in done.out
    assert "1 data set, 2 files" in done.out
    assert sum("/revision/" in asked.path for asked in hub.requests) == 1
    assert place.cli("fetch", "a", "b", "--include_path", "all").code == 0
    assert place.cli("fetch", "[ab]", "--include_path", "all").code == 0


def test_what_cannot_be_had_does_not_stop_the_rest(hub: DataHub, place: Workplace) -> None:
    hub.repos |= {
        "org/closed": {"main": SIMPLE},
        "org/script": {"main": {**SCRIPT, "script.py": b""}},
    }
    hub.gated = {"org/closed"}
    for name in ("closed", "script", "gone"):
        place.task(f"{name}.yaml", **FIELDS, dataset_path=f"org/{name}", task=name)
    place.task("split.yaml", **FIELDS, dataset_path="org/data", task="split", fewshot_split="tran")
    place.task("here.yaml", task="here")
    names = ("closed", "script", "gone", "split", "t", "here")
    done = place.cli("fetch", *(f"{name}.yaml" for name in names), "nothing.yaml", "--to", "usb")
    assert done.code == 1
    for part in (
        "'org/closed' is gated",
        "made by a loading script (script.py)",
        "There is no data set 'org/gone'",
        "Task 'split': The data set 'org/data' has no split 'tran'. Did you mean 'train'?",
        "nothing.yaml",
        "Nothing to fetch for here",
    ):
        assert part in done.out
    assert done.out.count("error ") == 5
    assert "Traceback" not in done.err
    assert place.run("--tasks", "t.yaml", "-f", "1", "--data_path", "usb").code == 0


def test_offline_fetch_copies_from_the_cache(
    hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.cli("fetch", "t.yaml").code == 0
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.requests.clear()
    assert place.cli("fetch", "t.yaml", "--to", "usb").code == 0
    assert hub.requests == []
    assert place.run("--tasks", "t.yaml", "-f", "1", "--data_path", "usb").code == 0


def test_wrong_use(hub: DataHub, place: Workplace) -> None:
    assert "TASK. See `lm-eval fetch --help`" in place.cli("fetch").err
    place.cli("run", "--tasks", "t.yaml", "--data_path", "nowhere").refused(
        "there is no folder 'nowhere'. Make one where there is a network: `lm-eval fetch"
    )
    (place.folder / "empty").mkdir()
    place.run("--tasks", "t.yaml", "--data_path", "empty").refused(
        "is not in empty, and only that folder is used. Data sets there: none."
    )
    place.write("file", "x")
    assert "cannot hold 'org/data'" in place.cli("fetch", "t.yaml", "--to", "file").out
    assert "--num_fewshot" in place.cli("fetch", "t.yaml", "-f", "-1").err
