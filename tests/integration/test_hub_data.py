"""Data sets of a hub, fetched by the command line from a server on this machine."""

from __future__ import annotations

import errno
import io
import json
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lm_eval.cli import main
from tests.support.command_line import Outcome, Workplace, run_inside
from tests.support.servers.data_hub import TOKEN, DataHub, Fault

pa = pytest.importorskip("pyarrow")

ROWS = [
    {
        "question": f"Q{n}?",
        "choices": {"text": ["u", "v", "w"], "label": ["A", "B", "C"]},
        "answer": n % 3,
    }
    for n in range(6)
]
TRAIN = [{**row, "question": f"Train {n}?"} for n, row in enumerate(ROWS)]
FIELDS = {"doc_to_choice": "{{ choices.text }}", "dataset_kwargs": ...}


def parquet(rows: list[dict[str, Any]]) -> bytes:
    from pyarrow import parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def arrow(rows: list[dict[str, Any]], *, is_stream: bool = True) -> bytes:
    table = pa.Table.from_pylist(rows)
    sink = io.BytesIO()
    make = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with make(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def readme(*configs: dict[str, Any]) -> bytes:
    return f"---\nlicense: mit\nconfigs: {json.dumps(configs)}\n---\n# Data\n".encode()


MAIN = {
    "test-00000-of-00001.parquet": parquet(ROWS),
    "train-00000-of-00001.parquet": parquet(TRAIN),
}
SIMPLE = {f"data/{name}": data for name, data in MAIN.items()}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[DataHub]:
    with DataHub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        yield hub


def prompts(place: Workplace, **keys: Any) -> list[str]:
    """The questions that a run asks."""
    run(place, **keys).ok()
    return [sample["doc"]["question"] for sample in place.samples("t")]


def run(place: Workplace, *argv: str, **keys: Any) -> Outcome:
    path = place.task(**{**FIELDS, "dataset_path": "org/data", **keys})
    return place.run("--tasks", path, "--log_samples", *argv)


def refusal(place: Workplace, **keys: Any) -> str:
    """The one message of a run that cannot have its data."""
    done = run(place, **keys)
    assert done.code == 1
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) == 1, done.err
    assert not place.written()
    return done.err


QUESTIONS = [row["question"] for row in ROWS]
EN = {"config_name": "en", "data_files": [{"split": "test", "path": "sub/e*/t-*.parquet"}]}
DE = {
    "config_name": "de",
    "data_files": [{"split": "test", "path": ["x/de.jsonl"]}],
    "default": True,
}
LAYOUTS: dict[str, tuple[dict[str, bytes], dict[str, Any]]] = {
    "data/split-shards": (SIMPLE, {}),
    "config/split-shards": ({f"en/{k}": v for k, v in MAIN.items()}, {"dataset_name": "en"}),
    "split.jsonl": (
        {"test.jsonl": jsonl(ROWS), "train.jsonl": jsonl(TRAIN), "LICENSE.txt": b"x"},
        {},
    ),
    "split.json in a folder": ({"en/test.json": json.dumps(ROWS).encode()}, {"dataset_name": "en"}),
    "dev": ({"dev.jsonl": jsonl(ROWS), "train.jsonl": jsonl(TRAIN)}, {"test_split": "validation"}),
    "folders of splits": ({"test/a.jsonl": jsonl(ROWS[:2]), "test/b.jsonl": jsonl(ROWS[2:])}, {}),
    "everything is train": ({"a.jsonl": jsonl(ROWS)}, {"test_split": "train"}),
    "two types": ({"test.csv": b"question\nno\n", "test.parquet": parquet(ROWS)}, {}),
    "README, a glob": (
        {"README.md": readme(EN, DE), "sub/en/t-1.parquet": parquet(ROWS), "x/de.jsonl": b"{}"},
        {"dataset_name": "en"},
    ),
    "README, the default": (
        {"README.md": readme(EN, DE), "sub/en/t-1.parquet": b"", "x/de.jsonl": jsonl(ROWS)},
        {},
    ),
    "README, a folder": (
        {"README.md": readme({"config_name": "c", "data_dir": "d"}), "d/test.jsonl": jsonl(ROWS)},
        {"dataset_name": "c"},
    ),
    "dataset_files": (
        {"odd/one.parquet": parquet(ROWS), "odd/two.parquet": parquet(TRAIN)},
        {"dataset_files": {"test": "odd/o*.parquet"}},
    ),
    "dataset_files, one for any split": (
        {"odd/one.parquet": parquet(ROWS), "test.jsonl": b"{}"},
        {"dataset_files": "odd/one.parquet"},
    ),
    "data_dir": (
        {"new/test.jsonl": jsonl(ROWS), "old/test.jsonl": b"{}"},
        {"dataset_kwargs": {"data_dir": "new"}},
    ),
    "arrow stream": ({"s/test.arrow": arrow(ROWS)}, {}),
    "arrow file": ({"s/test.arrow": arrow(ROWS, is_stream=False)}, {}),
    "several shards": (
        {
            "data/test-00000-of-00002.parquet": parquet(ROWS[:3]),
            "data/test-00001-of-00002.parquet": parquet(ROWS[3:]),
        },
        {},
    ),
    "an address": (
        {"odd/one.jsonl": jsonl(ROWS)},
        {
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": "hf://datasets/org/data@main/odd/one.jsonl"}},
        },
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_right_rows_from_each_layout(layout: str, hub: DataHub, place: Workplace) -> None:
    files, keys = LAYOUTS[layout]
    hub.repos["org/data"] = {"main": files}
    assert prompts(place, **keys) == QUESTIONS
    docs = [sample["doc"] for sample in place.samples("t")]
    assert docs == ROWS  # a struct of lists stays one, a class label an int


@pytest.mark.parametrize("kind", ["csv", "tsv"])
def test_text_tables(kind: str, hub: DataHub, place: Workplace) -> None:
    mark = "," if kind == "csv" else "\t"
    lines = [mark.join(("question", "a", "b", "answer")), mark.join(("Q0?", "x", "y", "1"))]
    hub.repos["org/data"] = {"main": {f"test.{kind}": "\n".join(lines).encode()}}
    assert prompts(place, doc_to_choice=["a", "b"]) == ["Q0?"]


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_compressed(ending: str, hub: DataHub, place: Workplace) -> None:
    import bz2
    import gzip
    import lzma

    def zstd(data: bytes) -> bytes:
        return bytes(pa.Codec("zstd").compress(data, asbytes=True))

    pack: Any = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
    hub.repos["org/data"] = {"main": {f"test.jsonl{ending}": pack[ending](jsonl(ROWS))}}
    assert prompts(place) == QUESTIONS


HELPER = """
import datasets

def docs(**_):
    train = datasets.load_dataset("org/data", split="train")
    everything = datasets.load_dataset("org/data", trust_remote_code=True)
    assert everything["train"].to_list() == train.to_list(), "two ways to read one split"
    return {"test": everything["test"].filter(lambda doc: doc["answer"] == 1)}
"""


@pytest.mark.skipif(find_spec("datasets") is not None, reason="the library itself is used then")
def test_helpers_load_data_sets_without_the_library(hub: DataHub, place: Workplace) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    place.write("helper.py", HELPER)
    place.write(
        "t.yaml",
        "task: t\ncustom_dataset: !function helper.docs\ntest_split: test\ndoc_to_text: question\n"
        "doc_to_choice: '{{ choices.text }}'\ndoc_to_target: answer\nformats: mcqa\n",
    )
    place.run("--tasks", "t.yaml", "--log_samples").ok()
    assert [sample["doc"] for sample in place.samples("t")] == [r for r in ROWS if r["answer"] == 1]
    place.write("helper.py", HELPER.replace('split="train"', 'split="train[:1%]"'))
    done = place.run("--tasks", "t.yaml")
    assert "in a way that needs the `datasets` library" in done.err
    place.task(**FIELDS | {"dataset_kwargs": {"loader": "datasets"}}, dataset_path="org/data")
    done = place.run("--tasks", "t.yaml")
    assert "lm-eval-formats[datasets]" in done.err
    assert done.err.count("Task 't'") == 1


# --- what is fetched, and when ---


def test_only_the_splits_that_are_asked_are_fetched(hub: DataHub, place: Workplace) -> None:
    hub.repos["org/data"] = {"main": {**SIMPLE, "README.md": b"# Data\n"}}
    path = place.task(**FIELDS, dataset_path="org/data", fewshot_split="train")
    assert place.run("--tasks", path).code == 0
    assert len(hub.requests) == 5  # commit, list, README, the file and where it is
    assert [name.rpartition("/")[2] for name in hub.fetched() if "README" not in name] == [
        "test-00000-of-00001.parquet"
    ]
    hub.requests.clear()
    assert place.run("--tasks", path, "--num_fewshot", "2").code == 0
    assert [name.rpartition("/")[2] for name in hub.fetched()] == ["train-00000-of-00001.parquet"]
    hub.requests.clear()
    assert place.run("--tasks", path, "--num_fewshot", "1").code == 0
    assert [asked.path for asked in hub.requests] == ["/api/datasets/org/data/revision/main"]


def test_a_run_sees_one_commit_and_asks_once(hub: DataHub, place: Workplace) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    for name in ("a", "b", "c"):
        place.task(f"{name}.yaml", **FIELDS, dataset_path="org/data", task=name)
    assert place.run("--tasks", "a.yaml,b.yaml,c.yaml").code == 0
    assert len([asked for asked in hub.requests if "/api/" in asked.path]) == 1
    assert len(hub.fetched()) == 1


def test_a_preview_shows_invented_rows_until_the_data_is_here(
    hub: DataHub, place: Workplace
) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    place.write("rows.jsonl", json.dumps({**ROWS[0], "question": "Invented?"}))
    keys = {**FIELDS, "dataset_path": "org/data", "sample_rows": "rows.jsonl"}
    path = place.task(**keys)

    def shown() -> str:
        return run_inside(place.folder, main, ["preview", path]).out

    assert "Invented?" in shown()
    assert not hub.requests
    assert prompts(place, **keys) == QUESTIONS
    assert "Q0?" in shown()
    assert "(invented rows" not in shown()


def test_results_say_which_data(hub: DataHub, place: Workplace) -> None:
    import hashlib

    hub.repos["org/data"] = {"main": SIMPLE}
    assert run(place).code == 0
    results = place.results()
    data = SIMPLE["data/test-00000-of-00001.parquet"]
    assert results["data"]["t"] == {
        "dataset": "org/data",
        "config": "default",
        "revision": "main",
        "commit": hub.commit("org/data"),
        "files": [
            {
                "split": "test",
                "path": "data/test-00000-of-00001.parquet",
                "sha256": hashlib.sha256(data).hexdigest(),
                "size": len(data),
            }
        ],
    }


def test_a_moved_main_is_another_fingerprint(hub: DataHub, place: Workplace) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}

    def fingerprint(**keys: Any) -> str:
        assert run(place, **keys).code == 0
        return str(place.results()["fingerprints"]["t"]["task"])

    first = fingerprint()
    assert fingerprint() == first
    hub.repos["org/data"] = {
        "old": SIMPLE,
        "main": {**SIMPLE, "data/test-00000-of-00001.parquet": parquet(TRAIN)},
    }
    assert fingerprint() != first
    assert place.results()["data"]["t"]["commit"] == hub.commit("org/data")
    assert place.samples("t")[0]["doc"]["question"] == "Train 0?"
    pinned = hub.commit("org/data", "old")
    assert prompts(place, dataset_revision=pinned) == QUESTIONS
    hub.requests.clear()
    assert prompts(place, dataset_revision=pinned) == QUESTIONS
    assert hub.requests == []  # a commit never changes


# --- the converted branch ---


CONVERTED = {
    "default/test/0000.parquet": parquet(ROWS),
    "default/train/0000.parquet": parquet(TRAIN),
}
SCRIPT = {"data.py": b"raise SystemExit('never run')", "README.md": b"---\nlicense: mit\n---\n"}


@pytest.mark.parametrize(
    "files",
    [SCRIPT, {"all.zip": b"PK"}, {"README.md": readme({"data_files": "*.zip"}), "a.zip": b""}],
)
def test_what_cannot_be_read_comes_from_the_converted_branch(
    files: dict[str, bytes], hub: DataHub, place: Workplace
) -> None:
    hub.repos["org/data"] = {"main": files, "refs/convert/parquet": CONVERTED}
    assert prompts(place) == QUESTIONS
    assert place.results()["data"]["t"]["revision"] == "refs/convert/parquet"
    commit = hub.commit("org/data", "refs/convert/parquet")
    assert place.results()["data"]["t"]["commit"] == commit
    assert prompts(place, dataset_revision=commit) == QUESTIONS


def test_the_converted_branch_has_configurations(hub: DataHub, place: Workplace) -> None:
    rows = parquet(ROWS)
    converted = {"english/test/0000.parquet": rows, "de/partial-test/0000.parquet": rows}
    hub.repos["org/data"] = {"main": SCRIPT, "refs/convert/parquet": converted}
    assert prompts(place, dataset_name="english") == QUESTIONS
    done = run(place, dataset_name="de")
    assert "only the first 5 GB of the split 'test'" in done.err
    wrong = run(place, dataset_name="englsh").err
    assert (
        "no configuration 'englsh'. Did you mean 'english'? Configurations: de, english." in wrong
    )
    hub.repos["org/data"]["v1"] = SCRIPT | {"x": b""}
    pinned = run(place, dataset_name="english", dataset_revision="v1")
    assert "which is of its latest commit, and the task asks for 'v1'" in pinned.err


def test_a_script_alone(hub: DataHub, place: Workplace) -> None:
    hub.repos["org/data"] = {"main": SCRIPT}
    message = refusal(place)
    assert "made by a loading script (data.py), which is not run" in message
    assert f"search for 'data' at {hub.url}/datasets" in message


# --- who may read ---


def test_gated(hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    hub.gated = {"org/data"}
    message = refusal(place)
    assert f"Accept their conditions at {hub.url}/datasets/org/data" in message
    assert "set HF_TOKEN to it" in message
    monkeypatch.setenv("HF_TOKEN", "hf_a_wrong_one")
    message = refusal(place)
    assert "refuses this machine's token" in message
    assert "hf_a_wrong_one" not in message
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert prompts(place) == QUESTIONS
    everything = "".join(p.read_text(errors="replace") for p in place.written() if p.is_file())
    assert TOKEN not in everything
    hosts = {(asked.host.split(":")[0], asked.authorization) for asked in hub.requests}
    assert ("127.0.0.1", f"Bearer {TOKEN}") in hosts
    assert {authorization for host, authorization in hosts if host == "localhost"} == {""}


def test_a_user_who_is_not_let_in_and_a_text_that_is_no_token(
    hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos["org/data-closed"] = {"main": SIMPLE}
    hub.gated = {"org/data-closed"}
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert "has not been let in. Ask for access at" in refusal(
        place, dataset_path="org/data-closed"
    )
    monkeypatch.setenv("HF_TOKEN", "two\r\nlines: x")
    assert "lines: x" not in refusal(place, dataset_path="org/data-closed")


def test_the_token_does_not_follow_to_another_host(
    hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by a redirect, nor by the link to a next page."""
    hub.repos["org/data"] = {"main": SIMPLE}
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.links_to = f"{hub.other_host}/evil"
    refusal(place, dataset_path="org/dota")
    refusal(place, dataset_revision="mian")
    assert prompts(place) == QUESTIONS
    hub.sends_away = "/revision/"
    run(place, dataset_revision=hub.commit("org/data").replace("a", "b"))
    sent = {(asked.host.split(":")[0], asked.authorization) for asked in hub.requests}
    assert ("127.0.0.1", f"Bearer {TOKEN}") in sent
    assert {token for host, token in sent if host == "localhost"} == {""}


@pytest.mark.parametrize("where", ["/revision/", "/resolve/", "/lfs/"])
def test_a_byte_now_and_then_does_not_hang_a_run(
    where: str, hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lm_eval.data.hub import repository

    monkeypatch.setattr(repository, "SILENCE_S", 0.5)
    hub.repos["org/data"] = {"main": SIMPLE}
    hub.faults = [Fault(where, drips=True, times=99)]
    began = time.monotonic()
    message = refusal(place)
    assert f"{hub.url} is not available: it has sent next to nothing for" in message
    assert time.monotonic() - began < 60  # a busy machine is no defect


# --- names ---


def test_renamed(hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    hub.renamed = {"old/data": "org/data", "data": "org/data"}
    done = run(place, dataset_path="old/data").ok()
    assert (
        "'old/data' is called 'org/data' on the hub now. Write `dataset_path: org/data`" in done.err
    )
    assert place.results()["data"]["t"]["dataset"] == "org/data"
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert prompts(place, dataset_path="old/data") == QUESTIONS


WRONG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "name": (
        {"dataset_path": "org/dota"},
        ["There is no data set 'org/dota'", "Did you mean 'org/data'?"],
    ),
    "owner": ({"dataset_path": "arg/data"}, ["Did you mean 'org/data'?", "or it is private"]),
    "config": ({"dataset_name": "e"}, ["no configuration 'e'. Did you mean 'en'?", "en, de"]),
    "no config": ({}, ["several configurations: en, de", "dataset_name"]),
    "split": (
        {"dataset_name": "en", "test_split": "tset"},
        ["'org/data' (en) has no split 'tset'. Did you mean 'test'? Splits: test."],
    ),
    "revision": ({"dataset_revision": "mian"}, ["no revision 'mian'. Did you mean 'main'?"]),
    "files": ({"dataset_files": {"test": "x*.parquet"}}, ["has no file x*.parquet", "en.jsonl"]),
    "no such files": (
        {"dataset_name": "de"},
        ["(de): its README names files for the split 'test', and there are none", "en.jsonl"],
    ),
    "columns": (
        {"dataset_name": "en", "columns": {"answer": "string", "topic": "string"}},
        ["'answer' holds ints, not strings; it has no column 'topic'", "dataset_revision"],
    ),
    "files for one split": (
        {"dataset_files": "en.jsonl", "fewshot_split": "train", "num_fewshot": 1},
        ["serve as the split 'test'; they cannot be 'train' as well", "{test: …, train: …}"],
    ),
    "not a name": ({"dataset_path": "a/b/c"}, ["'a/b/c' is not a local file or folder"]),
    "loader": ({"dataset_kwargs": {"loader": "dataset"}}, ["Did you mean 'datasets'?"]),
    "option": (
        {"dataset_kwargs": {"loader": "hub", "own": 1}},
        ["'own', which only the `datasets` library takes"],
    ),
    "option of another type": (
        {"dataset_name": "en", "dataset_kwargs": {"sep": ";"}},
        ["'sep', which json files do not take"],
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_names_are_one_message(what: str, hub: DataHub, place: Workplace) -> None:
    configs = readme(
        {"config_name": "en", "data_files": {"test": "en.jsonl"}},
        {"config_name": "de", "data_files": {"test": "de-*.jsonl", "train": "en.jsonl"}},
    )
    hub.repos["org/data"] = {"main": {"README.md": configs, "en.jsonl": jsonl(ROWS)}}
    keys, parts = WRONG[what]
    message = refusal(place, **keys)
    for part in parts:
        assert part in message
    assert message.startswith("lm-eval: Task 't'") or "error" in message


@pytest.mark.parametrize(
    "files",
    [{"data/test-00000-of-00003.parquet": parquet(ROWS), "data/test-00002-of-00003.parquet": b""}],
)
def test_missing_shards(files: dict[str, bytes], hub: DataHub, place: Workplace) -> None:
    hub.repos["org/data"] = {"main": files}
    assert "1 of 3 files of data/test-… are missing, the first is number 1" in refusal(place)


# --- a bad network ---


def test_host_down(hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    assert prompts(place) == QUESTIONS
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    done = run(place).ok()
    said = [line for line in done.err.splitlines() if "is not available" in line]
    assert len(said) == 1
    assert (
        f"Using org/data as it was when it was last fetched (commit {hub.commit('org/data')[:12]})"
        in said[0]
    )
    assert place.results()["data"]["t"]["commit"] == hub.commit("org/data")
    began = time.process_time(), time.monotonic()
    done = run(place, dataset_path="org/other")
    assert done.code == 1
    assert time.monotonic() - began[1] < 60  # it is said at once; a busy machine is no defect
    assert "http://127.0.0.1:9 is not available: Connection refused" in done.err
    assert "Data sets there: org/data" in done.err
    assert "`lm-eval fetch TASKS --to DIR`" in done.err
    done = run(place, fewshot_split="train", num_fewshot=1)
    assert "data/train-00000-of-00001.parquet is not in" in done.err
    assert "Files of it there: data/test-00000-of-00001.parquet" in done.err


def test_offline_uses_the_cache_alone(
    hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "HF_HUB_OFFLINE is set" in refusal(place)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert prompts(place) == QUESTIONS
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.requests.clear()
    assert prompts(place) == QUESTIONS
    assert hub.requests == []


def test_what_the_tools_of_the_hub_have_fetched(
    hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their cache has the files, but no list of them."""
    hub.repos["org/data"] = {"main": SIMPLE}
    commit = hub.commit("org/data")
    base = place.folder / "hf/hub/datasets--org--data"
    for name, data in SIMPLE.items():
        place.write(f"{base}/snapshots/{commit}/{name}", data)
    place.write(f"{base}/refs/main", commit)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = run(place).ok()
    assert f"The list of files of org/data at commit {commit[:12]} is not in" in done.err
    assert [sample["doc"] for sample in place.samples("t")] == ROWS
    place.write(f"{base}/lm-eval/{commit}.json", "[" * 100_000)  # no list either
    assert prompts(place) == QUESTIONS
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert prompts(place) == QUESTIONS
    assert hub.fetched() == []


def test_a_name_that_cannot_be_looked_up(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://no-such-host.invalid")
    assert "https://no-such-host.invalid is not available: " in refusal(place)


@pytest.mark.parametrize("where", ["/revision/", "/resolve/", "/lfs/"])
def test_what_passes_is_tried_again(
    where: str, hub: DataHub, place: Workplace, quick: None
) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    hub.faults = [Fault(where, status=500, times=2), Fault(where, status=429)]
    assert prompts(place) == QUESTIONS
    assert not hub.faults


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval.data.hub import repository

    monkeypatch.setattr(repository, "_PAUSES_S", (0.01, 0.01, 0.01))


def test_a_hub_that_stays_ill(hub: DataHub, place: Workplace, quick: None) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    hub.faults = [Fault("/revision/", status=503, times=99)]
    assert "it answers with HTTP 503" in refusal(place)
    assert len(hub.requests) == 4


def test_a_broken_transfer_goes_on(hub: DataHub, place: Workplace) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    hub.faults = [Fault("/lfs/", cut_at=1000)]
    assert prompts(place) == QUESTIONS


def test_a_wrong_checksum(hub: DataHub, place: Workplace, quick: None) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    hub.faults = [Fault("/lfs/", corrupt=True)]
    assert prompts(place) == QUESTIONS  # fetched again
    hub.repos["org/data"] = {"main": {**SIMPLE, "data/test-00000-of-00001.parquet": parquet(TRAIN)}}
    hub.faults = [Fault("/lfs/", corrupt=True, times=2)]
    run(place).refused("has the checksum")
    assert not list(place.folder.rglob("*.incomplete"))


def test_a_damaged_cache_is_mended(
    hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    assert prompts(place) == QUESTIONS
    blob = next(p for p in (place.folder / "hf/hub").rglob("blobs/*") if len(p.name) == 64)
    blob.write_bytes(b"x" * blob.stat().st_size)
    assert prompts(place) == QUESTIONS
    blob.write_bytes(b"cut")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert "has 3 bytes instead of" in run(place).err


def test_a_full_disk(hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    hub.repos["org/data"] = {"main": SIMPLE}
    message = refusal(place)
    assert "cannot hold 'org/data': the disk is full" in message
    assert "HF_HOME" in message


def test_a_missing_extra(hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    place.task(**FIELDS, dataset_path="org/data")
    message = place.run("--tasks", "t.yaml").err
    assert "'org/data' is on the Hugging Face hub, which needs huggingface_hub" in message
    assert "pip install 'lm-eval-formats[hub]'" in message


def test_parquet_without_pyarrow(
    hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lm_eval.data.hub import load

    monkeypatch.setattr(load, "find_spec", lambda name: None)
    hub.repos["org/data"] = {"main": SIMPLE}
    run(place).refused(
        "stored as Parquet, which needs pyarrow", "pip install 'lm-eval-formats[hub]'"
    )
    assert hub.fetched() == []  # said before anything large is fetched
    hub.repos["org/data"] = {"main": {"test.jsonl": jsonl(ROWS)}}
    assert prompts(place) == QUESTIONS


# --- strangers ---


@pytest.mark.parametrize(
    "path", ["../../evil.jsonl", "/etc/evil", "a/../../b.jsonl", "a\\..\\b", "x\0y"]
)
def test_paths_that_lead_out_are_refused(path: str, hub: DataHub, place: Workplace) -> None:
    hub.repos["org/data"] = {"main": {**SIMPLE, path: b"evil"}}
    assert "which is not a path inside it" in refusal(place)
    assert not list(place.folder.rglob("*evil*"))


def test_data_that_is_too_large(
    hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LM_EVAL_MAX_DATA_MB", "1")
    hub.repos["org/data"] = {"main": {"test.jsonl": b"x" * 2_000_000}}
    assert "test.jsonl has 2.0 MB, more than LM_EVAL_MAX_DATA_MB allows (1)" in refusal(place)
    bomb = parquet([{"question": "x" * 300_000}] * 900)
    assert len(bomb) < 1_000_000
    hub.repos["org/data"] = {"main": {"test.parquet": bomb}}
    assert "holds more than 1 MB, unpacked" in refusal(place)


def test_a_file_that_does_not_end(hub: DataHub, place: Workplace) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    hub.faults = [Fault("/lfs/", adds=2_000_000, times=9)]
    assert "data/test-00000-of-00001.parquet is longer than the hub says" in refusal(place)
    assert not [path for path in place.folder.rglob("*") if path.stat().st_size > 600_000]


def test_a_broken_file_is_one_message(hub: DataHub, place: Workplace) -> None:
    hub.repos["org/data"] = {"main": {"test.parquet": b"PAR1 and nothing else"}}
    assert "cannot be read as Parquet" in refusal(place)
    hub.repos["org/data"] = {"main": {"test.arrow": b"not an arrow file"}}
    assert "cannot be read as Arrow" in refusal(place)


def test_a_cache_that_cannot_be_written_to(
    hub: DataHub, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.repos["org/data"] = {"main": SIMPLE}
    place.write("file", "x")
    monkeypatch.setenv("HF_HOME", str(place.folder / "file"))
    message = refusal(place)
    assert "cannot hold 'org/data'" in message
    assert "HF_HOME" in message


@pytest.mark.parametrize(
    "endpoint", ["ftp://x", "http://", "http://user:secret@host", "nothing", "http://[x"]
)
def test_wrong_endpoints(endpoint: str, place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    message = refusal(place)
    assert "HF_ENDPOINT must be the address of a hub" in message
    assert "secret" not in message
