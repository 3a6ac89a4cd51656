"""Task and data files that would keep the machine busy, or fill it: one message each."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lm_eval.config import limits
from tests.support.command_line import Outcome, Workplace

# An error that interrupts a finaliser is lost, and raised again a second later.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PATTERN = r"(([a-z ])+)+!"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.setattr(limits, "MAX_CPU_S", 0.3)
    return Workplace(tmp_path)


def refused(done: Outcome, *parts: str) -> None:
    """One message with these parts, and nothing else."""
    done.refused(*parts)
    assert done.err.count("error:") == 1


@pytest.mark.parametrize(
    ("keys", "owner"),
    [
        (
            {"formats": {"f": {"type": "cot", "scorer": {"reader": "regex", "pattern": PATTERN}}}},
            "Reader 'regex'",
        ),
        (
            {
                "formats": ...,
                "output_type": "generate_until",
                "filter_list": [
                    {"name": "f", "filter": [{"function": "regex", "regex_pattern": PATTERN}]}
                ],
            },
            "Filter",
        ),
    ],
)
def test_a_pattern_that_never_ends_is_stopped(
    place: Workplace, keys: dict[str, Any], owner: str
) -> None:
    place.task(**keys)
    done = place.run("--tasks", "t.yaml", "--model_args", f"reply={'a' * 60}")
    refused(done, f"{owner}: the pattern", "was stopped on a text of 60 characters")


@pytest.mark.parametrize("command", ["validate", "preview", "run"])
def test_a_template_that_never_ends_is_stopped(place: Workplace, command: str) -> None:
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    place.task(doc_to_text="{{ question }}" + loops)
    names = {"validate": ("--tasks", "t.yaml"), "preview": ("t.yaml",)}
    done = (
        place.run("--tasks", "t.yaml") if command == "run" else place.cli(command, *names[command])
    )
    assert done.code == 1
    assert "was stopped: it takes more than 0.3 s" in " ".join((done.out + done.err).split())
    assert "Traceback" not in done.err


def test_a_pattern_of_thousands_of_groups_is_one_message_or_works(place: Workplace) -> None:
    pattern = "(" * 5000 + "a" + ")" * 5000
    place.task(formats={"f": {"type": "cot", "scorer": {"reader": "regex", "pattern": pattern}}})
    done = place.run("--tasks", "t.yaml", "--model_args", "reply=a")
    assert done.code in (0, 1)
    assert "Traceback" not in done.err


def test_what_has_no_end_is_not_read(place: Workplace) -> None:
    os.mkfifo(place.folder / "pipe.jsonl")
    for path in ("/dev/zero", "pipe.jsonl"):
        place.task(dataset_path="json", dataset_kwargs={"data_files": {"test": path}})
        refused(place.run("--tasks", "t.yaml"), path, "is a device or a pipe")
        place.task(dataset_path=path, dataset_kwargs=...)
        refused(place.run("--tasks", "t.yaml"), path, "is a device or a pipe")


# Small files that unpack to large ones


@pytest.fixture
def _one_mb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LM_EVAL_MAX_DATA_MB", "1")


def rows_of(place: Workplace, name: str) -> Outcome:
    place.task(
        dataset_path="parquet" if "parquet" in name else "json",
        dataset_kwargs={"data_files": {"test": name}},
    )
    return place.run("--tasks", "t.yaml")


@pytest.mark.usefixtures("_one_mb")
def test_a_gzip_bomb_is_refused(place: Workplace) -> None:
    row = json.dumps({"question": "x" * 3_000_000, "choices": ["a", "b"], "answer": 0})
    place.write("bomb.jsonl.gz", gzip.compress(row.encode()))
    refused(
        rows_of(place, "bomb.jsonl.gz"), "holds more than 1 MB, unpacked", "LM_EVAL_MAX_DATA_MB"
    )


@pytest.mark.usefixtures("_one_mb")
def test_a_line_without_an_end_is_refused(place: Workplace) -> None:
    place.write("long.jsonl", '{"question": "' + "x" * 2_000_000)
    refused(rows_of(place, "long.jsonl"), "holds more than 1 MB")


@pytest.mark.usefixtures("_one_mb")
def test_a_parquet_bomb_is_refused(place: Workplace) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"question": ["x" * 10_000] * 5000, "choices": [["a", "b"]] * 5000})
    parquet.write_table(table, place.folder / "bomb.parquet")
    assert (place.folder / "bomb.parquet").stat().st_size < 200_000
    refused(rows_of(place, "bomb.parquet"), "holds more than 1 MB")


def test_only_what_says_so_is_loaded_as_a_metric_from_elsewhere(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(name: str) -> SimpleNamespace:
        loaded.append(name)
        return SimpleNamespace(compute=lambda **_: {"score": 1.0})

    monkeypatch.setitem(sys.modules, "evaluate", SimpleNamespace(load=load))
    place.write("evil.py", "raise SystemExit('ran')")
    place.write("folder/folder.py", "raise SystemExit('ran')")
    keys = {"formats": ..., "doc_to_choice": ..., "output_type": "generate_until"}
    for name in ("./evil.py", "evil.py", "folder", "user/metric", str(place.folder / "evil.py")):
        place.task(**keys, metric_list=[{"metric": name}])
        assert "hf_evaluate: true" in place.cli("validate", "--tasks", "t.yaml").out
        refused(place.run("--tasks", "t.yaml"), repr(name), "hf_evaluate: true")
    for entry in ({"metric": "rouge"}, {"metric": "user/metric", "hf_evaluate": True}):
        place.task(**keys, metric_list=[entry])
        done = place.cli("validate", "--tasks", "t.yaml")
        assert (done.code, loaded) == (0, [])
        assert "skipped" in done.out
        assert "--run_code" in done.out
    assert place.cli("validate", "--run_code", "--tasks", "t.yaml").code == 0
    assert place.run("--tasks", "t.yaml").code == 0
    assert set(loaded) == {"user/metric"}


DEEP = "(" * 5000 + "a" + ")" * 5000
WITH_DEEP_FILTER = {
    **{"formats": ..., "output_type": "generate_until"},
    "filter_list": [{"name": "f", "filter": [{"function": "regex", "regex_pattern": DEEP}]}],
}


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        (WITH_DEEP_FILTER, "too many groups"),
        ({"doc_to_text": f"{{{{ question | regex_findall('{DEEP}') }}}}"}, "RecursionError"),
        ({"doc_to_text": "{{ ('a\\n' * 9999) | indent(99999) }}"}, "was stopped"),
        ({"doc_to_text": "{{ ([[1]] * 99999) | sum(start=[]) }}"}, "was stopped"),
    ],
)
def test_values_without_bounds_are_one_message(
    place: Workplace, keys: dict[str, Any], part: str
) -> None:
    place.task(**keys)
    refused(place.run("--tasks", "t.yaml"), part)


def test_a_number_to_the_base_of_sixty_is_one_message(place: Workplace) -> None:
    text = Path(place.task()).read_text("utf-8").rstrip().removesuffix("}")
    place.write("t.yaml", f'{text}, "num_fewshot": {":".join(["59"] * 3000)}}}')
    refused(place.run("--tasks", "t.yaml"), "is too large")


def test_an_include_that_is_a_function_is_one_message(place: Workplace) -> None:
    place.write("tasks/t.yaml", "task: t\ninclude: !function utils.x\n")
    listed = place.cli("ls", "tasks", "--include_path", "tasks")
    assert "Traceback" not in listed.err
    refused(place.run("--tasks", "t", "--include_path", "tasks"), "include")


def test_a_damaged_index_of_tasks_is_made_again(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(place.folder / "cache"))
    place.write("tasks/t.yaml", Path(place.task()).read_text("utf-8"))
    listed = place.cli("ls", "tasks", "--include_path", "tasks")
    kept = list((place.folder / "cache").rglob("index-*.json"))
    assert kept
    for file in kept:
        file.write_text("[" * 100_000)
    again = place.cli("ls", "tasks", "--include_path", "tasks")
    assert (again.code, again.out) == (0, listed.out)
