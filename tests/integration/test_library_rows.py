"""The library: every benchmark renders from its invented rows under every format that fits it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from lm_eval.data.splits import expected_columns
from lm_eval.errors import DataError
from lm_eval.requests import PromptOptions, build_requests
from lm_eval.run.plan import RunOptions
from lm_eval.run.prepare import load_metrics, prepare
from lm_eval.tasks.groups import Group
from lm_eval.tasks.index import IndexedFile, index_folder
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask
from tests.support.paths import SOURCE

LIBRARY = SOURCE / "lm_eval" / "tasks" / "library"
NEEDED = ("version", "summary", "licence", "language", "convention")


def files() -> Iterator[IndexedFile]:
    found, problems = index_folder(LIBRARY)
    assert not problems, problems
    for file in found:
        if file.kind is not None and "/demo/" not in file.path:
            yield file


FILES = [*files()]
by_file = pytest.mark.parametrize("file", FILES, ids=[Path(file.path).stem for file in FILES])
of_tasks = pytest.mark.parametrize(
    "file",
    [file for file in FILES if file.kind != "group"],
    ids=[Path(file.path).stem for file in FILES if file.kind != "group"],
)
pytestmark = pytest.mark.filterwarnings("ignore::lm_eval.errors.LmEvalWarning")


@cache
def manager() -> TaskManager:
    return TaskManager(run_code=False, sample_rows="always")


def keys_of(file: IndexedFile) -> dict[str, Any]:
    loaded = yaml.safe_load(Path(file.path).read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def check(task: ConfigurableTask) -> None:
    """Every row can be asked, with as many examples as the task wants."""
    load_metrics(task)
    prepared = prepare(task, RunOptions())
    assert prepared.num_docs == len(task.eval_docs), prepared.skipped.by_reason()
    assert task.uses_sample_rows


@by_file
def test_every_task_renders_as_it_is_asked(file: IndexedFile) -> None:
    for task in manager().load([file.name])["tasks"].values():
        check(task)


@of_tasks
def test_every_format_that_fits_renders(file: IndexedFile) -> None:
    first = file.members[0] if file.members else file.name
    if manager().config(first).formats is None:
        pytest.skip("asked without a format")
    tasks = manager().load([f"{first}@*"])["tasks"]
    assert tasks
    for task in tasks.values():
        check(task)


@of_tasks
def test_rows_have_the_columns_that_the_task_expects(file: IndexedFile) -> None:
    assert keys_of(file).get("sample_rows") is not None
    first = file.members[0] if file.members else file.name
    config = manager().config(first)
    assert config.columns, "columns: name those that the fields read, so that a change is noticed"
    (task,) = manager().load([first])["tasks"].values()
    assert {*expected_columns(config.columns)} <= {*task.eval_docs[0]}
    assert 1 < len(task.eval_docs) < 20


@by_file
def test_metadata_say_what_lists_show(file: IndexedFile) -> None:
    metadata = keys_of(file).get("metadata") or {}
    needed = ("summary",) if file.kind == "group" else NEEDED
    for key in needed:
        assert metadata.get(key) is not None, key
    assert len(str(metadata["summary"])) <= 110
    if file.kind != "group":
        assert ": " in str(metadata["convention"]), "say whose convention it is"


def test_names_are_those_of_files_or_said() -> None:
    """A suite or family can be shown by name alone."""
    for file in FILES:
        read = manager().read(file.name)
        assert isinstance(read, Group) == (file.kind in ("group", "family"))


CHOSEN = {
    "arc_challenge": ("id", "Mercury_SC_415702", "MCAS_1998_4_3"),
    "boolq": ("idx", "0", "3"),
    "hellaswag": ("{{ ind }} {{ source_id }}", "12 wikihow~19", "38 wikihow~62"),
    "winogrande": ("{{ sentence.strip() | digest }}", "", ""),
}
"""Task → where the ids of OLMES's examples are, the first and the last of the five."""


@pytest.mark.parametrize("name", CHOSEN)
@pytest.mark.parametrize("suite", ["olmes", "olmes_cloze"])
def test_examples_of_olmes_are_rows_that_it_names(suite: str, name: str) -> None:
    loaded = TaskManager(run_code=False).load([suite])["tasks"]
    (task,) = (each for each in loaded.values() if each.task_name == name)
    settings = task.config.fewshot_config or {}
    spec, first, last = CHOSEN[name]
    assert settings.get("id", "id") == spec
    assert len(settings["ids"]) == task.config.num_fewshot == 5
    if first:
        assert [str(settings["ids"][0]), str(settings["ids"][-1])] == [first, last]


def test_chosen_examples_are_shown_in_their_order() -> None:
    loaded = TaskManager(run_code=False).load(["olmes"])["tasks"]
    (task,) = (each for each in loaded.values() if each.task_name == "arc_challenge")
    ids = (task.config.fewshot_config or {})["ids"]
    choices = {"text": ["yes", "no"], "label": ["A", "B"]}
    rows = [{"id": one, "question": one, "choices": choices, "answerKey": "A"} for one in ids]
    others = [{**rows[0], "id": f"x{n}", "question": f"x{n}"} for n in range(5)]
    task.replace_splits({"train": [*others, *reversed(rows)], "test": others})
    (built,) = build_requests(task, [2], PromptOptions(num_fewshot=5))
    blocks = str(built.requests[0].context).split("\n\n")
    assert [block.split("\n")[0] for block in blocks] == [f"Question: {q}" for q in [*ids, "x2"]]
    task.replace_splits({"train": others, "test": others})
    with pytest.raises(DataError, match="names 'Mercury_SC_415702', and no row of split 'train'"):
        list(build_requests(task, [2], PromptOptions(num_fewshot=5)))


@pytest.mark.parametrize("family", ["mmlu_pro", "mmlu_prox", "mmlu_prox_lite"])
def test_no_blank_marks_the_gold(family: str) -> None:
    """In the real rows one option may begin with a blank, and nearly always it is the gold."""
    tasks = manager().load([family])["tasks"].values()
    choices = [
        choice for task in tasks for doc in task.eval_docs for choice in task.doc_to_choice(doc)
    ]
    assert choices
    assert [choice for choice in choices if choice != choice.strip()] == []
