"""``torchrun`` and ``accelerate launch`` with several processes: one does the run, the others say so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

import lm_eval
from lm_eval.models.huggingface import HFLM
from tests.support import tiny_models

RUN = (
    "run",
    "--tasks",
    "demo_mcq@mcqa",
    "--limit",
    "3",
    "--model",
    "dummy",
    "--output_path",
    "out",
)
NOTE = "this is process 2 of 2, which does nothing: the first does the whole run."
SCRIPT = """
import warnings

warnings.simplefilter("always")
import lm_eval
from lm_eval.models.dummy import DummyLM

named = lm_eval.simple_evaluate(model="dummy", tasks=["demo_mcq@mcqa"], limit=3)
given = lm_eval.simple_evaluate(model=DummyLM(), tasks=["demo_mcq@mcqa"], limit=3)
print("\\nnamed:", named is not None, "given:", given is not None, flush=True)
"""


def launched(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    environment = {
        key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")
    }
    return subprocess.run(
        [*launcher, "--nproc-per-node", "2", *command],
        cwd=folder,
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )


def test_a_command_under_torchrun_is_one_run(tmp_path: Path) -> None:
    done = launched(tmp_path, "-m", "lm_eval", *RUN)
    assert done.stderr.count(NOTE) == 1
    assert done.stdout.count("Saved ") == 1
    assert len([*tmp_path.glob("out/**/results_*.json")]) == 1


def test_a_script_under_torchrun_gets_results_in_the_first_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = launched(tmp_path, str(script))
    assert f"simple_evaluate returns None: {NOTE}" in done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("named:"))
    assert lines == ["named: False given: True", "named: True given: True"]


@pytest.mark.filterwarnings("ignore:(simple_)?evaluate returns None. this is process 2 of 2")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_model_that_each_process_loads_by_name_is_asked_by_the_first(
    rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model object of the program may be another in each process, and is asked in each."""
    folder = tiny_models.save(tmp_path / "tiny", "llama")
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "2")
    asked = {"tasks": ["demo_mcq@cloze"], "limit": 2}
    lm = HFLM(folder, device="cpu")
    assert lm.rank == rank
    assert (lm_eval.simple_evaluate(model=lm, **asked) is None) is bool(rank)
    tasks = lm_eval.tasks.get_task_dict(asked["tasks"])
    assert (lm_eval.evaluate(lm=lm, task_dict=tasks, limit=2) is None) is bool(rank)
    given = HFLM(lm.model, tokenizer=lm.tokenizer)
    assert lm_eval.simple_evaluate(model=given, **asked) is not None


@pytest.mark.parametrize(
    ("rank", "count", "runs"),
    [("0", "2", True), ("1", "2", False), ("0", "1", True), ("", "4", True), ("x", "2", True)],
)
def test_which_process_runs(
    rank: str, count: str, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lm_eval.models.loading import bystander_note

    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", count)
    assert (bystander_note() is None) is runs
