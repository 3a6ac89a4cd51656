"""Command lines as people type them for EleutherAI's harness, and names that a terminal would obey."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lm_eval.cli import main
from lm_eval.utils import make_table  # type: ignore[attr-defined]
from tests.support.command_line import Outcome, run_inside

DOCS = [{"q": f"Is {i} even?", "choices": ["yes", "no"], "gold": i % 2} for i in range(6)]
TASK = """
dataset_path: json
dataset_kwargs: {data_files: {test: docs.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: q
doc_to_choice: choices
doc_to_target: gold
metadata: {version: 2.0}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs.jsonl").write_text("".join(f"{json.dumps(doc)}\n" for doc in DOCS))
    for name in ("even_a", "even_b"):
        (tmp_path / f"{name}.yaml").write_text(f"task: {name}\ntag: numbers\n{TASK}")
    (tmp_path / "group.yaml").write_text(
        "group: even\ntask:\n  - even_a\n  - group: inner\n    task: [even_b]\n"
        "aggregate_metric_list: [{metric: acc}]\n"
    )
    return tmp_path


def lm_eval(folder: Path, *words: str) -> Outcome:
    return run_inside(folder, main, words)


def test_ls_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["ls"])
    assert end.value.code == 0
    assert "tasks|formats|models|groups|subtasks|tags" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "shown", "hidden"),
    [
        ("list", "even_a", "inner"),
        ("list_groups", "even ", "even_a "),
        ("list_tags", "numbers", "inner"),
    ],
)
def test_tasks_list(folder: Path, word: str, shown: str, hidden: str) -> None:
    done = lm_eval(folder, "--tasks", word, "--include_path", ".").ok()
    assert shown in done.out.replace(str(folder), "")
    assert hidden not in done.out.split("File")[0]


@pytest.mark.parametrize(
    ("selector", "tasks"),
    [
        ("even::even_a", ["even_a"]),
        ("even::even_b", ["even_b"]),
        ("even::inner::even_b", ["even_b"]),
        ("even::inner", ["even_b"]),
        ("numbers::even_a", ["even_a"]),
    ],
)
def test_a_member_of_a_group(folder: Path, selector: str, tasks: list[str]) -> None:
    done = lm_eval(folder, *RUN, "--tasks", selector, "--table", "markdown").ok()
    shown = [line.split("|")[1].strip(" -") for line in done.out.splitlines() if "|acc " in line]
    assert shown == tasks


RUN = ("run", "--include_path", ".", "--model", "dummy", "--limit", "4")


def test_a_member_that_the_group_has_not(folder: Path) -> None:
    lm_eval(folder, *RUN, "--tasks", "even::even_c").refused(
        "'even' has no member 'even_c'. Did you mean 'even_", "Members: even_a, even_b, inner."
    )


def test_a_member_under_a_format(folder: Path) -> None:
    done = lm_eval(folder, *RUN, "--tasks", "even::even_a@mcqa", "--table", "markdown").ok()
    assert "|even_a@mcqa|" in done.out


def test_the_markdown_table_can_be_read_back(folder: Path) -> None:
    """Columns by their headings, as scripts read the harness's output."""
    done = lm_eval(
        folder, *RUN, "--tasks", "even", "--table", "markdown", "--output_path", "out"
    ).ok()
    lines = [line for line in done.out.splitlines() if line.startswith("|")]
    assert lines[0].split("|")[1:-1][0].strip() == "Tasks"
    headings = [heading.strip() for heading in lines[0].split("|")[1:-1]]
    assert headings == ["Tasks", "Version", "Filter", "n-shot", "Metric", "", "Value", "", "Stderr"]
    [results_file] = (folder / "out").rglob("results_*.json")
    results = json.loads(results_file.read_text())
    assert done.out.startswith(make_table(results))
    assert make_table(results, "groups") in done.out
    row = [cell.strip() for cell in lines[2].split("|")[1:-1]]
    assert row[0] == "even"
    assert float(row[6]) == pytest.approx(results["groups"]["even"]["acc,none"], abs=1e-4)


def test_a_table_of_another_kind_is_refused(folder: Path) -> None:
    lm_eval(folder, *RUN, "--tasks", "even", "--table", "mardown").refused(
        "Did you mean 'markdown'?"
    )


@pytest.mark.parametrize(
    ("backend", "advice"),
    [
        ("sglang", "sglang.launch_server"),
        ("anthropic-completions", "Use --model anthropic-chat"),
        ("litellm", "LiteLLM's proxy"),
        ("mamba_ssm", "Use --model hf"),
    ],
)
def test_a_backend_that_is_not_here(folder: Path, backend: str, advice: str) -> None:
    done = lm_eval(folder, "--model", backend, "--model_args", "pretrained=x", "--tasks", "even")
    assert done.code == 1
    assert done.err.startswith(f"lm-eval: error: Model {backend!r} is not here.")
    assert advice in done.err
    assert done.err.count("\n") == 1


def test_gguf_as_a_client_of_a_server(folder: Path) -> None:
    lm_eval(
        folder,
        "--model",
        "gguf",
        "--model_args",
        "base_url=http://localhost:1",
        "--tasks",
        "even_a.yaml",
    ).refused("use --model local-completions with its base_url")


# What a terminal would obey

NASTY = "bad\x1b[31m\u202ename\x07"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f]")


@pytest.fixture
def nasty(tmp_path: Path) -> Path:
    docs = [
        {"q": f"{i} \x1b]0;title\x07\u202e?", "choices": ["a\x1b[2J", "b\u200f"], "gold": i % 2}
        for i in range(6)
    ]
    (tmp_path / "docs.jsonl").write_text("".join(f"{json.dumps(doc)}\n" for doc in docs))
    name = json.dumps(NASTY)
    about = f"task_alias: {name}\ntag: {name[:-1]}t{name[-1]}\ndescription: {name}\n"
    (tmp_path / "t.yaml").write_text(f"task: {name}\n{about}{TASK}")
    (tmp_path / "broken.yaml").write_text(f"task: {name[:-1]}b{name[-1]}\ndoc_to_txt: {name}\n")
    (tmp_path / "g.yaml").write_text(
        f"group: {name[:-1]}g{name[-1]}\ntask: [{name}]\naggregate_metric_list: [{{metric: acc}}]\n"
    )
    return tmp_path


OUT = f"out{NASTY}"
MADE = ("run", "--tasks", "t.yaml@mcqa,t.yaml@cloze", "--model", "dummy", "--output_path", OUT)
NEEDS_LAB = ("compare", "power", "sweep")


@pytest.mark.parametrize(
    "words",
    [
        MADE,
        ("run", "--tasks", f"{NASTY}g", "--include_path", ".", "--model", "dummy"),
        ("run", "--tasks", f"{NASTY}g", *RUN[1:], "--table", "markdown", "--write_out"),
        ("run", "--tasks", "t.yaml", "--model", "dummy", "--show_config", "--use_cache", OUT),
        ("run", "--tasks", "t.yaml@mcqa", "--model", "dummy", "--dry_run"),
        ("run", "--tasks", f"no{NASTY}", "--model", "dummy"),
        ("run", "--tasks", "t.yaml", "--model", NASTY),
        ("ls", "tasks", "--include_path", "."),
        ("ls", "tags", "--include_path", "."),
        ("validate", "--tasks", "t.yaml,broken.yaml", "--output_path", OUT),
        ("validate", "--all", "--include_path", ".", "--verbose"),
        ("preview", "t.yaml"),
        ("preview", "t.yaml@mcqa", "--chat"),
        ("compare", OUT),
        ("power", OUT),
        ("diff", OUT, OUT),
        ("reread", OUT, "--show", "3"),
        ("sweep", "--tasks", "t.yaml@mcqa", "--model", "dummy", "--n_formats", "3"),
        (NASTY,),
        ("run", f"--{NASTY}"),
    ],
    ids=lambda words: " ".join(words[:3]).encode("unicode_escape").decode(),
)
def test_names_and_texts_never_reach_the_terminal_raw(nasty: Path, words: tuple[str, ...]) -> None:
    if words[0] in NEEDS_LAB:
        pytest.importorskip("scipy")
    if words[0] in ("compare", "power", "diff", "reread"):
        assert lm_eval(nasty, *MADE).code == 0
    done = lm_eval(nasty, *words)
    assert done.out + done.err
    raw = [line for line in (done.out + done.err).split("\n") if UNSAFE.search(line)]
    assert raw == []


def test_an_option_that_is_cut_short_is_the_one_that_begins_so(folder: Path) -> None:
    run = ("--model", "dummy", "--include", ".")
    done = lm_eval(folder, "run", "--task", "even_a", "--output=out", *run).ok()
    assert [*folder.glob("out/**/results_*.json")]
    for wrong in ("--outputs", "--o", "--max_"):  # not a beginning, too short, several
        done = lm_eval(folder, "run", "--tasks", "even_a", wrong, "1", *run)
        done.refused(f"has no option '{wrong}'")
