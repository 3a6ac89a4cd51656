"""Models that vLLM cannot load here, for real: one message that says which memory and what lowers it.

Needs an environment of its own: ``make test-vllm``. All are tried in one process of their own: an engine
that could not be made leaves things behind.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("vllm") is None:
    pytest.skip("needs vLLM, in an environment of its own: make test-vllm", allow_module_level=True)

from tests.support.command_line import python
from tests.support.tiny_models import save
from tests.support.vllm_process import IN_PROCESS

PROGRAM = """
import json, os, sys, tempfile
from lm_eval.cli import main

sys.modules["ray"] = None  # as if it were not installed
told, screen = {}, os.dup(2)
for name, (folder, arguments, space) in json.loads(sys.argv[1]).items():
    os.environ.pop("VLLM_CPU_KVCACHE_SPACE", None)
    if space:
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = space
    given = json.dumps({"pretrained": folder, **arguments})
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        code = main(["run", "--tasks", "demo_mcq@mcqa", "--limit", "2", "--model", "vllm",
                     "--model_args", given])
        sys.stderr.flush()
        os.dup2(screen, 2)
        written.seek(0)
        told[name] = [code, written.read().decode()]
print(json.dumps(told))
"""
SMALL = {"dtype": "float32", "enforce_eager": True, "distributed_executor_backend": "uni"}
OURS = ("vLLM could not load ", "VLLM_LOGGING_LEVEL=INFO shows more")
CASES: dict[str, tuple[str, dict[str, Any], str, tuple[str, ...]]] = {
    # the model, its arguments (`space` is VLLM_CPU_KVCACHE_SPACE), vLLM's reason, words of ours
    "beyond the model's window": (
        "tiny",
        {"max_model_len": 10**6},
        "max_model_len (1000000) is greater than the derived max_model_len",
        OURS,
    ),
    "no room for one text": (
        "tiny",
        {"kv_cache_memory_bytes": 600_000},
        "KV cache is needed, which is larger than the available KV cache memory",
        OURS,
    ),
    "no room for any": (
        "tiny",
        {"kv_cache_memory_bytes": 1},
        "No available memory for the cache blocks",
        OURS,
    ),
    "memory that others use": (
        "tiny",
        {"gpu_memory_utilization": 1.0},
        "is less than desired CPU memory utilization (1.0",
        OURS,
    ),
    "more cache than memory": (
        "tiny",
        {"space": "100000"},
        "on kv cache allocation is less than requested memory",
        OURS,
    ),
    "weights beyond memory": (
        "huge",
        {"load_format": "dummy", "space": "1"},
        "allocate memory",
        OURS,
    ),
    "several copies without Ray": (
        "tiny",
        {"data_parallel_size": 2},
        "data_parallel_size=2: vLLM holds one copy of a model in a process",
        ("--model ray", "pip install", "--model local-completions"),
    ),
}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Exit code and standard error of each case."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("tiny", "huge")}
    for folder in folders.values():
        save(folder, "llama", width=256)
    _enlarge(folders["huge"])
    cases = {}
    for name, (model, arguments, *_) in CASES.items():
        given = {**SMALL, **arguments}
        cases[name] = (str(folders[model]), given, given.pop("space", None))
    done = python("-c", PROGRAM, json.dumps(cases), timeout=600, **IN_PROCESS)
    assert done.returncode == 0, done.stderr
    found: dict[str, tuple[int, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _enlarge(folder: Path) -> None:
    """A config whose weights no machine holds: 16 TB of embeddings."""
    path = folder / "config.json"
    config = json.loads(path.read_text("utf-8"))
    config |= {"vocab_size": 2 * 10**9, "hidden_size": 2048}
    path.write_text(json.dumps(config), "utf-8")


@pytest.mark.parametrize("case", CASES)
def test_a_model_that_does_not_fit_is_one_message(
    told: dict[str, tuple[int, str]], case: str
) -> None:
    code, message = told[case]
    _, _, reason, ours = CASES[case]
    assert code != 0
    assert "Traceback" not in message
    assert reason in message.replace("\n", " "), message
    first, *_ = message.splitlines()
    assert ours is not OURS or all(words in first for words in ours), message
    assert all(words in message for words in ours), message
