"""Groups as objects, members by name, and docs that a program replaces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import ConfigError, UnknownTaskError, UsageError
from lm_eval.tasks.groups import Group, GroupConfig, GroupScore
from lm_eval.tasks.loader import TaskManager

DOCS = "".join(f'{{"q": "{i}?", "a": "{i}"}}\n' for i in range(5))
TASK = (
    "dataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\ntest_split: test\n"
    "doc_to_text: q\ndoc_to_target: a\n"
)


@pytest.fixture
def manager(write: Callable[..., Path], tmp_path: Path) -> TaskManager:
    write("d.jsonl", DOCS)
    for name in ("one", "two"):
        write(f"{name}.yaml", f"task: {name}\n{TASK}")
    write("all.yaml", "group: all\ntask:\n  - one\n  - {group: inner, task: [two]}\n")
    return TaskManager("INFO", tmp_path, include_defaults=False)


def test_a_group_is_made_by_hand() -> None:
    group = Group("mmlu", alias="MMLU", aggregate_metric_list=[{"metric": "acc"}])
    assert (group.name, group.alias, group.version) == ("mmlu", "MMLU", "N/A")
    assert group.aggregate_metric_list == [GroupScore("acc")]
    assert group
    assert len(group) == 0
    assert Group.from_config(GroupConfig("g")).to_dict()["group"] == "g"
    with pytest.raises(ConfigError, match="unknown key 'weigth' in aggregate_metric_list"):
        Group("g", aggregate_metric_list=[{"metric": "acc", "weigth": 1}])


def test_a_group_as_programs_write_it() -> None:
    one: Any = {"metric": "acc", "filter_list": "none"}
    config = GroupConfig("g", task="t", aggregate_metric_list=one)  # type: ignore[arg-type]
    assert config.task == ["t"]
    assert config.aggregate_metric_list == [GroupScore("acc", filter_list=["none"])]
    assert GroupConfig("g").aggregate_metric_list is None
    group = Group.from_config({"group": "g", "aggregate_metric_list": one})
    assert group.aggregate_metric_list == config.aggregate_metric_list
    with pytest.raises(ConfigError, match="aggregation must be mean, not 'median'"):
        GroupScore("acc", aggregation="median")


def test_keys_beside_the_name_of_a_group_are_for_its_tasks(manager: TaskManager) -> None:
    for name in ("all", "all@qa"):
        loaded = manager.load([{"group": name, "num_fewshot": 3}])
        assert list(loaded["groups"]) == [name, name.replace("all", "all::inner")]
        assert {task.config.num_fewshot for task in loaded["tasks"].values()} == {3}


def test_metadata_of_the_manager_are_a_group_s_too() -> None:
    made = TaskManager(metadata={"run": 1}).load({"group": "g", "task": ["demo_mcq"]})
    assert made["groups"]["g"].metadata == {"run": 1}


def test_a_name_given_with_as_can_be_typed_and_is_of_one_task(tmp_path: Path) -> None:
    def load(selector: str, name: str) -> dict[str, Any]:
        inner = {"group": "inner", "task": [{"task": "demo_mcq", "as": name, "num_fewshot": 2}]}
        (tmp_path / "g.yaml").write_text(json.dumps({"group": "g", "task": ["demo_mcq", inner]}))
        return TaskManager(include_path=tmp_path).load(selector)["tasks"]

    for selector in ("mine", "mine@cloze", "g::mine"):
        ((name, task),) = load(selector, "mine").items()
        assert (name, task.config.num_fewshot) == (selector.removeprefix("g::"), 2)
    with pytest.raises(ConfigError, match=r"`as: gsm8k` is the task of .*gsm8k\.yaml"):
        load("g", "gsm8k")


def test_members_are_added_found_and_taken_out(manager: TaskManager) -> None:
    group = Group("own")
    for task in manager.load(["one", "two"])["tasks"].values():
        group.add(task)
        group.add(task)  # gives way to itself
    assert group.child_names == ["one", "two"]
    assert [task.task_name for task in group] == ["one", "two"]
    assert "one" in group
    popped = group.pop("one")
    assert popped is not None
    assert group.get("one") is None
    whole = manager.load(["all"])["groups"]["all"]
    assert [task.name for task in whole.get_all_tasks(recursive=False)] == ["one"]
    assert [inner.name for inner in whole.get_all_groups()] == ["all::inner"]


def test_a_member_of_a_group_by_name(manager: TaskManager) -> None:
    assert list(manager.load("all::two")["tasks"]) == ["two"]
    assert list(manager.load("all::inner::two")["tasks"]) == ["two"]
    with pytest.raises(UnknownTaskError, match="Members: inner, one, two"):
        manager.load("all::three")
    with pytest.raises(KeyError):  # as in the harness
        manager.load("none::three")


def test_docs_that_a_program_replaces(manager: TaskManager) -> None:
    [task] = manager.load("one")["tasks"].values()
    assert len(task.eval_docs) == 5
    task.dataset["test"] = [{"q": "other?", "a": "x"}]
    assert task.eval_docs == [{"q": "other?", "a": "x"}]
    task.set_config("num_fewshot", 0)
    assert len(task.eval_docs) == 1
    task.set_config("dataset_kwargs", {"data_files": {"test": "d.jsonl"}})
    assert len(task.eval_docs) == 5


def test_docs_one_after_the_other(manager: TaskManager) -> None:
    [task] = manager.load("one")["tasks"].values()
    assert [number for number, _ in task.doc_iterator(rank=1, world_size=2)] == [1, 3]
    assert [number for number, _ in task.doc_iterator(limit=2)] == [0, 1]
    assert [number for number, _ in task.doc_iterator(samples=[4, 0])] == [0, 4]
    with pytest.raises(UsageError, match="has docs 0 to 4; samples asks for 7"):
        task.doc_iterator(samples=[7])


def test_everything_in_markdown(manager: TaskManager) -> None:
    listed = manager.list_all_tasks()
    assert listed.count("Config Location") == 2
    assert "|Tag|" in listed
    assert "|two |" in listed
    assert "two" not in manager.list_all_tasks(list_subtasks=False)
