"""What can be wrong with task files of EleutherAI's harness: who is to blame, and what goes on."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Outcome, Workplace

FOLDER = ("--include_path", "tasks")
RAW: dict[str, Any] = {"formats": ..., "output_type": "multiple_choice"}


def refused(outcome: Outcome, *words: str) -> None:
    """Exit code 1 and one message, with all these words."""
    outcome.refused(*words)
    assert outcome.err.count("lm-eval: ") == 1, outcome.err


def with_functions(place: Workplace, name: str, functions: dict[str, str], **keys: Any) -> str:
    """A task file with ``!function`` values, which JSON cannot hold."""
    path = place.task(f"tasks/{name}.yaml", task=name, **{**RAW, **keys})
    text = Path(path).read_text()
    added = "".join(f', "{key}": !function {value}' for key, value in functions.items())
    return place.write(f"tasks/{name}.yaml", f"{text[:-1]}{added}}}")


# Includes


def test_a_circle_of_includes_shows_the_chain(place: Workplace) -> None:
    place.task("tasks/good.yaml", task="good")
    place.write("tasks/a.yaml", "task: a\ninclude: b\n")
    place.write("tasks/b", "include: c\n")
    place.write("tasks/c", "include: b\n")
    path = str(place.folder / "tasks/a.yaml")
    refused(place.run("--tasks", path), "a.yaml", " → ", "tasks/b", "tasks/c")
    outcome = place.cli("validate", "--all", *FOLDER)
    assert outcome.code == 1
    assert " → " in outcome.out
    assert place.run("--tasks", "good", *FOLDER, "--limit", "2").code == 0


def test_a_missing_include_shows_the_chain(place: Workplace) -> None:
    place.task("tasks/good.yaml", task="good")
    place.write("tasks/a.yaml", "task: a\ninclude: b\n")
    place.write("tasks/b", "include: nowhere\n")
    path = str(place.folder / "tasks/a.yaml")
    refused(place.run("--tasks", path), "'nowhere'", "a.yaml → ", "tasks/b → ")
    assert place.run("--tasks", "good", *FOLDER, "--limit", "2").code == 0
    refused(place.run("--tasks", "a", *FOLDER), "Unknown task 'a'", "nowhere")


# Helpers


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import json\n1 / 0\n", ["helper.py:2", "ZeroDivisionError"]),
        ("def f(:\n", ["helper.py:1", "SyntaxError"]),
        ("import no_such_package_x\n", ["No module named", "no_such_package_x", "Install"]),
    ],
)
def test_a_helper_that_cannot_be_imported(place: Workplace, code: str, words: list[str]) -> None:
    place.write("tasks/helper.py", code)
    with_functions(place, "first", {"process_results": "helper.f"})
    with_functions(place, "second", {"doc_to_text": "helper.f"}, doc_to_text=...)
    place.task("tasks/good.yaml", task="good", **RAW)
    outcome = place.run("--tasks", "first,good,second", *FOLDER)
    refused(outcome, "Task", "helper.py", "need it: first, second", *words)
    assert place.run("--tasks", "good", *FOLDER, "--limit", "2").code == 0

    outcome = place.cli("validate", "--all", "--run_code", *FOLDER)
    assert "helper" in outcome.out or "no_such_package_x" in outcome.out
    assert "(2 tasks): first, second" in outcome.out
    lacks_package = "no_such_package_x" in code
    assert outcome.code == (0 if lacks_package else 1), "a missing package is no error of the task"
    named = place.cli("validate", "--tasks", "first", "--run_code", *FOLDER)
    assert named.code == 1, "a task that was named cannot run"


def test_a_class_that_cannot_be_made(place: Workplace) -> None:
    place.write(
        "tasks/helper.py",
        "from lm_eval.api.task import ConfigurableTask\n"
        "class Broken(ConfigurableTask):\n"
        "    def __init__(self):\n"
        "        raise RuntimeError('boom')\n"
        "NoClass = 5\n",
    )
    place.write("tasks/a.yaml", "task: a\nclass: !function helper.Broken\n")
    place.write("tasks/b.yaml", "task: b\nclass: !function helper.NoClass\n")
    refused(place.run("--tasks", "a", *FOLDER), "a.yaml", "Broken", "RuntimeError: boom")
    refused(place.run("--tasks", "b", *FOLDER), "b.yaml", "not a subclass")


# Values of another kind


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"process_docs": "helper.f"}, ["process_docs", "'helper.f'", "`process_docs: !function "]),
        ({"process_results": 3}, ["process_results must be a function", "not 3"]),
        ({"custom_dataset": "helper.f"}, ["custom_dataset", "!function"]),
        ({"fewshot_config": {"process_docs": "f"}}, ["fewshot_config.process_docs", "!function"]),
        ({"fewshot_config": {"smaples": []}}, ["fewshot_config", "Did you mean 'samples'?"]),
        ({"fewshot_config": {"split": ["a"]}}, ["fewshot_config.split", "['a']"]),
        ({"test_split": ["test"]}, ["test_split must be a text, not ['test']"]),
        ({"gen_prefix": ["A"]}, ["gen_prefix must be a text"]),
        ({"num_fewshot": True}, ["num_fewshot must be a whole number from 0 up, not True"]),
    ],
)
def test_a_value_of_another_kind(place: Workplace, keys: dict[str, Any], words: list[str]) -> None:
    path = place.task("tasks/t.yaml", **RAW, **keys)
    refused(place.run("--tasks", path), "t.yaml", "Task 't'", *words)
    assert place.written() == []


@pytest.mark.parametrize(
    ("output_type", "missing"),
    [
        ("generate_until", "doc_to_target"),
        ("loglikelihood", "doc_to_target"),
        ("multiple_choice", "doc_to_target"),
        ("multiple_choice", "doc_to_choice"),
    ],
)
def test_a_field_that_scores_are_made_from(
    place: Workplace, output_type: str, missing: str
) -> None:
    keys = {"formats": ..., "doc_to_choice": ..., "doc_to_target": "question"}
    keys |= {"doc_to_choice": "choices"} if output_type == "multiple_choice" else {}
    path = place.task("tasks/t.yaml", output_type=output_type, **{**keys, missing: ...})
    refused(place.run("--tasks", path), "Task 't' has no", missing, output_type)
    checked = place.cli("validate", "--tasks", path)
    assert (checked.code, f"has no {missing}" in checked.out) == (1, True)
    assert place.written() == []
    if output_type == "generate_until":
        assert place.run("--tasks", path, "--predict_only").code == 0


# Groups and names


def test_a_group_that_names_nothing(place: Workplace) -> None:
    place.task("tasks/good.yaml", task="good")
    place.write("tasks/g.yaml", "group: g\ntask: [good, no_such_tag]\n")
    refused(place.run("--tasks", "g", *FOLDER), "'g'", "'no_such_tag'", "g.yaml")
    outcome = place.cli("validate", "--all", *FOLDER)
    assert outcome.code == 1
    assert re.search(r"\d+ groups: \d+ ok, 1 with errors\.", outcome.out)
    assert place.run("--tasks", "good", *FOLDER, "--limit", "2").code == 0


def test_a_group_given_as_a_file_says_how_names_beside_it_are_found(place: Workplace) -> None:
    place.task("tasks/good.yaml", task="good")
    path = place.write("tasks/g.yaml", "group: g\ntask: [good]\n")
    folder = str(Path(path).parent)
    for selector in (path, folder):
        refused(place.run("--tasks", selector), "'good'", f"add `--include_path {folder}`")
        assert place.run("--tasks", selector, "--include_path", folder, "--limit", "2").code == 0


def test_what_cannot_be_read_does_not_hide_the_rest(place: Workplace) -> None:
    place.task("tasks/good.yaml", task="good")
    (place.folder / "tasks/.#lock.yaml").symlink_to("nowhere")  # as an editor leaves it
    closed = place.folder / "tasks/closed"
    closed.mkdir(mode=0o000)
    is_closed = not os.access(closed, os.R_OK)  # root reads everything
    try:
        outcome = place.cli("ls", "tasks", *FOLDER)
        assert (outcome.code, "good.yaml" in outcome.out) == (0, True), outcome.err
        assert "lock.yaml cannot be read" in outcome.out + outcome.err
        assert ("closed cannot be read" in outcome.out + outcome.err) == is_closed
        assert place.run("--tasks", "good", *FOLDER, "--limit", "2").code == 0
    finally:
        closed.chmod(0o700)


def test_one_name_in_two_files(place: Workplace) -> None:
    place.task("tasks/one.yaml", task="twin", **RAW)
    place.task("tasks/two.yaml", task="twin", **RAW)
    place.task("tasks/good.yaml", task="good", **RAW)
    both = ("defined twice", "one.yaml", "two.yaml", "Rename one")
    refused(place.run("--tasks", "twin", *FOLDER), *both)
    assert place.run("--tasks", "good", *FOLDER, "--limit", "2").code == 0
    assert place.run("--tasks", "twin", *FOLDER, "--limit", "2", "--parity").code == 0
    assert place.results()["config"]["parity"] is True


# Scoring


def test_a_gold_outside_the_choices_is_wrong_under_parity_and_the_task_is_named(
    place: Workplace,
) -> None:
    place.task("tasks/far.yaml", task="far", doc_to_target=9, **RAW)
    outcome = place.run("--tasks", "far", *FOLDER, "--limit", "2", "--parity").ok()
    assert "Task 'far': the target 9 is not one of the" in outcome.err
    assert outcome.err.count("counts as wrong") == 1  # however many docs


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"metric_list": [{"metric": "word_perplexity"}]}, ["cannot be computed", "acc_norm"]),
        ({"filter_list": [{"name": "x", "filter": [{"regex_pattern": "a"}]}]}, ["function"]),
        ({"filter_list": [{"name": "x"}]}, ["filter_list[1] needs `filter`"]),
        (
            {
                "filter_list": [
                    {"name": "x", "filter": [{"function": "regex", "regex_pattern": "a(b"}]}
                ]
            },
            ["'x'", "a(b", "position 1"],
        ),
        (
            {"filter_list": [{"name": "x", "filter": [{"function": "regx"}]}]},
            ["'regx'", "Did you mean 'regex'?"],
        ),
    ],
)
def test_metrics_and_filters(place: Workplace, keys: dict[str, Any], words: list[str]) -> None:
    refused(place.run("--tasks", place.task(**{**RAW, **keys})), "'t'", *words)


# Keys and flags


@pytest.mark.parametrize("key", ["use_prompt"])
def test_keys_that_are_not_supported(place: Workplace, key: str) -> None:
    path = place.task("tasks/t.yaml", **RAW, **{key: "question"})
    refused(place.run("--tasks", path), "'t'", key, "not supported")
    refused(place.cli("preview", path), key, "not supported")
    outcome = place.cli("validate", "--all", *FOLDER)
    assert outcome.code == 0, "nothing is wrong with the file"
    assert re.search(f"unable +Task 't'.*{key}", outcome.out)


def test_unsafe_code_has_to_be_confirmed(place: Workplace) -> None:
    path = place.task(**RAW, unsafe_code=True)
    refused(place.run("--tasks", path), "unsafe_code", "t", "--confirm_run_unsafe_code")
    assert place.run("--tasks", path, "--confirm_run_unsafe_code", "--limit", "2").code == 0
    assert place.run("--tasks", path, "--predict_only", "--limit", "2").code == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--wandb_args", "project=x"], ["--wandb_args", "--output_path"]),
        (["--wandb_config_args", "a=b"], ["--wandb_config_args", "--output_path"]),
        (["--trackio_args", "a=b"], ["--trackio_args", "--output_path"]),
        (["--hf_hub_log_args", "a=b"], ["--hf_hub_log_args", "hf upload"]),
        (["--use_cache", " "], ["--use_cache", "Name a file"]),
        (
            ["--use_cache", "docs.jsonl"],
            ["docs.jsonl", "does not hold kept answers", "left as it is"],
        ),
        (["--max_failed", "few"], ["--max_failed few", "such as 1%"]),
        (["--apply_chat_template", "rag"], ["'rag'", "flag alone"]),
        (["--verbosity", "LOUD"], ["LOUD", "debug"]),
        (["--metadata", "x"], ["--metadata", "'='"]),
    ],
)
def test_flags(place: Workplace, flags: list[str], words: list[str]) -> None:
    refused(place.run("--tasks", place.task(), *flags), *words)


def test_an_option_file_of_the_harness(place: Workplace) -> None:
    place.task()
    place.write("run.yaml", "tasks: t.yaml\nlimit: 2\nuse_cache: null\nwandb_args: {}\n")
    assert place.run("--config", "run.yaml").code == 0
    place.write("bad.yaml", "tasks: t.yaml\ntrackio_args: project=x\n")
    refused(place.run("--config", "bad.yaml"), "bad.yaml", "trackio_args", "Log to Trackio")


def test_flags_that_are_taken(place: Workplace) -> None:
    path = place.task(**RAW)
    flags = (
        "--cache_requests",
        "true",
        "--show_config",
        "--check_integrity",
        "--verbosity",
        "ERROR",
        "--limit",
        "2",
    )
    outcome = place.run("--tasks", path, *flags, "--metadata", '{"a": [1, 2]}').ok()
    assert '"doc_to_text": "question"' in outcome.out
    assert place.results()["config"]["parity"] is False


def test_metadata_reaches_a_custom_dataset(place: Workplace) -> None:
    place.write(
        "tasks/helper.py",
        "def make(**facts):\n"
        "    row = {'question': f\"Q{facts['size']}\", 'choices': ['a', 'b'], 'answer': 0}\n"
        "    return {'test': [row]}\n",
    )
    with_functions(
        place,
        "made",
        {"custom_dataset": "helper.make"},
        dataset_path=...,
        dataset_kwargs=...,
        custom_dataset=...,
    )
    assert place.run("--tasks", "made", *FOLDER, "--metadata", "size=7").code == 0
    assert place.samples("made")[0]["doc"]["question"] == "Q7"


def test_facts_that_a_custom_dataset_would_get_twice(place: Workplace) -> None:
    place.write("tasks/helper.py", "def make(**facts):\n    return {}\n")
    keys = {"dataset_path": ..., "dataset_kwargs": {"size": 1}, "metadata": {"size": 2}}
    with_functions(place, "made", {"custom_dataset": "helper.make"}, custom_dataset=..., **keys)
    refused(place.run("--tasks", "made", *FOLDER), "'size'", "metadata", "dataset_kwargs")


# A whole library


def test_a_library_is_checked_without_fetching_anything(place: Workplace) -> None:
    place.write("tasks/helper.py", "def change(docs):\n    return docs\n")
    place.write("tasks/shared/words.py", "WORD = 'shared'\n")
    place.write(
        "tasks/sibling.py",
        "from lm_eval.tasks.shared.words import WORD\ndef ask(doc):\n    return WORD\n",
    )
    remote = {"dataset_path": "someone/something", "dataset_kwargs": ...}
    with_functions(place, "remote", {"process_docs": "helper.change"}, **remote)
    with_functions(place, "local", {"doc_to_text": "sibling.ask"}, doc_to_text=...)
    place.task("tasks/bad.yaml", task="bad", **RAW, **remote, fewshot_config={"sampler": "frist"})
    place.write("tasks/g.yaml", "group: g\ntask: [remote, local]\nmetric_list: []\ntag: x\n")
    outcome = place.cli("validate", "--all", *FOLDER, "--output_path", "found.jsonl")
    assert outcome.code == 1
    assert "Not evaluated without --run_code: " in outcome.out
    assert "process_docs in 1" in outcome.out
    assert "doc_to_text in 1" in outcome.out
    assert "unknown few-shot sampler 'frist'" in outcome.out
    lines = (place.folder / "found.jsonl").read_text().splitlines()
    found = {one["name"]: one["outcome"] for one in map(json.loads, lines)}
    assert found["remote"] == "no_data"
    assert found["local"] == "needs_code"
    assert (found["bad"], found["g"]) == ("error", "ok")

    outcome = place.cli("validate", "--all", "--run_code", *FOLDER, "--output_path", "found.jsonl")
    lines = (place.folder / "found.jsonl").read_text().splitlines()
    found = {one["name"]: one["outcome"] for one in map(json.loads, lines)}
    assert found["local"] == "ok", "siblings are found by their full name"
    assert "Not evaluated" not in outcome.out


def test_slips_that_load_anyway(place: Workplace) -> None:
    place.task("tasks/t.yaml", **RAW, metric_list=[{"metric": "acc", "high_is_better": True}])
    place.write(
        "tasks/g.yaml",
        "group: g\ntask: [t]\naggregate_metric_list:\n  - metric: acc\n    weight_by_size: truez\n",
    )
    place.run("--tasks", "g", *FOLDER, "--limit", "4").ok()
    assert "acc,none" in place.results()["groups"]["g"]
