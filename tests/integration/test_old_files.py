"""Files of the version before the modules were moved still open, resume and compare.

They are in ``tests/fixtures/before_the_house``; its README says how each was made. A test that fails
here says that users lose files: a key, a file name or a layout has changed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_eval.api.registry import get_model
from lm_eval.cli import main as lm_eval
from lm_eval.formats import compile as compiling
from lm_eval.registry import FORMATS
from nugget_eval.cli import main as nugget_eval
from nugget_eval.prompts import cut_out
from tests.support import logged_model
from tests.support.paths import FIXTURES
from tests.support.servers.faulty import FaultyServer

pytestmark = pytest.mark.usefixtures("old")
FILES = FIXTURES / "before_the_house"
COMMANDS: dict[str, list[str]] = json.loads((FILES / "commands.json").read_text("utf-8"))
ADDRESS = "http://toy.invalid/v1/chat/completions"
"""The address of a server belongs to the keys of its answers. This one is reached through a proxy."""
SERVER = (
    *("--model", "local-chat-completions"),
    *("--model_args", f"model=toy,base_url={ADDRESS},num_concurrent=1,max_retries=1"),
)
DEMO = ("--tasks", "demo_mcq@mcqa", "demo_mcq@generate")
QUIZ = ("tasks/quiz.yaml@mcqa", "tasks/quiz.yaml@generate", "tasks/quiz.yaml@cot")
PLAIN = ("tasks/plain_choice.yaml", "tasks/plain_text.yaml", "tasks/plain_rolling.yaml")
DOCS = 6
RAISED = ("generate", "cot", "classification")
"""Formats of which the reader has changed since: they read more, and have a higher version."""


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_registries: None) -> None:
    """The test is in a copy of the files, with formats of the versions they had.

    A raised version gives another fingerprint, as it should, and nothing else of the files.
    """
    for name in RAISED:
        first = replace(compiling.get_format(name), version=1)
        compiling._COMPILED[name] = (FORMATS.get(name), first)
    shutil.copytree(FILES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def call(program: str, *argv: str) -> None:
    """Run a command that is to succeed."""
    assert {"lm-eval": lm_eval, "nugget-eval": nugget_eval}[program](list(argv)) == 0, argv


def read(path: str | Path) -> Any:
    """A JSON file, or the lines of one."""
    text = Path(path).read_text("utf-8")
    is_lines = Path(path).suffix == ".jsonl"
    return [json.loads(line) for line in text.splitlines()] if is_lines else json.loads(text)


def results(folder: str) -> Any:
    """The newest results file below a folder."""
    return read(max(Path(folder).rglob("results_*.json"), key=lambda path: path.name))


# Finished runs: compare, diff, power, reread, score and agree say the same of them


@pytest.mark.parametrize("name", COMMANDS)
def test_old_runs_give_the_same_numbers(name: str) -> None:
    argv = COMMANDS[name]
    call(*argv)
    written = Path(argv[-1])
    files = sorted(written.iterdir()) if written.is_dir() else [written]
    for file in files:
        before, now = read(FILES / "expected" / file), read(file)
        if name == "reread_format":  # by the reader of today, and as it was read then
            before, now = ([row["before"] for row in rows] for rows in (before, now))
        if name.startswith("power"):
            before["rows"] = [by_exact_test(row) for row in before["rows"]]
        assert_same(now, before)


def by_exact_test(row: dict[str, Any]) -> dict[str, Any]:
    """A row of ``power`` with the numbers of the exact test, which stood beside those of the formula."""
    exact = row.pop("exact") or {}
    return row | {key: exact[key] for key in ("items", "difference") if exact.get(key) is not None}


def assert_same(now: Any, before: Any, where: str = "") -> None:
    """The same names and numbers under the same keys.

    New keys and metrics may be beside them, and sentences may be put in other words. Intervals have a
    place of their own since (``intervals``), so that every score of a result has its standard error;
    a sweep no longer searches, and a choice may be found by another rule.
    """
    if isinstance(before, dict):
        gone = ("search", "search_method", "rule")
        before = {k: v for k, v in before.items() if "_ci95," not in k and k not in gone}
        assert before.keys() <= now.keys(), where
        for key in before:
            assert_same(now[key], before[key], f"{where}/{key}")
    elif isinstance(before, list):
        old, new = ([one for one in some if not is_sentence(one)] for some in (before, now))
        if where.endswith("/metrics"):
            new = [one for one in new if one in old]
        assert len(new) == len(old), where
        for number, pair in enumerate(zip(new, old, strict=True)):
            assert_same(*pair, f"{where}/{number}")
    elif isinstance(before, float):
        assert math.isclose(now, before, rel_tol=1e-6, abs_tol=1e-9), where
    elif not is_sentence(before):
        assert now == before, where


def is_sentence(value: Any) -> bool:
    return isinstance(value, str) and " " in value


@pytest.mark.parametrize(
    ("folder", "flags"),
    [
        ("one", [*DEMO, "--limit", "6"]),
        ("permuted", [*DEMO, "--limit", "3", "--permute", "cyclic"]),
        ("plain", ["--tasks", *PLAIN, "--limit", "6"]),
    ],
)
def test_the_same_command_writes_the_same_today(folder: str, flags: list[str]) -> None:
    call("lm-eval", "run", *flags, "--model", "dummy", "--output_path", "now")
    before, now = results(f"runs/{folder}"), results("now")
    assert set(before) <= set(now)
    for name, scores in before["results"].items():
        for key, ends in scores.items():
            if "_ci95," in key:
                assert now["intervals"][name][key.replace("_ci95,", ",")] == pytest.approx(ends)
    for key in ("results", "configs", "formats", "fingerprints", "n-samples", "task_hashes"):
        assert_same(now[key], before[key], key)
    assert now["samples_files"].keys() == before["samples_files"].keys()
    for name, file in now["samples_files"].items():
        stored = before["samples_files"][name]
        assert file.partition("_2")[0] == stored.partition("_2")[0]
        assert_same(read(f"now/dummy/{file}"), read(f"runs/{folder}/dummy/{stored}"), name)


def test_an_old_run_does_not_differ_from_the_same_run_of_today() -> None:
    call("lm-eval", "run", *DEMO, "--model", "dummy", "--limit", "6", "--output_path", "now")
    call("lm-eval", "diff", "runs/one", "now", "--output_path", "diff.json")
    for result in read("diff.json")["results"]:
        counts = result["counts"]
        assert (counts["shared"], counts["same_prompts"]) == (DOCS, DOCS)
        assert [counts[key] for key in ("prompts", "answers", "readings", "flips")] == [0] * 4
        assert all(finding["is_same"] for finding in result["findings"])


# Kept answers


@pytest.mark.parametrize(
    ("more", "total"),
    [
        # four choices, two formats of text, four choices, two repeats, one whole text
        (["--tasks", *QUIZ, *PLAIN], DOCS * (4 + 1 + 1 + 4 + 2 + 1)),
        (["--tasks", *QUIZ[1:], "--num_fewshot", "2", "--apply_chat_template"], DOCS * 2),
    ],
    ids=["plain", "chat"],
)
def test_an_old_cache_answers_everything(more: list[str], total: int) -> None:
    shared = ("--use_cache", "answers/dummy.sqlite", "--output_path", "now")
    call("lm-eval", "run", *more, "--model", "dummy", *shared)
    assert results("now")["accounting"]["answers"] == {"total": total, "reused": total}


def test_an_old_cache_of_a_server_needs_no_server() -> None:
    pytest.importorskip("aiohttp")
    shared = ("--use_cache", "answers/chat.sqlite", "--output_path", "now")
    call("lm-eval", "run", "--tasks", QUIZ[2], *SERVER, *shared)
    found = results("now")
    assert found["accounting"]["answers"] == {"total": DOCS, "reused": DOCS}
    assert found["results"]["quiz@cot"]["replies"] == {"total": DOCS, "read": DOCS}


def test_an_old_cache_of_a_local_model_answers_everything() -> None:
    pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")
    arguments = "pretrained=model,device=cpu,dtype=float32,attn_implementation=eager"
    model = ("--model", "hf", "--model_args", arguments, "--gen_kwargs", "max_gen_toks=4")
    shared = ("--use_cache", "answers/hf.sqlite", "--output_path", "now")
    call("lm-eval", "run", "--tasks", *QUIZ[:2], *model, *shared)
    total = DOCS * (4 + 1)
    assert results("now")["accounting"]["answers"] == {"total": total, "reused": total}


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        ("dummy", "DummyLM"),
        ("gguf", "GgufLM"),
        ("hf", "HFLM"),
        ("local-completions", "LocalCompletionsAPI"),
        ("local-chat-completions", "LocalChatCompletion"),
        ("openai-completions", "OpenAICompletionsAPI"),
        ("openai-chat-completions", "OpenAIChatCompletion"),
    ],
)
def test_names_that_are_part_of_keys(backend: str, name: str) -> None:
    model = get_model(backend)
    assert model.__qualname__ == name
    if backend.endswith("-completions"):
        assert model.__module__ == "lm_eval.models.openai_completions"


# Runs that were killed


def unfinished(folder: str) -> list[Path]:
    """What a killed run left for the next, and what it had begun to write."""
    return [path for path in Path(folder).rglob("*") if re.search("unfinished|partial", path.name)]


def test_a_killed_run_goes_on() -> None:
    logged_model.register()
    tasks = ("tasks/quiz.yaml@cot", "tasks/quiz.yaml@mcqa", "tasks/plain_text.yaml")
    model = ("--model", "logged", "--model_args", "log=asked.log")
    assert unfinished("killed/local")
    call("lm-eval", "run", "--tasks", *tasks, *model, "--output_path", "killed/local")
    kept = {f"quiz@mcqa {doc} {choice}" for doc in (0, 1) for choice in range(4)}
    asked = Path("asked.log").read_text("utf-8").splitlines()
    total = DOCS * (1 + 4 + 2)
    assert len(asked) == total - len(kept)
    assert not kept & set(asked)
    assert results("killed/local")["accounting"]["answers"] == {"total": total, "reused": len(kept)}
    assert not unfinished("killed/local")


def says_a(path: str, body: Any) -> tuple[int, Any]:
    """The toy server's answers today: the letter A, or every label the best."""
    prompt = body["messages"][-1]["content"]
    text = "The final answer is A."
    if "nugget" in prompt.lower():
        text = json.dumps(["support" for _ in cut_out(prompt).nuggets])
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": text}}
    return 200, {"choices": [choice]}


def test_a_killed_run_of_a_server_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiohttp")
    with FaultyServer(says_a) as server:
        monkeypatch.setenv("http_proxy", server.url)
        tasks = ("--tasks", "tasks/quiz.yaml@cot")
        call("lm-eval", "run", *tasks, *SERVER, "--output_path", "killed/chat")
        asked = len(server.requests)
    assert asked == DOCS - 2
    assert results("killed/chat")["accounting"]["answers"] == {"total": DOCS, "reused": 2}
    assert not unfinished("killed/chat")


def test_a_killed_judge_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiohttp")
    data = ("--nuggets", "nuggets/nuggets.jsonl", "--answers", "nuggets/answers.jsonl")
    flags = ("--batch_size", "2", "--output_path", "killed/judge")
    with FaultyServer(says_a) as server:
        monkeypatch.setenv("http_proxy", server.url)
        call("nugget-eval", "run", *data, *SERVER, *flags)
        asked = len(server.requests)
    rows = read("killed/judge/assignments.jsonl")
    labels = [[nugget["assignment"] for nugget in row["nuggets"]] for row in rows]
    kept = ["support", "partial_support", "not_support", "not_support"]
    assert labels == [kept, ["support"] * 3, ["support"] * 2]
    assert asked == 3  # two batches of two nuggets were there
    assert not unfinished("killed/judge")


# Sweeps and their lists


def test_an_old_list_gives_the_same_formats() -> None:
    [path] = FILES.glob("sweep/formats_*.yaml")
    flags = ("--tasks", "demo_mcq", "--model", "dummy", "--limit", "4", "--output_path", "now")
    call("lm-eval", "sweep", "--formats", f"sweep/{path.name}", *flags)
    before, now = results("sweep"), results("now")
    for key in ("results", "formats", "fingerprints", "task_hashes"):
        assert_same(now[key], before[key], key)
    assert_same_sweep("now")


def test_a_sweep_given_again_finds_its_list() -> None:
    [path] = Path("sweep").glob("formats_*.yaml")
    before = path.read_bytes()
    flags = ("--tasks", "demo_mcq", "--model", "dummy", "--limit", "4", "--output_path", "sweep")
    call("lm-eval", "sweep", "--formats", "3", *flags)
    assert list(Path("sweep").glob("*.yaml")) == [path]
    assert path.read_bytes() == before
    assert_same_sweep("sweep")


def assert_same_sweep(folder: str) -> None:
    [before] = (FILES / "sweep").rglob("sweep_*.json")
    now = max(Path(folder).rglob("sweep_*.json"), key=lambda path: path.name)
    some, others = read(now), read(before)
    for sweep in (some, others):
        del sweep["files"], sweep["usage"]
    assert_same(some, others)


def test_formats_of_an_old_list_are_known_by_name() -> None:
    [path] = FILES.glob("sweep/formats_*.yaml")
    before = results("sweep")
    name = next(name for name in before["results"] if "-" in name)
    flags = ("--tasks", name, "--model", "dummy", "--limit", "4", "--output_path", "now")
    call("lm-eval", "run", "--format_path", f"sweep/{path.name}", *flags)
    assert_same(results("now")["results"][name], before["results"][name])


# The memory of task names


def test_old_memory_of_task_names_is_not_trusted(capsys: pytest.CaptureFixture[str]) -> None:
    digest = hashlib.sha256(str(Path("tasks").resolve()).encode()).hexdigest()[:16]
    memory = Path("cache", "lm-eval-formats", f"index-{digest}.json")
    memory.parent.mkdir(parents=True)
    shutil.copy("index/tasks.json", memory)
    # The name on disk is another; size and time say that nothing has changed, but lists show more now.
    text = Path("tasks/quiz.yaml").read_text("utf-8")
    Path("tasks/quiz.yaml").write_text(text.replace("task: quiz", "task: qu1z"), "utf-8")
    for name, (time_ns, *_) in read(memory)["files"].items():
        os.utime(name, ns=(time_ns, time_ns))
    call("lm-eval", "ls", "tasks", "--include_path", "tasks")
    said = capsys.readouterr().out
    assert "qu1z" in said
    assert "quiz " not in said
