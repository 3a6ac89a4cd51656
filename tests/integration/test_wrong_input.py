"""Every wrong input: one message that says where, what and what next; exit 1; nothing written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lm_eval.models.dummy import DummyLM
from tests.support.command_line import Outcome, Workplace, python_started, subprocess_cli
from tests.support.paths import SOURCE


@pytest.fixture
def loads_model() -> None:
    """Marks a test in which the model itself is what is wrong."""


@pytest.fixture(autouse=True)
def _no_model_is_loaded(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Wrong input is found before a model is loaded, unless the model itself is what is wrong.

    A light model may be made earlier, to ask it how requests are put; ``dummy`` counts as heavy here.
    """
    monkeypatch.setattr(DummyLM, "is_light", False)
    if "loads_model" in request.fixturenames:
        return

    def refuse(self: DummyLM, *_: Any, **__: Any) -> None:
        pytest.fail("a model was loaded before the wrong input was found")

    monkeypatch.setattr(DummyLM, "__init__", refuse)


def assert_refused(place: Workplace, outcome: Outcome, *words: str) -> None:
    """One message with all these words, exit 1, no file and no folder left behind."""
    assert outcome.code == 1, (outcome.out, outcome.err)
    assert outcome.err.count("lm-eval: ") == 1
    assert outcome.err.startswith("lm-eval: error: ")
    assert "Traceback" not in outcome.err
    assert "usage:" not in outcome.err
    missing = [word for word in words if word not in outcome.err]
    assert not missing, f"{missing} not in: {outcome.err}"
    assert place.written() == []


# YAML


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("task: t\n  doc: [a\n", ["line 2, column 6"]),
        ("doc_to_text: q\n", ["neither a `task` nor a `group`"]),
        ("include: nowhere.yaml\ntask: t\n", ["nowhere.yaml", "relative"]),
        ("include: bad.yaml\ntask: t\n", ["includes itself"]),
    ],
)
def test_yaml_that_cannot_be_read(place: Workplace, content: str, words: list[str]) -> None:
    path = place.write("bad.yaml", content)
    assert_refused(place, place.run("--tasks", path), "bad.yaml", *words)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"doc_to_txt": "q"}, ["t.yaml, line 14", "'doc_to_txt'", "Did you mean 'doc_to_text'?"]),
        ({"formats": "mcq"}, ["t.yaml", "'mcq'", "Did you mean 'mcqa'?", "lm-eval ls formats"]),
        (
            {"formats": {"type": "mcqa", "question_prefx": "Q"}},
            ["t.yaml", "'question_prefx'", "Did you mean 'question_prefix'?"],
        ),
        ({"formats": {"mine": {"type": "mcqb"}}}, ["formats.mine", "Did you mean 'mcqa'?"]),
        ({"formats": {"mine": {"question_prefix": "x"}}}, ["formats.mine", "needs a `type`"]),
        ({"formats": ["mcqa"]}, ["t.yaml", "formats", "['mcqa']"]),
        ({"formats": {}}, ["formats", "{}"]),
        ({"formats": 5}, ["formats", "not 5"]),
        ({"formats": {"mcqa": 5}}, ["formats.mcqa", "not 5"]),
        ({"formats": {"mcqa": ["x"]}}, ["formats.mcqa", "['x']"]),
        ({"formats": {"type": "mcqa", "question_prefix": 5}}, ["question_prefix", "a text"]),
        ({"formats": {"type": "mcqa", "choice_labels": 5}}, ["choice_labels", "letters"]),
        ({"formats": {"type": "mcqa", "choice_labels": "leters"}}, ["Did you mean 'letters'?"]),
        ({"formats": {"type": "mcqa", "choice_labels": []}}, ["choice_labels", "[]"]),
        ({"formats": {"type": "mcqa", "choice_labels": list("AAB")}}, ["differ"]),
        ({"formats": {"type": "mcqa", "choice_format": "x"}}, ["choice_format", "{choice}"]),
        ({"formats": {"type": "mcqa", "target_format": "x"}}, ["target_format", "{answer}"]),
        ({"formats": {"type": "mcqa", "metrics": []}}, ["metrics must be a list", "[]"]),
        ({"formats": ..., "template": "mcqq"}, ["t.yaml", "'mcqq'", "Did you mean 'mcq'?"]),
        (
            {"formats": ..., "template": {"template_type": "mcq::mmul"}},
            ["Did you mean 'mcq::mmlu'?", "cloze::pure"],
        ),
        (
            {"formats": ..., "template": {"template_type": "mcq", "prefx": "x"}},
            ["'prefx'", "Did you mean 'prefix'?"],
        ),
        ({"formats": ..., "template": {"prefix": "x"}}, ["template_type is missing"]),
        ({"template": "mcq"}, ["both `template` and `formats`", "Keep one"]),
        (
            {"formats": ..., "output_type": "multiple_choic"},
            ["'multiple_choic'", "Did you mean 'multiple_choice'?"],
        ),
        ({"task": "a@b"}, ["t.yaml", "'a@b'", "Choose another"]),
        ({"task": "a,b"}, ["t.yaml", "'a,b'"]),
        ({"task": ""}, ["t.yaml", "''"]),
        ({"num_fewshot": "two"}, ["num_fewshot", "'two'"]),
        ({"num_fewshot": -1}, ["num_fewshot", "-1"]),
        ({"description": 5}, ["description", "5"]),
        ({"dataset_kwargs": "x"}, ["dataset_kwargs", "mapping"]),
        ({"generation_kwargs": [1]}, ["generation_kwargs", "mapping"]),
        ({"generation_kwargs": {"temperature": "hot"}}, ["'t'", "temperature", "'hot'"]),
        ({"generation_kwargs": {"until": 5}}, ["until", "list of texts"]),
        ({"metric_list": "acc"}, ["metric_list", "{metric: acc}"]),
        ({"metric_list": 5}, ["metric_list", "5"]),
        (
            {"formats": ..., "output_type": "multiple_choice", "metric_list": [{"metric": "accc"}]},
            ["'accc'", "Did you mean 'acc'?"],
        ),
        ({"doc_to_choice": ...}, ["'mcqa'", "doc_to_choice: choices"]),
        ({"doc_to_target": ...}, ["'mcqa'", "doc_to_target: answer"]),
        ({"doc_to_text": "{{ question "}, ["'t'", "doc_to_text", "not valid Jinja"]),
        ({"doc_to_text": "{{ question | nofilter }}"}, ["'t'", "doc_to_text", "nofilter"]),
        ({"fewshot_config": {"sampler": "frist_n"}, "num_fewshot": 1}, ["Did you mean 'first_n'?"]),
        ({"fewshot_split": "train", "num_fewshot": 1}, ["no split 'train'", "Splits: test"]),
        ({"repeats": 1_000_000_000}, ["'t'", "repeats must be", "to 100,000, not 1000000000"]),
        ({"repeats": 0}, ["repeats must be a whole number from 1 to 100,000, not 0"]),
        ({"repeats": "five"}, ["repeats must be a whole number", "'five'"]),
        ({"formats": {"type": "generate", "metrics": 5}}, ["metrics must be a list"]),
        ({"formats": {"type": "mcqa", "instruction": 3}}, ["instruction"]),
        ({"formats": []}, ["formats", "[]"]),
        ({"formats": True}, ["formats", "True"]),
        ({"fewshot_config": "first_n"}, ["fewshot_config must be a mapping"]),
        ({"fewshot_config": {"samples": 5}, "num_fewshot": 1}, ["'t'"]),
        (
            {"fewshot_config": {"samples": [{"question": "a"}]}, "num_fewshot": 1},
            ["few-shot doc 0"],
        ),
        (
            {"formats": ..., "output_type": "multiple_choice", "target_delimiter": None},
            ["'t'"],
        ),
        (
            {"target_type": "one_base"},
            ["target_type must be", "'one_base'", "Did you mean 'one_based'?"],
        ),
        ({"target_type": 1}, ["target_type must be", "not 1"]),
        # what they give for a doc
        (
            {"doc_to_text": "qestion"},
            ["'t', doc 0", "doc_to_text", "Did you mean 'question'?", "choices, answer"],
        ),
        ({"doc_to_text": "{{ qestion }}"}, ["doc 0", "Did you mean 'question'?"]),
        ({"doc_to_target": "anser"}, ["doc 0", "doc_to_target", "Did you mean 'answer'?"]),
        ({"doc_to_choice": "choises"}, ["doc 0", "doc_to_choice", "Did you mean 'choices'?"]),
        ({"doc_to_text": "{{ question.__class__ }}"}, ["doc 0", "__class__", "sandbox"]),
        ({"doc_to_text": "Q {{ ''.__class__.__mro__[1] }}"}, ["__class__", "!function"]),
        ({"doc_to_text": "{{ 1 / 0 }}"}, ["doc 0", "ZeroDivisionError"]),
        ({"doc_to_text": "{{ 'a' * 10 ** 9 }}"}, ["doc 0", "refused"]),
        ({"doc_to_choice": "{{ answer }}"}, ["doc 0", "not a list"]),
        (
            {"formats": {"type": "mcqa", "choice_labels": ["A", "B"]}},
            ["doc 0", "2 labels (A, B) for 4 choices", "at least 4"],
        ),
        ({"doc_to_choice": ["A", "B", "C", "D"]}, ["'t'", "bare labels", "doc_to_choice"]),
        (
            {"doc_to_text": "{{question}}\nA. w\nB. x\nC. y\nD. z"},
            ["already shows the choices", "doc_to_text: question"],
        ),
    ],
)
def test_task_keys(place: Workplace, keys: dict[str, Any], words: list[str]) -> None:
    assert_refused(place, place.run("--tasks", place.task(**keys)), *words)


@pytest.mark.parametrize(
    ("doc", "keys", "words"),
    [
        ({"question": ...}, {}, ["doc_to_text", "gives None: the doc has no value for question"]),
        ({"choices": None}, {}, ["doc_to_choice", "gives None", "fields: question, choices"]),
        ({"choices": {"text": ["w", "x"]}}, {}, ["choices.text"]),
        ({"choices": [{"text": "w"}, {"text": "x"}]}, {}, ["map(attribute="]),
        ({"question": ...}, {"doc_to_text": "Q: {{ question }}"}, ["doc 17", "question"]),
        ({"choices": "abc"}, {}, ["doc 17", "'abc'", "not a list"]),
        ({"choices": 5}, {}, ["doc 17", "gives 5", "not a list"]),
        ({"choices": []}, {}, ["doc 17", "empty", "at least two"]),
        ({"choices": ["w"]}, {}, ["doc 17", "one choice only ('w')", "at least two"]),
        ({"choices": [["w"], ["x"]]}, {}, ["doc 17", "['w']", "map(attribute="]),
        ({"choices": ["w", None]}, {}, ["doc 17", "None"]),
        (
            {"choices": ["w", "x", "w", "z"], "answer": "w"},
            {},
            ["doc 17", "'w'", "more than one choice", "distinct"],
        ),
        ({"answer": "v"}, {}, ["doc 17", "'v' matches none", "'w', 'x', 'y', 'z'"]),
        ({"answer": 4}, {}, ["doc 17", "4 matches none", "0-based"]),
        ({"answer": -1}, {}, ["doc 17", "-1 matches none"]),
        ({"answer": None}, {}, ["doc 17", "no gold answer"]),
        ({"answer": ""}, {}, ["doc 17", "gives ''", "no gold answer"]),
        (
            {"answer": 9},
            {"formats": ..., "output_type": "multiple_choice"},
            ["doc 17", "target 9 is not one of the 4 choices"],
        ),
    ],
)
def test_one_bad_doc_among_twenty(
    place: Workplace, doc: dict[str, Any], keys: dict[str, Any], words: list[str]
) -> None:
    place.rows(doc=17, **doc)
    assert_refused(place, place.run("--tasks", place.task(**keys)), "'t', doc 17", *words)


def test_a_field_missing_inside_doc_17(place: Workplace) -> None:
    place.rows(meta={"stem": "q"})
    rows = Path(place.folder / "docs.jsonl").read_text().splitlines()
    rows[17] = rows[17].replace('{"stem": "q"}', "{}")
    place.write("docs.jsonl", "\n".join(rows))
    outcome = place.run("--tasks", place.task(doc_to_text="{{ meta.stem }}"))
    assert_refused(place, outcome, "'t', doc 17", "'stem'", "question, choices, answer, meta")


@pytest.mark.usefixtures("loads_model")
def test_a_raw_task_without_a_question(place: Workplace) -> None:
    keys = {"formats": ..., "output_type": "multiple_choice", "doc_to_text": ...}
    assert_refused(place, place.run("--tasks", place.task(**keys)), "doc_to_text")


@pytest.mark.usefixtures("loads_model")
@pytest.mark.parametrize("chosen", [["--limit", "2"], ["--samples", '{"t": [7]}']])
def test_a_bad_doc_that_is_not_asked_is_no_error(place: Workplace, chosen: list[str]) -> None:
    place.rows(doc=3, answer="v")
    assert place.run("--tasks", place.task(), *chosen).code == 0


# Data files


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("e.jsonl", "", ["e.jsonl is empty"]),
        ("b.jsonl", '{"question": "a"}\n{"question": \n', ["b.jsonl, line 2, column 14"]),
        ("c.csv", "question,question\n1,2\n", ["c.csv", "question"]),
    ],
)
def test_data_files(place: Workplace, name: str, content: str, words: list[str]) -> None:
    kind = "csv" if name.endswith("csv") else "json"
    path = place.task(dataset_kwargs=place.data(name, content), dataset_path=kind)
    assert_refused(place, place.run("--tasks", path), "'t'", *words)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"dataset_kwargs": {"data_files": {"test": "dosc.jsonl"}}},
            ["'dosc.jsonl'", "Did you mean 'docs.jsonl'?", "Looked for"],
        ),
        ({"test_split": "tset"}, ["no split 'tset'", "Did you mean 'test'?"]),
        ({"test_split": ...}, ["neither test_split nor validation_split", "Add"]),
        ({"dataset_path": ...}, ["no dataset_path", "Give one"]),
        ({"dataset_path": "./nothing.jsonl", "dataset_kwargs": ...}, ["nothing.jsonl"]),
        ({"dataset_kwargs": {"data_files": {"test": 5}}}, ["data_files", "5"]),
        ({"dataset_kwargs": {"data_files": {}}}, ["data_files"]),
        ({"dataset_kwargs": {"data_fiels": "x"}}, ["data_fiels"]),
    ],
)
def test_where_docs_come_from(place: Workplace, keys: dict[str, Any], words: list[str]) -> None:
    assert_refused(place, place.run("--tasks", place.task(**keys)), "'t'", *words)


def test_a_folder_where_a_file_is_meant(place: Workplace) -> None:
    (place.folder / "sub.yaml").mkdir()
    assert_refused(place, place.run("--tasks", str(place.folder / "sub.yaml")), "is a folder")
    keys = {"dataset_kwargs": {"data_files": {"test": str(place.folder)}}}
    assert_refused(place, place.run("--tasks", place.task(**keys)), str(place.folder))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise ValueError('boom')", ["utils.py:2", "ValueError", "boom"]),
        ("return docs.nothing", ["utils.py:2", "AttributeError"]),
        ("return docs\nchange = 5", ["utils.change", "cannot be called"]),
    ],
)
def test_task_code_that_fails(place: Workplace, body: str, words: list[str]) -> None:
    place.write("utils.py", f"def change(docs):\n    {body}\n")
    path = place.task()
    text = Path(path).read_text()
    place.write("t.yaml", text[:-1] + ', "process_docs": !function utils.change}')
    assert_refused(place, place.run("--tasks", path), "'t'", "utils.change", *words)


@pytest.mark.parametrize("key", ["process_docs", "custom_dataset"])
def test_task_code_that_returns_something_else(place: Workplace, key: str) -> None:
    place.write("utils.py", "def change(*docs, **more):\n    return [5]\n")
    path = place.task()
    text = Path(path).read_text()
    place.write("t.yaml", text[:-1] + f', "{key}": !function utils.change}}')
    assert_refused(place, place.run("--tasks", path), "'t'", key)


# Choosing tasks, groups and formats


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        (["demo_mqc"], ["'demo_mqc'", "Did you mean 'demo_mcq'?", "lm-eval ls tasks"]),
        (["demo_mcq@mcqaa"], ["'mcqaa'", "Did you mean 'mcqa'?", "lm-eval ls formats"]),
        (["demo_short@mcqa"], ["'demo_short'", "doc_to_choice"]),
        (["demo_mcq@"], ["'demo_mcq@'", "task@format", "my_task@mcqa"]),
        (["@mcqa"], ["'@mcqa'", "task@format"]),
        (["@"], ["'@'", "task@format"]),
        (["demo_mcq@mcqa@cloze"], ["'demo_mcq@mcqa@cloze'", "one @"]),
        ([""], ["No tasks", "lm-eval ls tasks"]),
        ([","], ["No tasks"]),
        (["zzz*"], ["No task matches 'zzz*'"]),
        (["tt.yaml"], ["'tt.yaml' does not exist", "Did you mean 't.yaml'?"]),
        (["empty/"], ["holds no task files"]),
    ],
)
def test_names(place: Workplace, tasks: list[str], words: list[str]) -> None:
    place.task()
    (place.folder / "empty").mkdir()
    assert_refused(place, place.run("--tasks", *tasks), *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("task: [demo_mqc]", ["'demo_mqc'", "Did you mean 'demo_mcq'?"]),
        ("task: []", ["task must be a list of its tasks"]),
        ("metadata: {version: 1}", ["task must be a list of its tasks"]),
        ("task: [5]", ["a member 5"]),
        ("task: [{num_fewshot: 2}]", ["needs a `task` name"]),
        ("task: [{task: demo_mqc, num_fewshot: 2}]", ["Did you mean 'demo_mcq'?", "dataset_path"]),
        ("task: [{group: nothing}]", ["'nothing'"]),
        ("task: [demo_mcq@mcqaa]", ["Did you mean 'mcqa'?"]),
        ("task: [g]", ["contains itself: g → g"]),
        ("task: [h]", ["contains itself: g → h → g"]),
        ("task: [demo_mcq]\ngroup_alas: x", ["'group_alas'", "Did you mean 'group_alias'?"]),
        ("group: [g]\ntask: [demo_mcq]", ["must be a name"]),
        ("task: [demo_mcq]\naggregate_metric_list: [{metic: acc}]", ["metric"]),
        ("task: [demo_mcq]\naggregate_metric_list: 5", ["aggregate_metric_list", "5"]),
        ("task: [demo_mcq]\naggregate_metric_list: [acc]", ["'acc'", "- metric: acc"]),
        (
            "task: [demo_mcq]\naggregate_metric_list: [{metric: acc, weight: 1}]",
            ["'weight'", "Did you mean 'weight_by_size'?"],
        ),
        ("task: [demo_mcq]\nmetadata: 5", ["metadata", "mapping"]),
        (
            "task: [{task: demo_mcq, num_fewshot: 0}, {task: demo_mcq, num_fewshot: 2}]",
            ["'demo_mcq'", "different settings (num_fewshot)", "a name of its own"],
        ),
    ],
)
def test_groups(place: Workplace, content: str, words: list[str]) -> None:
    head = "" if content.startswith("group:") else "group: g\n"
    path = place.write("groups/g.yaml", f"{head}{content}\n")
    place.write("groups/h.yaml", "group: h\ntask: [g]\n")
    outcome = place.run("--tasks", "g" if head else path, "--include_path", "groups")
    assert_refused(place, outcome, *words)


def test_a_group_metric_that_no_task_has(place: Workplace) -> None:
    """Found before the run, not after the last answer."""
    metrics = "aggregate_metric_list: [{metric: accc}]"
    path = place.write("g.yaml", f"group: g\ntask: [demo_mcq]\n{metrics}\n")
    assert_refused(place, place.run("--tasks", path), "'accc'", "Did you mean 'acc'?", "acc")


def test_one_name_in_two_files(place: Workplace) -> None:
    place.task("tasks/a.yaml")
    place.task("tasks/b.yaml")
    outcome = place.run("--tasks", "tasks/a.yaml", "tasks/b.yaml")
    assert_refused(place, outcome, "two files", "a.yaml", "b.yaml")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--include_path", "taks"], ["'taks' does not exist", "Did you mean 'tasks'?"]),
        (["--format_path", "nowhere"], ["'nowhere' does not exist"]),
        (["--format_path", "tasks"], ["holds no .yaml file"]),
        (["--format_path", "clash.yaml"], ["'mcqa'", "twice", "clash.yaml", "Rename one"]),
        (["--format_path", "typo.yaml"], ["typo.yaml", "'anwser_prompt'", "Did you mean"]),
        (["--format_path", "base.yaml"], ["base.yaml", "'mcqaa'", "Did you mean 'mcqa'?"]),
        (["--format_path", "named.yaml"], ["named.yaml", "name must be a text"]),
    ],
)
@pytest.mark.usefixtures("own_registries")
def test_folders_of_tasks_and_formats(place: Workplace, flags: list[str], words: list[str]) -> None:
    (place.folder / "tasks").mkdir()
    place.write("clash.yaml", "name: mcqa\ntype: cloze\n")
    place.write("typo.yaml", "name: wrong_input_typo\nanwser_prompt: x\n")
    place.write("named.yaml", "name: 3\ntype: mcqa\n")
    place.write("base.yaml", "name: wrong_input_base\ntype: mcqaa\n")
    assert_refused(place, place.run("--tasks", place.task(), *flags), *words)


# Flags


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--num_fewshot", "20"], ["'t'", "num_fewshot is 20", "19", "--num_fewshot 19"]),
        (["--num_fewshot", "-1"], ["--num_fewshot", "0 or more"]),
        (["--num_fewshot", "two"], ["--num_fewshot", "'two'", "whole number"]),
        (["--limit", "0"], ["--limit 0", "from 1 up"]),
        (["--limit", "-1"], ["--limit -1", "from 1 up"]),
        (["--limit=-0.5"], ["--limit -0.5"]),
        (["--limit", "nan"], ["--limit nan"]),
        (["--limit", "inf"], ["--limit inf"]),
        (["--limit", "2.5"], ["--limit 2.5", "whole number"]),
        (["--limit", "abc"], ["--limit", "'abc' is not a number", "from 1 up"]),
        (["--limit", ""], ["--limit", "'' is not a number"]),
        (["--limit"], ["--limit", "expected one argument"]),
        (["--limit", "2", "--samples", '{"t": [1]}'], ["--limit", "--samples", "Give one"]),
        (["--samples", "{t"], ["--samples", "not valid JSON"]),
        (["--samples", "[1]"], ["--samples", "JSON object"]),
        (["--samples", "nowhere.json"], ["'nowhere.json'", "neither JSON", "No such file"]),
        (["--samples", "latin.json"], ["latin.json", "UTF-8"]),
        (["--samples", "."], ["directory"]),
        (["--samples", '{"t": [0, 20]}'], ["'t'", "doc 20", "0 to 19"]),
        (["--samples", '{"t": [-1]}'], ["'t'", "[-1]"]),
        (["--samples", '{"t": ["0"]}'], ["'t'", "['0']"]),
        (["--samples", '{"t": [true]}'], ["'t'", "[True]"]),
        (["--samples", '{"t": 3}'], ["'t'", "[0, 3]"]),
        (["--samples", '{"t": []}'], ["'t'", "[]"]),
        (["--samples", "{}"], ["no docs of any task", "leave --samples out"]),
        (["--samples", '{"u": [0]}'], ["'u'", "and no task of this run", "Tasks: t"]),
        (["--sample", "random"], ["--sample random needs --limit"]),
        (["--limit", "2", "--sample", "last"], ["--sample last: give first or random"]),
        (["--samples", '{"tt": [0]}'], ["'tt'", "Did you mean 't'?"]),
        (["--gen_kwargs", "foo"], ["--gen_kwargs", "'foo'", "max_gen_toks=64"]),
        (["--gen_kwargs", "max_gen_toks=0"], ["max_gen_toks", "from 1 up"]),
        (["--gen_kwargs", "max_gen_toks=many"], ["max_gen_toks", "'many'"]),
        (["--gen_kwargs", "temperature=-1"], ["temperature", "from 0 up"]),
        (["--gen_kwargs", "do_sample=maybe"], ["do_sample", "true or false"]),
        (["--gen_kwargs", "{temperature"], ["--gen_kwargs", "JSON"]),
        (["--model_args", "seed"], ["--model_args", "'seed'", "="]),
        (["--model_args", "seed=1,seed=2"], ["--model_args", "'seed'", "twice", "1", "2"]),
        (["--model_args", '{"seed": 1, "seed": 2}'], ["--model_args", "'seed'", "twice"]),
        (["--model", "dumy"], ["'dumy'", "Did you mean 'dummy'?", "lm-eval ls models"]),
        (["--batch_size", "many"], ["--batch_size 'many'", "auto"]),
        (["--batch_size", "0"], ["--batch_size '0'"]),
        (["--seed", "x"], ["--seed 'x'", "whole number"]),
        (["--seed", ""], ["--seed ''"]),
        (["--seed", "1,2"], ["--seed", "1, 3 or 4"]),
        (["--fewshot_as_multiturn"], ["--apply_chat_template"]),
        (["--fewshot_as_multiturn", "maybe"], ["'maybe'", "true, false"]),
        (["--num_fewshots", "2"], ["'--num_fewshots'", "Did you mean '--num_fewshot'?"]),
        (["--outputs", "x"], ["'--outputs'", "Did you mean '--output_path'?"]),
        (["--config", "nowhere.yaml"], ["nowhere.yaml"]),
    ],
)
def test_flags(place: Workplace, flags: list[str], words: list[str]) -> None:
    place.write("latin.json", b'{"t\xe9": [0]}')
    assert_refused(place, place.run("--tasks", place.task(), *flags), *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("taskss: t", ["unknown option 'taskss'", "Did you mean 'tasks'?"]),
        ("limit: abc", ["--limit", "'abc'"]),
        ("limit: 0", ["--limit 0"]),
        ("num_fewshot: x", ["--num_fewshot", "'x'"]),
        ("seed: [1, 2]", ["--seed"]),
        ("tasks: 5", ["'5'"]),
        ("apply_chat_template: 'no'", ["apply_chat_template", "true or false", "'no'"]),
        ("gen_kwargs: foo", ["--gen_kwargs", "'foo'"]),
        ("samples: {u: [0]}", ["'u'"]),
        ("- limit", ["holds a list"]),
        ("limit: [", ["line"]),
        ("1: 2", ["the key 1", "in quotes"]),
    ],
)
def test_option_files(place: Workplace, content: str, words: list[str]) -> None:
    path = place.write("options.yaml", content + "\n")
    flags = [] if "tasks:" in content else ["--tasks", place.task()]
    assert_refused(place, place.run("--config", path, *flags), *words)


@pytest.mark.parametrize("flag", ["--predict_only", "--log_samples"])
def test_flags_that_need_an_output_path(place: Workplace, flag: str) -> None:
    outcome = place.cli("run", "--model", "dummy", "--tasks", place.task(), flag)
    assert_refused(place, outcome, flag, "--output_path")


@pytest.mark.parametrize("path", ["taken", "taken/below", "/proc/nowhere", " ", "a" * 300])
def test_an_output_path_that_cannot_be_written(place: Workplace, path: str) -> None:
    place.write("taken", "a file")
    task = place.task()
    outcome = place.cli("run", "--model", "dummy", "--tasks", task, "--output_path", path)
    assert_refused(place, outcome, "--output_path")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["rnu"], ["'rnu'", "Did you mean 'run'?"]),
        (["demo_mcq"], ["'demo_mcq'", "lm-eval run --tasks"]),
        (["run", "demo_mcq"], ["'demo_mcq'", "lm-eval run"]),
        (["run"], ["No tasks", "--tasks 'demo_mcq@*'"]),
        (["run", "--tasks"], ["--tasks"]),
        (["ls", "--include_path", "."], ["tasks|formats"]),
        (["ls", "task"], ["error: Unknown value 'task'. Did you mean 'tasks'? Values: tasks, "]),
        (["preview"], ["TASK"]),
        (["preview", "demo_mqc"], ["Did you mean 'demo_mcq'?"]),
        (["preview", "demo_mcq", "--doc", "80"], ["no doc 80", "0 to 79"]),
        (["preview", "demo_mcq", "--doc", "-1"], ["no doc -1"]),
        (["preview", "demo_mcq", "--doc", "x"], ["--doc", "'x'"]),
        (["preview", "demo_mcq", "--num_fewshot", "9"], ["num_fewshot is 9", "8"]),
        (["validate"], ["No tasks", "--all"]),
        (
            ["validate", "--tasks", "demo_mcq", "--num_fewshot", "-1"],
            ["--num_fewshot", "0 or more"],
        ),
    ],
)
def test_commands(place: Workplace, argv: list[str], words: list[str]) -> None:
    assert_refused(place, place.cli(*argv), *words)


# The model itself


@pytest.mark.usefixtures("loads_model")
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("sed=3", ["'dummy'", "'sed'", "Did you mean 'seed'?"]),
        ("seed=x", ["'dummy'", "seed must be a whole number", "'x'"]),
    ],
)
def test_model_arguments(place: Workplace, given: str, words: list[str]) -> None:
    assert_refused(place, place.run("--tasks", place.task(), "--model_args", given), *words)
    assert not place.output.exists()


@pytest.mark.usefixtures("loads_model")
def test_a_folder_that_was_there_stays(place: Workplace) -> None:
    place.output.mkdir()
    assert_refused(place, place.run("--tasks", place.task(), "--model_args", "sed=3"), "'sed'")
    assert place.output.is_dir()


@pytest.mark.usefixtures("loads_model")
def test_weights_that_are_not_there(place: Workplace) -> None:
    pytest.importorskip("cyllama")
    flags = ("--model_args", "path=nowhere.gguf")
    assert_refused(place, place.run("--tasks", place.task(), *flags, model="gguf"), "nowhere.gguf")


@pytest.mark.usefixtures("loads_model")  # in the end
def test_a_task_file_that_lies_here(place: Workplace) -> None:
    place.task("my_task.yaml", task="my_task")
    done = place.run("--tasks", "my_task@mcqa")
    assert_refused(place, done, "my_task.yaml is in this folder: add `--include_path .`")
    assert place.run("--tasks", "my_task@mcqa", "--include_path", ".").code == 0


# Real processes


def test_a_process_says_one_line_and_exits_with_1(place: Workplace) -> None:
    done = subprocess_cli("run", "--tasks", "demo_mqc", "--model", "dummy", cwd=place.folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        "lm-eval: error: Unknown task 'demo_mqc'. Did you mean 'demo_mcq'?"
    )
    assert done.stderr.count("\n") == 1


def test_a_terminal_that_is_not_utf8(place: Workplace) -> None:
    environment = {"PYTHONIOENCODING": "ascii"}
    done = subprocess_cli(
        "run", "--tasks", "nöpe", "--model", "dummy", cwd=place.folder, **environment
    )
    assert done.returncode == 1
    assert "Unknown task 'n\\xf6pe'" in done.stderr
    done = subprocess_cli("preview", "demo_mcq", cwd=place.folder, **environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_name_that_is_not_utf8(place: Workplace) -> None:
    command = [os.fsencode(sys.executable), b"-m", b"lm_eval", b"preview", b"caf\xe9.yaml"]
    done = subprocess.run(
        command,
        cwd=place.folder,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1
    assert b"does not exist" in done.stderr
    assert b"Traceback" not in done.stderr


SLOW_MODEL = """
import time
from lm_eval.models.dummy import DummyLM
from lm_eval.registry import MODELS
class Slow(DummyLM):
    def stream(self, requests):
        for answer in super().stream(requests):
            yield answer
            print("ASKED", flush=True)
            time.sleep(600)
MODELS.register("slow", Slow)
from lm_eval.cli import main
raise SystemExit(main(["run", "--model", "slow", "--tasks", "t.yaml", "--output_path", "out"]))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_ctrl_c_stops_with_one_line(place: Workplace) -> None:
    place.task()
    process = python_started("-c", SLOW_MODEL, cwd=place.folder)
    try:
        assert process.stdout is not None
        for line in iter(process.stdout.readline, ""):
            if "ASKED" in line:
                break
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=240)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert err.endswith("Stopped by Ctrl-C.\n")
    assert place.written() == []


def test_json_in_messages_is_bounded(place: Workplace) -> None:
    """A whole novel in a wrong field does not fill the screen."""
    path = place.task(doc_to_choice="{{ question }}")
    place.rows(question="x" * 100_000)
    outcome = place.run("--tasks", path)
    assert_refused(place, outcome, "doc 0", "not a list")
    assert len(outcome.err) < 1000
    assert len(json.dumps(outcome.err)) < 1100


def test_an_argument_that_a_model_needs_is_named(place: Workplace) -> None:
    outcome = place.run("--tasks", place.task(), model="hf")
    assert_refused(place, outcome, "Model 'hf' needs pretrained", "--model_args pretrained=…")
