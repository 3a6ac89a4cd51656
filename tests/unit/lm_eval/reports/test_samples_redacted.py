"""``redact: true``: what a task's docs say is in no samples file and in no preview."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval import simple_evaluate
from lm_eval.cli import main
from lm_eval.errors import ConfigError
from lm_eval.tasks import TaskManager
from tests.support.command_line import Outcome, run_inside

SECRETS = ("Mitochondrion", "Ribosome", "Nucleolus", "powerhouse")
ROWS = [
    {"question": f"Which is the powerhouse {n}?", "options": list(SECRETS[:3]), "key": n % 3}
    for n in range(3)
]
FILE = """\
task: secret
dataset_path: rows.jsonl
test_split: test
doc_to_text: question
doc_to_choice: options
doc_to_target: key
formats: mcqa
redact: true
"""


@pytest.fixture
def folder(write: Callable[..., Path]) -> Path:
    write("rows.jsonl", ROWS)
    return write("secret.yaml", FILE).parent


def run(folder: Path, *argv: str) -> Outcome:
    return run_inside(folder, main, list(argv))


def told(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret.lower() in text.lower()]


@pytest.mark.parametrize("name", ["mcqa", "cloze", "generate", "cot"])
def test_samples_hide_the_docs(folder: Path, name: str) -> None:
    tasks = ["--tasks", f"secret.yaml@{name}", "--model", "dummy", "--write_out"]
    permuted = [] if name == "cot" else ["--permute", "cyclic"]
    ran = run(folder, "run", *tasks, "--output_path", "out", "--num_fewshot", "1", *permuted).ok()
    assert told(ran.out) == []
    files = [file for file in (folder / "out").rglob("*") if file.is_file()]
    assert any(file.name.startswith("samples") for file in files)
    replies = 0
    for file in files:
        if file.name.startswith("samples"):
            for line in file.read_text(encoding="utf-8").splitlines():
                sample = json.loads(line)
                assert sample["redacted"] is True
                assert len(sample["doc_hash"]) == 64
                replies += bool(sample["resps"])
                sample["resps"] = sample["filtered_resps"] = None  # what the model says is its own
                sample.get("reading", {}).pop("value", None)
                for order in sample.get("choice_order", {}).get("orders", ()):
                    order.pop("resps", None)
                assert told(json.dumps(sample)) == []
    assert replies == 3


def test_a_user_can_ask_for_them(folder: Path) -> None:
    shown = ["--output_path", "out", "--show_redacted"]
    run(folder, "run", "--tasks", "secret.yaml", "--model", "dummy", *shown)
    (file,) = (folder / "out").rglob("samples*")
    text = file.read_text(encoding="utf-8")
    assert told(text) == [*SECRETS]
    assert "redacted" not in text


def test_previews(folder: Path) -> None:
    shown = run(folder, "preview", "secret.yaml").ok()
    assert told(shown.out) == []
    assert "--show_redacted" in shown.out
    assert told(run(folder, "preview", "secret.yaml", "--show_redacted").out) == [*SECRETS]


def test_in_python(folder: Path) -> None:
    def samples(**options: Any) -> str:
        results = simple_evaluate(
            model="dummy",
            tasks=["secret"],
            task_manager=TaskManager(include_path=folder, include_defaults=False),
            log_samples=True,
            **options,
        )
        assert results is not None
        return json.dumps(results["samples"], default=str)

    assert told(samples()) == []
    assert told(samples(show_redacted=True)) == [*SECRETS]


def test_hidden_replies_are_not_read_again(folder: Path) -> None:
    run(
        folder, "run", "--tasks", "secret.yaml@generate", "--model", "dummy", "--output_path", "out"
    )
    run(folder, "reread", "out", "--scorer", "choice").refused("--show_redacted")


def test_it_is_true_or_false(folder: Path, write: Callable[..., Path]) -> None:
    write("secret.yaml", FILE.replace("redact: true", "redact: some"))
    with pytest.raises(ConfigError, match=r"redact must be true or false, not 'some'"):
        TaskManager(include_path=folder).load("secret")
