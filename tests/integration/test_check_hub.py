"""``scripts/check_hub.py``, which asks whether the hub still has what the library reads."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lm_eval.tasks.loader import TaskManager
from tests.support.modules import module_at
from tests.support.paths import ROOT
from tests.support.servers.data_hub import DataHub, Files

pytest.importorskip("pyarrow", reason="needs the extra hub: pip install 'lm-eval-formats[hub]'")
pytestmark = pytest.mark.filterwarnings("ignore::lm_eval.errors.LmEvalWarning")


CHECK = module_at(ROOT / "scripts" / "check_hub.py")
NAMES = [*CHECK.names_of_library(every=False)]


def parquet(rows: list[dict[str, Any]]) -> bytes:
    import pyarrow
    from pyarrow import parquet as files

    out = io.BytesIO()
    files.write_table(pyarrow.Table.from_pylist(rows), out)
    return out.getvalue()


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


def library_repos() -> dict[str, dict[str, Files]]:
    """The invented rows of the library under the names that it asks the hub for."""
    manager = TaskManager(run_code=False, sample_rows="always")
    files: defaultdict[str, Files] = defaultdict(dict)
    stated: defaultdict[str, list[Any]] = defaultdict(list)
    for place, name in enumerate(NAMES):
        (task,) = manager.load([name])["tasks"].values()
        repo, config = str(task.config.dataset_path), task.config.dataset_name or "default"
        named = []
        for split in task.split_names(with_shots=True):
            rows = task.splits[split].to_list()
            is_table = place % 2 == 0 and {} not in rows[0].values()  # Parquet has no empty records
            path = f"{config}/{split}.{'parquet' if is_table else 'jsonl'}"
            path = (task.config.dataset_kwargs or {}).get("data_files", {}).get(split, path)
            is_table = path.endswith(".parquet")
            files[repo][path] = parquet(rows) if is_table else json_lines(rows)
            named.append({"split": split, "path": path})
        if all(one["config_name"] != config for one in stated[repo]):
            stated[repo].append({"config_name": config, "data_files": named})
    for repo, configs in stated.items():
        files[repo]["README.md"] = f"---\n{yaml.safe_dump({'configs': configs})}---\n".encode()
    return {repo: {"main": branch} for repo, branch in files.items()}


@pytest.fixture(scope="module")
def repos() -> dict[str, dict[str, Files]]:
    return library_repos()


@pytest.fixture
def hub(repos: dict[str, dict[str, Files]], tmp_path: Path) -> Iterator[DataHub]:
    copy = {repo: {"main": dict(branches["main"])} for repo, branches in repos.items()}
    with DataHub(copy) as hub, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_ENDPOINT", hub.url)
        patch.setenv("HF_HOME", str(tmp_path))
        for name in ("HF_TOKEN", "HF_HUB_OFFLINE"):
            patch.delenv(name, raising=False)
        yield hub


def test_all_is_there(hub: DataHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert CHECK.main([]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "All as expected."
    assert len(out) == len(NAMES) + 1 > 100
    assert all(line.startswith("ok     ") for line in out[:-1])


def test_only_the_footers_of_tables_are_read(
    hub: DataHub, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"question": f"{n} " * 50, "answer": f"#### {n}"} for n in range(4000)]
    hub.repos["openai/gsm8k"]["main"] = {
        f"main/{split}-00000-of-00001.parquet": parquet(rows) for split in ("train", "test")
    }
    assert CHECK.main(["gsm8k"]) == 0, capsys.readouterr().out
    ranges = [asked.range for asked in hub.requests if asked.path.startswith("/lfs/")]
    assert ranges
    assert all(int(wanted.removeprefix("bytes=").partition("-")[0]) > 0 for wanted in ranges)


def test_what_is_not_as_expected(hub: DataHub, capsys: pytest.CaptureFixture[str]) -> None:
    arc = hub.repos["allenai/ai2_arc"]["main"]
    for path in [path for path in arc if path.startswith("ARC-Easy")]:
        del arc[path]
        row = {"question": "q", "choices": ["a", "b"], "answer": "A"}
        arc[str(Path(path).with_suffix(".jsonl"))] = json_lines([row])
    arc["README.md"] = arc["README.md"].replace(b".parquet", b".jsonl")
    del hub.repos["tau/commonsense_qa"]
    hub.gated.add("Rowan/hellaswag")
    hub.repos["new/piqa"] = hub.repos.pop("baber/piqa")
    hub.renamed["baber/piqa"] = "new/piqa"
    assert CHECK.main(["arc_easy", "commonsense_qa", "hellaswag", "piqa", "no_such_task"]) == 1
    arc_line, csqa, gated, moved, unknown, last = capsys.readouterr().out.splitlines()
    assert arc_line.startswith("wrong  arc_easy: ")
    assert "it has no column 'answerKey'" in arc_line
    assert "'choices' holds lists, not objects" in arc_line
    assert csqa.startswith("wrong  commonsense_qa: ")
    assert "There is no data set 'tau/commonsense_qa'" in csqa
    assert "'Rowan/hellaswag' is gated" in gated
    assert moved.startswith("ok     piqa: baber/piqa (now new/piqa): validation, train; commit ")
    assert "Unknown task 'no_such_task'" in unknown
    assert last == "4 of the library's data sets are not as expected."


def test_a_hub_that_is_down_is_one_line_each(
    hub: DataHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert CHECK.main(["arc_easy", "piqa"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 3
    assert all("127.0.0.1:9" in line for line in out[:2])
