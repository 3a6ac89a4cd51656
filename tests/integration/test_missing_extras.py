"""Models in an environment that lacks their packages: one message with the line that installs them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from command_line import SOURCE

HTTP = "model=m,base_url=http://localhost:1/v1/completions"


RUN, PREVIEW = "run --tasks demo_mcq@mcqa", "preview demo_mcq@mcqa"
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from lm_eval.cli import main
sys.exit(main({argv!r}))
"""
"""A process that cannot import some packages, as if they were not installed."""


@pytest.mark.parametrize(
    ("command", "model", "arguments", "missing", "extra"),
    [
        (RUN, "hf", "pretrained=gpt2", ("torch", "transformers"), "hf"),
        (PREVIEW, "hf", "pretrained=gpt2", ("torch", "transformers"), "hf"),
        (RUN, "hf", "pretrained=gpt2", ("transformers",), "hf"),
        (PREVIEW, "hf", "pretrained=gpt2", ("transformers",), "hf"),
        (RUN, "gguf", "path=m.gguf", ("numpy", "cyllama"), "gguf"),
        (RUN, "gguf", "path=m.gguf", ("cyllama",), "gguf"),
        (RUN, "local-completions", HTTP, ("aiohttp", "huggingface_hub", "tokenizers"), "api"),
    ],
)
def test_the_line_that_installs_it_is_said(
    command: str, model: str, arguments: str, missing: tuple[str, ...], extra: str
) -> None:
    argv = [*command.split(), "--model", model, "--model_args", arguments]
    code = WITHOUT.format(missing=missing, argv=argv)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.startswith("lm-eval: error: ")
    assert done.stderr.count("pip install") == 1
    assert f"\n    pip install 'lm-eval-formats[{extra}]'\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert "never awaited" not in done.stderr
