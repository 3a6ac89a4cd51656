"""What a process with vLLM needs on a machine without a GPU, and a server of it.

Set before vLLM is imported. One process holds about 3 GB: tests make one at a time.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "OMP_NUM_THREADS": "2",
}
IN_PROCESS = {**ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
START_S = 800


def run_batch(model: Path, name: str, requests: bytes, folder: Path) -> bytes:
    """What vLLM's ``run_batch`` answers to a file of requests, as it writes it."""
    (folder / "requests.jsonl").write_bytes(requests)
    command = [sys.executable, "-m", "vllm.entrypoints.openai.run_batch", "--model", str(model)]
    command += ["-i", str(folder / "requests.jsonl"), "-o", str(folder / "answers.jsonl")]
    command += ["--served-model-name", name, "--max-model-len", "2048", "--enforce-eager"]
    done = subprocess.run(
        [*command, "--dtype", "float32"],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return (folder / "answers.jsonl").read_bytes()


@contextmanager
def vllm_server(model: Path, name: str, *options: str) -> Iterator[str]:
    """The address of a server of vLLM, which ends with this."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", name, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--max-model-len", "2048", "--enforce-eager", "--dtype", "float32", *options]
    process = subprocess.Popen(command, env={**os.environ, **ENVIRONMENT})
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(process, f"{address}/health")
        yield address
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)


def _wait_for(process: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        assert process.poll() is None, "the server ended while it started"
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                if response.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(1)
    raise AssertionError(f"no answer at {url} within {START_S} s")
