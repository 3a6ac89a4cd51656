"""``torchrun`` and ``accelerate launch`` with several processes: one does the run, the others say so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

import lm_eval
from lm_eval.models.huggingface import HFLM
from lm_eval.support.terminal import bystander_note
from tests.support import tiny_models

TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ACCELERATE = (
    *("accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"),
    *("--main_process_port", "0", "--mixed_precision", "no", "--dynamo_backend", "no"),
)
LAUNCHERS = {"torchrun": TORCHRUN, "accelerate": ACCELERATE}
RUN = ("run", "--tasks", "demo_mcq@mcqa", "--limit", "3", "--output_path", "out")
NOTE = "this is process 2 of 2, which does nothing: the first does the whole run."
SCRIPT = """
import sys
import warnings

warnings.simplefilter("always")
import torch.distributed as dist
import lm_eval
from lm_eval.models.dummy import DummyLM

dist.init_process_group("gloo")
asked = {"tasks": ["demo_mcq@mcqa"], "limit": 3}
named = lm_eval.simple_evaluate(model="hf", model_args={"pretrained": sys.argv[1]}, **asked)
given = lm_eval.simple_evaluate(model=DummyLM(), **asked)
shared = [named and named["results"]]
dist.broadcast_object_list(shared, src=0)
scores = shared[0]["demo_mcq@mcqa"]["acc,none"]
print("\\nnamed:", named is not None, "given:", given is not None, 0 <= scores <= 1, flush=True)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save(tmp_path_factory.mktemp("models") / "tiny", "llama")


def launched(
    folder: Path, *command: str, launcher: Sequence[str] = TORCHRUN
) -> subprocess.CompletedProcess[str]:
    environment = {
        key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")
    }
    return subprocess.run(
        [sys.executable, "-m", *launcher, *command],
        cwd=folder,
        env={**environment, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launched_command_is_one_run(launcher: str, tiny: Path, tmp_path: Path) -> None:
    model = ("--model", "hf", "--model_args", f"pretrained={tiny}", "--device", "cpu")
    done = launched(tmp_path, "-m", "lm_eval", *RUN, *model, launcher=LAUNCHERS[launcher])
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(NOTE) == 1
    assert done.stdout.count("Saved ") == done.stdout.count("mcqa  ") == 1
    written = sorted(path.name.partition("_")[0] for path in tmp_path.glob("out/**/*.json*"))
    assert written == ["items", "results", "samples"]


def test_an_error_is_said_once_and_the_launcher_fails(tmp_path: Path) -> None:
    done = launched(tmp_path, "-m", "lm_eval", *RUN, "--model", "dumy")
    assert done.returncode != 0
    assert done.stderr.count("dumy") == 1
    assert done.stderr.count(NOTE) == 1
    assert not [*tmp_path.glob("out/**/*.json")]


def test_a_script_gets_results_in_the_first_process_and_may_share_them(
    tiny: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = launched(tmp_path, str(script), str(tiny))
    assert done.returncode == 0, done.stderr
    assert f"simple_evaluate returns None: {NOTE}" in done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("named:"))
    assert lines == ["named: False given: True True", "named: True given: True True"]


@pytest.mark.filterwarnings("ignore:(simple_)?evaluate returns None. this is process 2 of 2")
@pytest.mark.parametrize("rank", [0, 1])
def test_a_model_that_each_process_loads_by_name_is_asked_by_the_first(
    rank: int, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model object of the program may be another in each process, and is asked in each."""
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "2")
    asked = {"tasks": ["demo_mcq@cloze"], "limit": 2}
    lm = HFLM(tiny, device="cpu")
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
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", count)
    assert (bystander_note() is None) is runs
