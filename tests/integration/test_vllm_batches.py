"""Files of ``--batch_api`` through vLLM's own ``run_batch``: scores are those of the direct run.

Needs an environment of its own: ``make test-vllm``.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("vllm") is None:
    pytest.skip("needs vLLM, in an environment of its own: make test-vllm", allow_module_level=True)

from lm_eval.models.gguf import default_weights
from lm_eval.models.hf.loading import load_gguf
from lm_eval.models.hf.sources import converted, find_source
from tests.support.command_line import Workplace
from tests.support.servers.batch_server import BatchServer
from tests.support.vllm_process import run_batch, vllm_server

DOCS = 8
TASKS = ("demo_mcq@generate", "demo_short@qa")
FACTS = ("doc_id", "resps", "filtered_resps", "acc", "exact_match")


@pytest.fixture(scope="module")
def weights() -> Path:
    return Path(converted(find_source(str(default_weights()), None), load_gguf).at)


def asked(work: Workplace, url: str, *more: str) -> dict[str, Any]:
    """What a run of both tasks measured, and its samples."""
    arguments = f"model=smol,base_url={url}/v1/chat/completions"
    work.cli(
        *("run", "--model", "local-chat-completions", "--model_args", arguments, "--log_samples"),
        *("--tasks", ",".join(TASKS), "--limit", str(DOCS), "--output_path", str(work.output)),
        *("--gen_kwargs", "max_gen_toks=24", *more),
    ).ok()
    samples = {
        task: [{name: row[name] for name in FACTS if name in row} for row in work.samples(task)]
        for task in TASKS
    }
    results = work.results()
    return {
        "samples": samples,
        "results": results["results"],
        "total": results["accounting"]["total"],
    }


@pytest.mark.timeout(1800)  # two engines start, one after the other
def test_vllms_run_batch_answers_our_files(weights: Path, tmp_path: Path) -> None:
    (tmp_path / "batch").mkdir()
    (tmp_path / "direct").mkdir()
    files: list[bytes] = []

    def answer(requests: bytes) -> bytes:
        files.append(requests)
        return run_batch(weights, "smol", requests, tmp_path)

    with BatchServer(answer_file=answer) as provider:
        batched = asked(Workplace(tmp_path / "batch"), provider.url, "--batch_api", "0.2")
        assert provider.direct == 0
    assert sum(len(file.splitlines()) for file in files) == DOCS * len(TASKS)
    with vllm_server(weights, "smol") as address:
        direct = asked(Workplace(tmp_path / "direct"), address)
    assert batched["samples"] == direct["samples"]
    assert batched["results"] == direct["results"]
    counts = ("requests", "tokens_in", "tokens_out")
    assert [batched["total"][name] for name in counts] == [direct["total"][name] for name in counts]
    texts = {json.dumps(row["resps"]) for rows in direct["samples"].values() for row in rows}
    assert len(texts) > 4, "replies that are all alike would prove little"
