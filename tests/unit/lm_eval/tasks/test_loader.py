"""Names become tasks: files, includes, groups, tags, globs, formats, and errors that say where."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval.config.yaml import load_yaml
from lm_eval.errors import (
    ConfigError,
    DataError,
    FieldError,
    LmEvalWarning,
    UnknownTaskError,
    UsageError,
)
from lm_eval.formats.compile import general_names, is_format
from lm_eval.requests.options import PromptOptions, shot_count
from lm_eval.tasks.definitions import NAMES
from lm_eval.tasks.groups import Group
from lm_eval.tasks.index import split_selector
from lm_eval.tasks.loader import TaskManager

Write = Callable[..., Path]
ROWS = [
    {"question": "2 + 2?", "choices": ["3", "4", "5"], "answer": 1},
    {"question": "3 + 3?", "choices": ["6", "7", "8"], "answer": 0},
    {"question": "4 + 4?", "choices": ["6", "7", "8"], "answer": 2},
]
BASE = """\
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
"""


@pytest.fixture
def folder(tmp_path: Path, write: Write) -> Path:
    write("rows.jsonl", ROWS)
    return tmp_path


def manager(folder: Path, **keys: Any) -> TaskManager:
    return TaskManager(folder, include_defaults=False, **keys)


def load(folder: Path, *selectors: str) -> list[str]:
    return list(manager(folder).load(selectors)["tasks"])


def first_prompt(folder: Path, selector: str) -> str:
    (task,) = manager(folder).load([selector])["tasks"].values()
    return str(task.ask(0).turn.user)


# --- names, files, globs, tags ---


def test_by_name_file_folder_and_glob(folder: Path, write: Write) -> None:
    write("a.yaml", "task: sum_a\n" + BASE)
    write("sub/b.yaml", "task: sum_b\n" + BASE)
    assert load(folder, "sum_a") == ["sum_a"]
    assert load(folder, "sum_a", "sum_b@cloze") == ["sum_a", "sum_b@cloze"]
    assert load(folder, "sum_*") == ["sum_a", "sum_b"]
    assert load(folder, "sum_?@mcqa") == ["sum_a@mcqa", "sum_b@mcqa"]
    assert load(folder, str(folder / "a.yaml")) == ["sum_a"]
    assert load(folder, f"{folder / 'a.yaml'}@cot") == ["sum_a@cot"]
    assert load(folder, f"{folder / 'sub'}/") == ["sum_b"]
    assert load(folder, f"{folder}@cloze") == ["sum_a@cloze", "sum_b@cloze"]


def test_tags(folder: Path, write: Write) -> None:
    write("a.yaml", "task: a\ntag: sums\n" + BASE)
    write("b.yaml", "task: b\ntag: [sums, other]\n" + BASE)
    write("c.yaml", "task: c\n" + BASE)
    assert manager(folder).names("tag") == ["other", "sums"]
    assert load(folder, "sums") == ["a", "b"]
    assert load(folder, "sums@mcqa") == ["a@mcqa", "b@mcqa"]
    assert manager(folder).load(["sums"])["groups"] == {}


def test_include_and_relative_data(folder: Path, write: Write) -> None:
    write("_base", BASE)
    write("sub/t.yaml", "include: ../_base\ntask: t\ndoc_to_text: 'Q {{question}}'\n")
    write("sub/rows.jsonl", ROWS)
    (task,) = manager(folder).load(["t"])["tasks"].values()
    assert task.config.doc_to_text == "Q {{question}}"
    assert len(task.eval_docs) == 3


@pytest.mark.parametrize(
    ("selector", "parts"),
    [
        ("t", ("t", None)),
        ("t@mcqa", ("t", "mcqa")),
        ("t@mcq::gpqa", ("t", "mcq::gpqa")),
        ("t@*", ("t", "*")),
        (" t@cot ", ("t", "cot")),
        ("a@b/t@cot", ("a@b/t", "cot")),
    ],
)
def test_split_selector(selector: str, parts: tuple[str, str | None]) -> None:
    assert split_selector(selector) == parts


# --- @* ---


def test_every_format_of_the_tasks_own_map(folder: Path, write: Write) -> None:
    write("t.yaml", "task: t\n" + BASE + "formats: {cloze: null, mine: {type: mcqa}}\n")
    assert load(folder, "t@*") == ["t@cloze", "t@mine"]
    assert load(folder, "t") == ["t"]
    assert load(folder, "t", "t@mine") == ["t", "t@mine"]


def test_every_builtin_that_fits(folder: Path, write: Write) -> None:
    write("t.yaml", "task: t\n" + BASE)
    write("s.yaml", "task: s\n" + BASE.replace("doc_to_choice: choices\n", ""))
    unfit = ("fill", "ranking")  # which need a blank, and an order
    fitting = [name for name in general_names() if name not in unfit]
    with pytest.warns(LmEvalWarning, match=r"(?s)t@\* leaves out .*\n  ranking: doc 0: target"):
        assert load(folder, "t@*") == [f"t@{name}" for name in fitting]
    with pytest.warns(LmEvalWarning, match=r"mcqa, cloze, .*: the task has no doc_to_choice"):
        assert load(folder, "s@*") == ["s@cot", "s@qa", "s@open", "s@boxed", "s@continuation"]


def test_a_format_without_the_question(folder: Path, write: Write) -> None:
    write("t.yaml", "task: t\n" + BASE)
    assert first_prompt(folder, "t@choices_only") == "A. 3\nB. 4\nC. 5\nAnswer:"


def test_no_format_fits(folder: Path, write: Write) -> None:
    write("t.yaml", "task: t\n" + BASE.replace("doc_to_target: answer\n", ""))
    with pytest.raises(UsageError, match="no format that its fields can fill"):
        load(folder, "t@*")


# --- groups ---

GROUP_004 = """\
group: my_benchmark
task:
  - task: subtask_a@mcqa
    dataset_path: json
    dataset_kwargs: {data_files: {test: rows.jsonl}}
    test_split: test
    doc_to_text: question
    doc_to_target: answer
    doc_to_choice: choices

  - task: subtask_b
    dataset_path: json
    dataset_kwargs: {data_files: {test: rows.jsonl}}
    test_split: test
    doc_to_text: question
    doc_to_target: answer
    doc_to_choice: choices
    formats: generate
"""


def test_document_004_group(folder: Path, write: Write) -> None:
    write("group.yaml", GROUP_004)
    loaded = manager(folder).load(["my_benchmark"])
    assert loaded["group_map"] == {"my_benchmark": ["subtask_a@mcqa", "subtask_b"]}
    a, b = loaded["tasks"].values()
    assert a.ask(0).turn.user == "Question: 2 + 2?\nA. 3\nB. 4\nC. 5\nAnswer:"
    assert b.format is not None
    assert b.format.name == "generate"
    assert b.ask(0).turn.gen_prefix == "The best answer is"


def test_format_on_a_group_goes_to_members_without_one(folder: Path, write: Write) -> None:
    write("group.yaml", GROUP_004)
    assert load(folder, "my_benchmark@cloze") == ["subtask_a@mcqa", "subtask_b@cloze"]


def test_a_group_under_a_format_is_called_after_both(folder: Path, write: Write) -> None:
    write("group.yaml", GROUP_004)
    loaded = manager(folder).load(["my_benchmark@cloze", "my_benchmark@mcqa", "my_benchmark"])
    assert loaded["group_map"] == {
        "my_benchmark@cloze": ["subtask_a@mcqa", "subtask_b@cloze"],
        "my_benchmark@mcqa": ["subtask_a@mcqa", "subtask_b@mcqa"],
        "my_benchmark": ["subtask_a@mcqa", "subtask_b"],
    }
    assert loaded["groups"]["my_benchmark@cloze"].alias == "my_benchmark@cloze"


def test_a_group_under_every_format_is_one_group_for_each(folder: Path, write: Write) -> None:
    write("a.yaml", "task: a\nformats: {mcqa: {}, cloze: {}}\n" + BASE)
    write("b.yaml", "task: b\nformats: {cloze: {}, cot: {}}\n" + BASE)
    write("inner.yaml", "group: inner\ntask: [b]\n")
    write("outer.yaml", "group: outer\ntask: [a, inner, a@generate]\n")
    assert manager(folder).load(["outer@*"])["group_map"] == {
        "outer@mcqa": ["a@mcqa", "a@generate"],
        "outer@cloze": ["a@cloze", "inner@cloze", "a@generate"],
        "inner@cloze": ["b@cloze"],
        "outer@cot": ["inner@cot", "a@generate"],
        "inner@cot": ["b@cot"],
    }
    write("fixed.yaml", "group: fixed\ntask: [a@cloze]\n")
    assert manager(folder).load(["fixed@*"])["group_map"] == {"fixed": ["a@cloze"]}


def test_members_by_name_override_and_nesting(folder: Path, write: Write) -> None:
    write("a.yaml", "task: a\ntag: some\n" + BASE)
    write("b.yaml", "task: b\ntag: some\n" + BASE)
    write("inner.yaml", "group: inner\ntask: [a@cot]\n")
    write(
        "outer.yaml",
        "group: outer\ntask:\n  - inner\n  - b@mcqa\n  - task: a\n    task_alias: first\n"
        "    num_fewshot: 2\n  - some@cloze\nmetadata: {version: 1}\n",
    )
    loaded = manager(folder).load(["outer"])
    assert list(loaded["tasks"]) == ["a@cot", "b@mcqa", "a", "a@cloze", "b@cloze"]
    assert loaded["group_map"]["outer"] == ["inner", "b@mcqa", "a", "a@cloze", "b@cloze"]
    assert loaded["tasks"]["a"].config.num_fewshot == 2
    outer = loaded["groups"]["outer"]
    assert isinstance(outer, Group)
    assert [group.name for group in outer.groups()] == ["outer", "inner"]


def test_groups_own_keys_are_defaults_of_its_members(folder: Path, write: Write) -> None:
    write(
        "group.yaml",
        "group: g\ntask:\n  - task: one\n  - task: two\n    doc_to_text: 'Q {{question}}'\n" + BASE,
    )
    loaded = manager(folder).load(["g@cloze"])["tasks"]
    assert loaded["g::one@cloze"].ask(0).turn.user == "Question: 2 + 2?\nAnswer:"
    assert loaded["g::two@cloze"].ask(0).turn.user == "Question: Q 2 + 2?\nAnswer:"


# --- configuration errors say where ---


def test_unknown_key_in_an_include_names_that_file(folder: Path, write: Write) -> None:
    write("_base", BASE + "doc_to_txt: question\n")
    write("t.yaml", "include: _base\ntask: t\n")
    with pytest.raises(ConfigError, match=r"_base, line 7:") as caught:
        load(folder, "t")
    assert (caught.value.path, caught.value.line) == (str(folder / "_base"), 7)


def test_none_in_one_doc(folder: Path, write: Write) -> None:
    write("rows.jsonl", [*ROWS, {"choices": ["a", "b"], "answer": 0}])
    write(
        "t.yaml",
        "task: t\n" + BASE.replace("doc_to_text: question", "doc_to_text: 'Q {{question}}'"),
    )
    (task,) = manager(folder).load(["t@cloze"])["tasks"].values()
    with pytest.raises(FieldError, match=r"doc 3, field 'doc_to_text'.*would print None.*question"):
        task.ask(3)
    (raw,) = manager(folder).load(["t"])["tasks"].values()
    assert raw.ask(3).turn.user == "Q None"  # by the harness's rules


# --- code ---

UTILS = """\
def keep_even(docs):
    return docs.filter(lambda doc: int(doc["question"][0]) % 2 == 0)

def add_hint(docs):
    return docs.map(lambda doc: {**doc, "hint": doc["question"].upper()})

def as_list(docs):
    return [dict(doc, question="changed") for doc in docs]

def ask(doc):
    return "Called: " + doc["question"]

def none(docs):
    return []
"""


@pytest.mark.parametrize(
    ("function", "questions"),
    [
        ("keep_even", ["2 + 2?", "4 + 4?"]),
        ("add_hint", ["2 + 2?", "3 + 3?", "4 + 4?"]),
        ("as_list", ["changed"] * 3),
    ],
)
def test_process_docs(folder: Path, write: Write, function: str, questions: list[str]) -> None:
    write("utils.py", UTILS)
    write("t.yaml", "task: t\n" + BASE + f"process_docs: !function utils.{function}\n")
    (task,) = manager(folder).load(["t@mcqa"])["tasks"].values()
    assert [doc["question"] for doc in task.eval_docs] == questions
    assert task.ask(len(questions) - 1).turn.user.startswith(f"Question: {questions[-1]}")


def test_process_docs_that_leaves_nothing(folder: Path, write: Write) -> None:
    write("utils.py", UTILS)
    write("t.yaml", "task: t\n" + BASE + "process_docs: !function utils.none\n")
    (task,) = manager(folder).load(["t"])["tasks"].values()
    with pytest.raises(DataError, match="no docs after process_docs"):
        len(task.eval_docs)


def test_function_as_a_field_under_a_format(folder: Path, write: Write) -> None:
    write("utils.py", UTILS)
    keys = BASE.replace("doc_to_text: question", "doc_to_text: !function utils.ask")
    write("t.yaml", "task: t\n" + keys)
    assert first_prompt(folder, "t@cloze") == "Question: Called: 2 + 2?\nAnswer:"
    (task,) = manager(folder).load(["t@cloze"])["tasks"].values()
    assert not isinstance(task.config.doc_to_text, str)


def test_a_convention_has_its_own_shots_and_first_words() -> None:
    """A task's description and number of examples belong to its default format."""
    manager = TaskManager(run_code=False, sample_rows="always")
    inline = {"task": "mmlu_anatomy@simple_evals", "num_fewshot": 2, "description": "Think. "}
    asked: dict[str, tuple[Any, int, bool]] = {
        "default": ("mmlu_anatomy", 0, True),
        "general": ("mmlu_anatomy@mcqa", 0, True),
        "without reasons": ("mmlu_anatomy@mcq_cot", 0, True),
        "with reasons": ("mmlu_pro_law@mcq_cot", 5, False),
        "convention": ("mmlu_anatomy@simple_evals", 0, False),
        "its own shots": ("mmlu_anatomy@leaderboard_mmlu_pro", 5, True),
        "its default": ("gsm8k@gsm8k", 5, False),
        "asked for": ({"group": "g", "task": [inline]}, 2, True),
    }
    wrong = {}
    for case, (selector, *wanted) in asked.items():
        (task,) = manager.load(selector)["tasks"].values()
        found = [shot_count(task, PromptOptions()), bool(task.config.description)]
        if found != wanted:
            wrong[case] = found
    assert not wrong
    (task,) = manager.load("mmlu_anatomy@simple_evals")["tasks"].values()
    assert shot_count(task, PromptOptions(num_fewshot=3)) == 3


def test_names_of_the_harness_are_answered_with_ours() -> None:
    manager = TaskManager(run_code=False)
    for other, here in load_yaml(NAMES, run_code=False).items():
        task, format_name = split_selector(here.replace("*", "?*"))
        assert fnmatch.filter(manager.index, task), f"{other}: {here} is not in the library"
        if format_name is not None and not is_format(format_name):  # one of the task's own
            assert format_name in manager.load([task])["tasks"][task].config.formats, other
        assert other not in manager.index, f"{other}: the library has it"
    for name, says in {
        "medqa_4options": "is called medqa here: `--tasks medqa`",
        "mgsm_direct_de": "`--tasks mgsm_de@mgsm`",
        "leaderboard_musr_team_allocation": "`--tasks musr_team_allocation@leaderboard_musr`",
        "mgsm_direct_xx": "Unknown task 'mgsm_direct_xx'",
    }.items():
        with pytest.raises(UnknownTaskError) as error:
            manager.load([name])
        assert says in str(error.value)
        assert "installed lm-eval" in str(error.value)


@pytest.mark.filterwarnings("ignore::lm_eval.errors.LmEvalWarning")
def test_library_tasks_load() -> None:
    tasks = TaskManager(sample_rows="always")
    assert tasks.names("task")
    for task in tasks.load(tasks.names("task"))["tasks"].values():
        asked = task.ask(0)
        assert asked.turn.user or asked.continuations
