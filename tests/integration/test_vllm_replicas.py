"""``data_parallel_size`` with vLLM itself: two replicas through Ray answer as one copy does.

Needs an environment of its own: ``make test-vllm``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("vllm") is None:
    pytest.skip("needs vLLM, in an environment of its own: make test-vllm", allow_module_level=True)

from tests.support.command_line import Workplace
from tests.support.paths import SOURCE
from tests.support.tiny_models import save
from tests.support.vllm_process import IN_PROCESS

TASKS = ("demo_mcq@mcqa", "demo_mcq@generate", "demo_mcq@generate+enforced")
SMALL = {"dtype": "float32", "enforce_eager": True, "distributed_executor_backend": "uni"}


@pytest.fixture
def cluster() -> Iterator[dict[str, str]]:
    """A cluster of the run's own; the folder of its sockets has a short name, as they need."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield {"RAY_ADDRESS": "local", "RAY_TMPDIR": folder}


def asked(folder: Path, environment: dict[str, str], **arguments: Any) -> dict[str, Any]:
    """The samples of a run in a process of its own."""
    folder.mkdir()
    work = Workplace(folder)
    command = [sys.executable, "-m", "lm_eval", "run", "--model", "vllm", "--log_samples"]
    command += ["--model_args", json.dumps({**SMALL, **arguments}), "--tasks", ",".join(TASKS)]
    command += [
        "--limit",
        "12",
        "--gen_kwargs",
        "max_gen_toks=6",
        "--output_path",
        str(work.output),
    ]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **IN_PROCESS, "PYTHONPATH": str(SOURCE), **environment},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {
        task: [(row["doc_id"], row["resps"]) for row in work.samples(task)] for task in TASKS
    } | {"replicas": work.results()["config"]["model_args"].get("data_parallel_size")}


@pytest.mark.timeout(1800)  # three engines start
def test_two_replicas_answer_as_one_copy(tmp_path: Path, cluster: dict[str, str]) -> None:
    model = str(save(tmp_path / "tiny", "llama", width=256))
    two = asked(tmp_path / "two", cluster, pretrained=model, data_parallel_size=2)
    one = asked(tmp_path / "one", {}, pretrained=model)
    assert (two.pop("replicas"), one.pop("replicas")) == (2, None)
    assert two == one
    assert all(len(rows) == 12 for rows in two.values())
