"""Families: one file with ``each`` is many tasks and their groups."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.cli import main
from lm_eval.config.fields import compile_field
from lm_eval.data.splits import FileLoader
from lm_eval.errors import ConfigError, LmEvalError, UnknownTaskError
from lm_eval.formats.jinja import literal
from lm_eval.tasks import TaskManager
from lm_eval.tasks.families import Family, filled
from lm_eval.tasks.index import TaskNames
from tests.support.command_line import run_inside

Write = Callable[..., Path]
SUBJECTS = ("algebra", "anatomy", "law")
ROWS = [
    {"subject": subject, "question": f"{subject} {n}?", "choices": ["x", "y"], "answer": n % 2}
    for subject in SUBJECTS
    for n in range(4)
]
FILE = """\
task: exam_{{ subject }}
each: {subject: [algebra, anatomy, law]}
areas: {science: [algebra, anatomy]}
dataset_path: rows.jsonl
where: "{{ doc.subject == subject }}"
test_split: test
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
description: "About {{ subject | upper }}.\\n\\n"
formats: {mcqa: {question_prefix: "{{ subject }}: "}}
aggregate_metric_list: [{metric: acc}]
metadata: {version: 2, about: "{{ subject }}"}
"""


@pytest.fixture
def folder(write: Write) -> Path:
    write("rows.jsonl", ROWS)
    return write("exam.yaml", FILE).parent


def family(**keys: Any) -> Family:
    start = {"task": "t_{{ subject }}", "each": {"subject": ["a", "b"]}}
    return Family.from_mapping({**start, **keys}, source="file.yaml")


def test_each_value_is_a_task(folder: Path) -> None:
    manager = TaskManager(include_path=folder, include_defaults=False)
    assert manager.all_subtasks == ["exam_algebra", "exam_anatomy", "exam_law"]
    law = manager.load("exam_law")["tasks"]["exam_law"]
    assert [doc["subject"] for doc in law.eval_docs] == ["law"] * 4
    assert law.config.description == "About LAW.\n\n"
    assert law.config.metadata == {"version": 2, "about": "law"}
    assert law.ask(0).turn.user == "law: law 0?\nA. x\nB. y\nAnswer:"


def test_the_file_is_a_group_and_its_areas_are_groups(folder: Path) -> None:
    manager = TaskManager(include_path=folder, include_defaults=False)
    assert manager.all_groups == ["exam", "exam_science"]
    loaded = manager.load("exam")
    assert loaded["group_map"] == {
        "exam": ["exam_science", "exam_law"],
        "exam_science": ["exam_algebra", "exam_anatomy"],
    }
    assert [*loaded["tasks"]] == ["exam_algebra", "exam_anatomy", "exam_law"]
    assert [*manager.load("exam_science@cloze")["tasks"]] == [
        "exam_algebra@cloze",
        "exam_anatomy@cloze",
    ]
    assert [*manager.load(str(folder / "exam.yaml"))["tasks"]] == [*loaded["tasks"]]
    assert [*manager.load("exam_a*")["tasks"]] == ["exam_algebra", "exam_anatomy"]
    assert [*manager.load("exam::exam_law")["tasks"]] == ["exam_law"]


def test_a_group_may_name_a_family_or_one_of_its_tasks(folder: Path, write: Write) -> None:
    write("both.yaml", "group: both\ntask: [exam_science, {task: exam_law, num_fewshot: 1}]\n")
    manager = TaskManager(include_path=folder, include_defaults=False)
    tasks = manager.load("both")["tasks"]
    assert {name: task.config.num_fewshot for name, task in tasks.items()} == {
        "exam_algebra": None,
        "exam_anatomy": None,
        "exam_law": 1,
    }
    (changed,) = manager.load({"task": "exam_law", "num_fewshot": 2})["tasks"].values()
    assert changed.config.num_fewshot == 2


def test_the_command_line(folder: Path) -> None:
    there = ["--include_path", str(folder)]
    listed = run_inside(folder, main, ["ls", "tasks", *there]).out
    assert "exam (3)" in listed
    assert "exam_law" not in listed
    assert "exam_law" in run_inside(folder, main, ["ls", "subtasks", *there]).out
    assert "exam_science" in run_inside(folder, main, ["ls", "groups", *there]).out
    ran = run_inside(folder, main, ["run", "--tasks", "exam", "--model", "dummy", *there])
    names = ("exam", "exam_science", "exam_algebra", "exam_law")
    assert all(re.search(rf"^ *{name} +\d+ ", ran.out, re.MULTILINE) for name in names), ran.out
    missed = run_inside(folder, main, ["validate", "--tasks", "exam_lew", *there])
    assert "Did you mean 'exam_law'?" in missed.out


def test_the_index_remembers_families(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = TaskNames([folder]).entries
    monkeypatch.setattr(Family, "from_mapping", None)  # nothing is read a second time
    again = TaskNames([folder]).entries
    assert again == first
    assert again["exam"].members == ("exam_algebra", "exam_anatomy", "exam_law")
    assert again["exam_law"].family == "exam"
    (listed,) = [file.facts for _, file in TaskNames([folder]).listed()]
    assert listed.dataset == "rows.jsonl"


def test_a_name_defined_twice(folder: Path, write: Write) -> None:
    write("law.yaml", "task: exam_law\ndataset_path: rows.jsonl\ntest_split: test\n")
    with pytest.raises(ConfigError, match=r"'exam_law' is defined twice"):
        TaskManager(include_path=folder).load("exam_law")


def test_a_tag_selects_the_family(folder: Path, write: Write) -> None:
    write("exam.yaml", FILE + "tag: exams\n")
    manager = TaskManager(include_path=folder, include_defaults=False)
    assert [*manager.load("exams")["groups"]] == ["exam", "exam_science"]


def test_several_variables_are_combined() -> None:
    made = family(
        task="{{ language }}_{{ n }}",
        each={"language": {"de": {"cause": "weil"}, "it": {"cause": "perché"}}, "n": [1, 2]},
        dataset_name="{{ n }}",
        num_fewshot="{{ n }}",
        doc_to_text="{{ premise }} {{ cause if question == 'cause' else premise }}",
        doc_to_choice="{{ [cause, other] }}",
    )
    assert [*made.members] == ["de_1", "de_2", "it_1", "it_2"]
    keys = made.task_keys("it_2")
    assert (keys["dataset_name"], keys["num_fewshot"]) == ("2", 2)
    doc = {"premise": "P", "question": "cause", "other": "o"}
    assert compile_field(keys["doc_to_text"])(doc) == "P perché"
    assert compile_field(keys["doc_to_choice"])(doc) == ["perché", "o"]


def test_names_that_are_not_the_variable() -> None:
    values = {"upper": "U", "subject": "S"}
    text = (
        "{{ subject | upper }} {{ doc.subject }} {{ doc['subject'] }} {{ dict(subject=1).subject }}"
    )
    assert filled("doc_to_text", text, values) == text.replace("{{ subject", '{{ "S"')
    assert filled("doc_to_text", "{{ x is upper }}", values) == "{{ x is upper }}"
    assert filled("doc_to_text", "{{ x is not upper }}", values) == "{{ x is not upper }}"
    assert filled("doc_to_text", "subject", values) == "subject"
    with pytest.raises(ConfigError, match=r"sets 'subject'"):
        filled("doc_to_text", "{% for subject in list %}{{ subject }}{% endfor %}", values)


@given(
    value=st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text()),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
def test_a_literal_is_read_back(value: Any) -> None:
    assert compile_field(f"{{{{ [{literal(value)}] }}}}")({}) == [value]


@given(name=st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r"), min_size=1))
def test_a_value_with_any_text(name: str) -> None:
    made = family(each={"subject": [name]}, description="About {{ subject }}.", task="t")
    description = made.task_keys("t")["description"]
    assert compile_field(description)({}) == f"About {name}."


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"each": ["a"]}, r"each must be variables.*, not \['a'\]"),
    ({"each": {}}, r"each must be variables"),
    ({"each": {"subject": []}}, r"each.subject must be a list"),
    ({"each": {"subject": "a"}}, r"each.subject must be a list"),
    ({"each": {"subject": ["a", "a"]}}, r"each.subject must be .* each once"),
    ({"each": {"subject": ["de", False]}}, r"in quotes, not .* Entry 2 is False"),
    ({"each": {"subject": [["a"]]}}, r"texts or numbers.* Entry 1 is \['a'\]"),
    ({"each": {"my subject": ["a"]}}, r"each must be variables .*'my subject'"),
    ({"each": {"doc": ["a"]}}, r"each must be variables .*not `doc`"),
    ({"each": {"subject": {"a": {"x": 1}, "b": {}}}}, r"each.subject.b needs `x`"),
    ({"each": {"subject": {"a": 3}}}, r"to further variables.*not \{'a': 3\}"),
    (
        {"each": {"subject": ["a"], "x": {"b": {"subject": 1}}}},
        r"variable 'subject' twice",
    ),
    ({"each": {"subject": ["a"], "n": [1, 2]}}, r"gives the name 't_a' to two tasks.*use n\."),
    ({"task": "t"}, r"the name 't' to two tasks.*t_\{\{ subject \}\}"),
    ({"task": "t_{{ subjct }}"}, r"reads subjct.*Did you mean 'subject'"),
    ({"task": None}, r"task must be a name"),
    ({"class": "x"}, r"class must be left out"),
    ({"group": "t_a"}, r"'t_a' has the name of one of its tasks"),
    ({"areas": ["a"]}, r"areas must be names"),
    (
        {"areas": {"x": ["a", "bb"]}},
        r"areas.x must be values of subject, not 'bb'.*Did you mean 'b'",
    ),
    ({"areas": {"x": ["a"], "y": ["a", "b"]}}, r"'t_a' is in 'x' and in 'y'"),
    ({"areas": {"x": []}}, r"areas must be names with lists"),
]


def test_what_is_refused() -> None:
    told = {}
    for keys, message in WRONG:
        with pytest.raises(ConfigError) as caught:
            family(**keys)
        told[message] = str(caught.value)
    assert not {
        message: text
        for message, text in told.items()
        if not re.match(f"file.yaml: .*{message}", text)
    }


def test_a_broken_family_does_not_hide_other_tasks(folder: Path, write: Write) -> None:
    write("bad.yaml", "task: t\neach: {n: [1, 2]}\n")
    manager = TaskManager(include_path=folder, include_defaults=False)
    assert manager.load("exam_law")["tasks"]
    assert "gives the name 't' to two tasks" in str(manager.problems[0])
    with pytest.raises(LmEvalError, match=r"bad.yaml.*to two tasks"):
        manager.load(str(folder / "bad.yaml"))
    with pytest.raises(UnknownTaskError):
        manager.load("t")


def test_an_unknown_key_is_told_with_its_line(folder: Path, write: Write) -> None:
    write("exam.yaml", FILE + "doc_to_txt: question\n")
    with pytest.raises(ConfigError, match=r"exam.yaml, line 14.*'doc_to_txt'.*'doc_to_text'"):
        TaskManager(include_path=folder).load("exam_law")


def test_tasks_that_are_loaded_together_read_their_data_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Any] = []
    read = FileLoader.__call__

    def counted(loader: FileLoader) -> Any:
        reads.append(loader)
        return read(loader)

    monkeypatch.setattr(FileLoader, "__call__", counted)
    manager = TaskManager(include_path=folder, include_defaults=False)
    tasks = manager.load(["exam", "exam_law@cloze"])["tasks"]
    assert {name: len(task.eval_docs) for name, task in tasks.items()} == {
        **dict.fromkeys(("exam_algebra", "exam_anatomy", "exam_law"), 4),
        "exam_law@cloze": 4,
    }
    assert len(reads) == 1
    tasks["exam_law"].dataset["test"] = [{**ROWS[-1], "question": "new?"}]
    assert [doc["question"] for doc in tasks["exam_law"].eval_docs] == ["new?"]
    assert len(tasks["exam_law@cloze"].eval_docs) == 4
    assert len(tasks["exam_algebra"].dataset["test"]) == len(ROWS)


def test_data_is_read_again_by_the_next_load(folder: Path, write: Write) -> None:
    manager = TaskManager(include_path=folder, include_defaults=False)
    before = manager.load("exam_law")["tasks"]["exam_law"]
    assert len(before.eval_docs) == 4
    write("rows.jsonl", ROWS[:-1])
    assert len(manager.load("exam_law")["tasks"]["exam_law"].eval_docs) == 3
    assert len(before.eval_docs) == 4


def test_python_of_a_task_has_rows_of_its_own(folder: Path, write: Write) -> None:
    write(
        "helpers.py",
        "def spoil(docs):\n    for doc in docs.own_rows():\n        doc['question'] = '?'\n"
        "    return docs\n",
    )
    write(
        "spoilt.yaml", FILE.replace("exam_", "spoilt_") + "process_docs: !function helpers.spoil\n"
    )
    manager = TaskManager(include_path=folder, include_defaults=False)
    tasks = manager.load(["spoilt_law", "exam_law"])["tasks"]
    assert {doc["question"] for doc in tasks["spoilt_law"].eval_docs} == {"?"}
    assert "?" not in {doc["question"] for doc in tasks["exam_law"].eval_docs}
