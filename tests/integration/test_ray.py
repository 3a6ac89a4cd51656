"""Replicas on a Ray cluster of three nodes: whoever is killed, a run ends as if nobody had been."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import MissingExtraError
from lm_eval.models.gguf import default_weights
from tests.support import mortal_replicas
from tests.support.command_line import Workplace
from tests.support.mortal_replicas import read_after_kept
from tests.support.three_nodes import three_nodes

DOCS = 8
GGUF = ("t.yaml@cloze", "t.yaml@generate")
FEW_TRIES = {"RAY_NUM_REDIS_GET_RETRIES": "2"}
TOTAL = DOCS * 4 + DOCS


@pytest.fixture(scope="module")
def cluster() -> Iterator[dict[str, str]]:
    if find_spec("ray") is None:
        pytest.skip("needs the extra ray: pip install 'lm-eval-formats[ray]'")
    with three_nodes() as environment:
        yield environment


@pytest.fixture(scope="module")
def weights() -> Path:
    try:
        return default_weights()
    except MissingExtraError:
        pytest.skip("the weights of the default model are not installed")


class Runs:
    """``lm-eval run`` in processes of their own, with the backends of ``mortal_replicas``."""

    def __init__(self, place: Workplace, environment: dict[str, str]) -> None:
        self.place = place
        self.environment = environment

    def __call__(self, model: str, *tasks: str, **more: Any) -> subprocess.CompletedProcess[str]:
        die_at = more.pop("die_at", 0)
        flags = more.pop("flags", [])
        log = self.place.folder / "log"
        command = [sys.executable, mortal_replicas.__file__, "run", "--model", model]
        command += ["--model_args", json.dumps(more), "--tasks", *tasks, "--output_path", "out"]
        command += ["--gen_kwargs", "max_gen_toks=6", "--log_samples", *flags]
        environment = {**os.environ, **self.environment}
        environment |= {"DIE_AT": str(die_at), "RAY_TEST_LOG": str(log)}
        return subprocess.run(
            command,
            cwd=self.place.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def written(self) -> dict[str, Any]:
        """Scores and samples of the run, by names without times; the files are taken away."""
        files: dict[str, Any] = {}
        for path in sorted(self.place.output.rglob("*_20*.json*")):
            name = path.name.split("_20")[0]
            assert name not in files, path
            text = path.read_text("utf-8")
            files[name] = json.loads(text)["results"] if name == "results" else text.splitlines()
            path.unlink()
        return files


@pytest.fixture
def runs(tmp_path: Path, cluster: dict[str, str]) -> Runs:
    return Runs(workplace(tmp_path), cluster)


def workplace(folder: Path) -> Workplace:
    place = Workplace(folder)
    place.rows(count=DOCS)
    place.task()
    return place


@pytest.fixture(scope="module")
def direct(
    tmp_path_factory: pytest.TempPathFactory, cluster: dict[str, str], weights: Path
) -> dict[str, Any]:
    """What a run of ``gguf`` without Ray writes."""
    runs = Runs(workplace(tmp_path_factory.mktemp("direct")), cluster)
    done = runs("gguf", *GGUF, path=str(weights), n_ctx=256, n_threads=1)
    assert done.returncode == 0, done.stderr
    return runs.written()


def gguf_replicas(weights: Path, **more: Any) -> dict[str, Any]:
    shared = {"path": str(weights), "n_ctx": 256, "n_threads": 1}
    return {"backend": "gguf", "replicas": 3, **shared, **more}


@pytest.mark.parametrize("victim", ["replica", "node"])
def test_a_death_in_mid_run_changes_nothing(
    runs: Runs, direct: dict[str, Any], weights: Path, victim: str
) -> None:
    log = runs.place.folder / "log"
    mortal = {"backend": "mortal-gguf", "log": str(log), "dies": victim, "at": 5}
    done = runs("ray", *GGUF, **gguf_replicas(weights, **mortal))
    assert done.returncode == 0, done.stderr
    assert "unanswered requests are asked again" in done.stderr
    assert Path(f"{log}.died").exists()
    assert runs.written() == direct
    assert read_after_kept(log) == []


def test_a_driver_that_is_killed_goes_on_with_or_without_ray(
    runs: Runs, direct: dict[str, Any], weights: Path
) -> None:
    log = runs.place.folder / "log"
    done = runs("ray", *GGUF, die_at=12, **gguf_replicas(weights))
    assert done.returncode == -signal.SIGKILL, done.stderr
    done = runs("ray", *GGUF, die_at=9, **gguf_replicas(weights))
    assert (done.returncode, resumed(done.stderr)) == (-signal.SIGKILL, 11)
    kept = log.read_text("utf-8").splitlines()
    assert len(kept) == len(set(kept)) == 11 + 8
    done = runs("gguf", *GGUF, path=str(weights), n_ctx=256, n_threads=1)
    assert (done.returncode, resumed(done.stderr)) == (0, 19), done.stderr
    assert runs.written() == direct


@pytest.mark.parametrize("address", [None, "local"])
def test_no_replica_outlives_its_driver(runs: Runs, address: str | None) -> None:
    log = runs.place.folder / "log"
    stuck = dummies(log, dies="never", at=4, address=address)
    done = runs("ray", "t.yaml@cloze", die_at=4, **stuck)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pids = {line.split()[1] for line in log.read_text("utf-8").splitlines() if "pid" in line}
    assert len(pids) >= 1
    until = time.monotonic() + 30
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < until, f"{pids} are still there"
        time.sleep(0.1)


def is_running(pid: str) -> bool:
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text("utf-8")
    except FileNotFoundError:
        return False


def resumed(said: str) -> int:
    match = re.search(rf"resuming: (\d+) of {TOTAL} answered", said)
    return int(match[1]) if match else 0


def dummies(log: Path, **more: Any) -> dict[str, Any]:
    return {"backend": "mortal-dummy", "replicas": 2, "num_cpus": 0, "log": str(log), **more}


def test_a_request_that_ends_its_replicas_fails_alone(runs: Runs) -> None:
    log = runs.place.folder / "log"
    done = runs("ray", "t.yaml@generate", **dummies(log, poison=5))
    assert done.returncode == 1
    assert "Task 't@generate', doc 5: its generate_until request ended two replicas" in done.stderr
    assert "--max_failed" in done.stderr
    done = runs("ray", "t.yaml@generate", flags=["--max_failed", "1"], **dummies(log, poison=5))
    assert done.returncode == 0, done.stderr
    assert read_after_kept(log) == []
    written = runs.written()
    results, samples = written["results"], written["samples_t@generate"]
    assert (results["t@generate"]["missing"], results["t@generate"]["sample_len"]) == (1, DOCS - 1)
    assert "doc 5: its generate_until request ended two" in json.loads(samples[5])["missing"]


def test_a_replica_that_dies_while_loading_is_given_up(runs: Runs) -> None:
    done = runs("ray", "t.yaml@generate", backend="broken", replicas=2, num_cpus=0)
    assert done.returncode == 1
    assert "No replica of --model broken could be loaded: each died 3 times in a row" in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_of_the_backend_are_its_own(runs: Runs) -> None:
    done = runs("ray", "t.yaml@mcqa", backend="gguf", path="missing.gguf", replicas=2)
    assert done.returncode == 1
    alone = runs("gguf", "t.yaml@mcqa", path="missing.gguf")
    assert done.stderr.splitlines()[-1:] == alone.stderr.splitlines()[-1:]


def test_no_room_in_the_cluster(runs: Runs) -> None:
    done = runs("ray", "t.yaml@mcqa", backend="dummy", num_gpus=8, timeout=2)
    assert done.returncode == 1
    assert "Each needs 1 CPUs, 8 GPUs; the nodes have 127.0.0." in done.stderr


def test_a_wrong_token(runs: Runs) -> None:
    runs.environment = {**runs.environment, "RAY_AUTH_TOKEN": "f" * 32, **FEW_TRIES}
    done = runs("ray", "t.yaml@mcqa", backend="dummy")
    assert done.returncode == 1
    assert "did not let this process in: its token is missing or wrong" in done.stderr
    assert "RAY_AUTH_TOKEN" in done.stderr
    assert "RAY_AUTH_MODE must be `token`" in done.stderr  # advice, not a secret to hide
    assert "Traceback" not in done.stderr


def test_another_release_of_ray(cluster: dict[str, str]) -> None:
    program = (
        "import ray; ray.__version__ = '1.2.3'\n"
        "from lm_eval.models.ray.cluster import Cluster\n"
        "from lm_eval.errors import ModelError\n"
        "try: Cluster.connect(None)\n"
        "except ModelError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **cluster},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "all nodes need the same releases of Ray and Python" in done.stdout, done.stderr
    assert "Ray: 1.2.3" in done.stdout


def test_chats_are_shown_as_the_replicas_saw_them(runs: Runs) -> None:
    log = str(runs.place.folder / "log")
    chat = ["--apply_chat_template"]
    done = runs("ray", "t.yaml@generate", flags=chat, **dummies(Path(log)))
    assert done.returncode == 0, done.stderr
    with_ray = runs.written()
    done = runs("mortal-dummy", "t.yaml@generate", flags=chat, log=log)
    assert done.returncode == 0, done.stderr
    assert runs.written() == with_ray
    assert "<|assistant|>" in with_ray["samples_t@generate"][0]
