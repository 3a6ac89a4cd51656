"""A run of a local model that is killed goes on where it was, and ends as if it had not been."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import MissingExtraError
from lm_eval.models.gguf import default_weights
from tests.support import dying_model
from tests.support.command_line import Workplace
from tests.support.paths import SOURCE

DOCS = 6
TASKS = ("t.yaml@mcqa", "t.yaml@cloze", "t.yaml@generate")
TOTAL = DOCS * 4 * 2 + DOCS
MOMENTS = (7, 46)
"""Which answer of each process is never given: one among the scores, one among the replies."""


class Runs:
    """``lm-eval run`` in processes of their own, all with the same command."""

    def __init__(self, place: Workplace, model: str, model_args: str) -> None:
        self.place = place
        self.command = [sys.executable, dying_model.__file__, "run", "--model", model]
        self.command += ["--model_args", model_args, "--tasks", *TASKS, "--output_path", "out"]
        self.command += ["--gen_kwargs", "max_gen_toks=8", "--log_samples"]

    def __call__(self, die_at: int = 0) -> tuple[int, str]:
        done = subprocess.run(
            self.command,
            cwd=self.place.folder,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "DIE_AT": str(die_at)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stderr

    def written(self) -> dict[str, Any]:
        """Scores and samples of the run, by names without times; the files are taken away."""
        found: dict[str, Any] = {}
        for path in sorted(path for path in self.place.output.rglob("*") if path.is_file()):
            name = path.name.split("_20")[0]
            assert name not in found, path
            text = path.read_text("utf-8")
            rows = [json.loads(line) for line in text.splitlines()] if name != "results" else None
            found[name] = json.loads(text)["results"] if rows is None else rows
            path.unlink()
        return found

    def killed_and_not(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is written by a run that was killed twice, and by one that was not."""
        code, said = self()
        assert code == 0, said
        undisturbed = self.written()
        given = 0
        for moment in MOMENTS:
            code, said = self(moment)
            assert code == -signal.SIGKILL, said
            assert resumed(said) == given
            given += moment - 1
        code, said = self()
        assert (code, resumed(said)) == (0, given), said
        return self.written(), undisturbed


def resumed(said: str) -> int:
    found = re.search(rf"resuming: (\d+) of {TOTAL} answered", said)
    return int(found[1]) if found else 0


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    made = Workplace(tmp_path)
    made.rows(count=DOCS)
    made.task()
    return made


def test_hf(place: Workplace) -> None:
    pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")
    from tests.support import tiny_models

    tiny_models.save(place.folder / "tiny", "llama")
    runs = Runs(place, "dying-hf", "pretrained=tiny,device=cpu")
    killed, undisturbed = runs.killed_and_not()
    assert killed.keys() == undisturbed.keys()
    assert killed["results"] == undisturbed["results"]
    assert killed["samples_t@generate"] == undisturbed["samples_t@generate"]
    for name in ("samples_t@mcqa", "samples_t@cloze"):
        assert_scores_alike(killed[name], undisturbed[name])


def assert_scores_alike(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    """Log-probs may differ by rounding: what went through the model beside a text was another."""
    for one, other in zip(some, others, strict=True):
        assert logprobs(one) == pytest.approx(logprobs(other), abs=1e-4)
        for sample in (one, other):
            del sample["resps"], sample["filtered_resps"], sample["scored"]["loglikelihoods"]
        assert one == other


def test_gguf(place: Workplace) -> None:
    pytest.importorskip("xllamacpp", reason="needs the extra gguf")
    try:
        weights = default_weights()
    except MissingExtraError as error:
        pytest.skip(f"needs the default weights: {error.install}")
    runs = Runs(place, "dying-gguf", f"path={weights},n_ctx=256")
    killed, undisturbed = runs.killed_and_not()
    assert killed == undisturbed


def logprobs(sample: dict[str, Any]) -> list[float]:
    return [float(logprob) for ((logprob, _),) in sample["resps"]]
