"""Without the packages of a model or metric: one message with the line that installs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lm_eval.errors import MissingExtraError
from lm_eval.models.gguf import default_weights
from tests.support.command_line import Workplace, python
from tests.support.paths import SOURCE

HTTP = "model=m,base_url=http://localhost:1/v1/completions"


API = ("aiohttp", "orjson", "tiktoken", "tokenizers")
RUN, PREVIEW = "run --tasks demo_mcq@mcqa", "preview demo_mcq@mcqa"
GENERATE = "run --apply_chat_template --tasks demo_mcq@generate"
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
        ("run --tasks demo_mcq@cot+enforced", "gguf", "n_threads=1", ("llguidance",), "enforce"),
        (RUN, "ray", "backend=dummy", ("ray",), "ray"),
        (RUN, "vllm", "pretrained=gpt2", ("vllm",), "vllm"),
        (RUN, "local-completions", HTTP, ("aiohttp", "huggingface_hub", "tokenizers"), "api"),
        (RUN, "local-completions", HTTP, API, "api"),
        (GENERATE, "local-chat-completions", HTTP, API, "api"),
    ],
)
def test_the_line_that_installs_it_is_said(
    command: str, model: str, arguments: str, missing: tuple[str, ...], extra: str
) -> None:
    if model == "gguf" and "path=" not in arguments:
        try:
            default_weights()
        except MissingExtraError as error:
            pytest.skip(f"needs the default weights: {error.install}")
    argv = [*command.split(), "--model", model, "--model_args", arguments]
    refused(without(missing, argv), extra)


@pytest.mark.parametrize(
    ("metric", "missing", "extra", "words"),
    [
        ("bleu", "sacrebleu", "metrics", "Task 't': The metric bleu is computed by sacrebleu"),
        ("exct_match", "evaluate", "hub-metrics", "Task 't': 'exct_match' is not a metric of this"),
        ("exct_match", "evaluate", "hub-metrics", "Did you mean 'exact_match'?"),
    ],
)
def test_a_metric_is_loaded_before_anything_is_asked(
    tmp_path: Path, metric: str, missing: str, extra: str, words: str
) -> None:
    place = Workplace(tmp_path)
    keys = {"doc_to_choice": ..., "formats": ..., "metric_list": [{"metric": metric}]}
    path = place.task(output_type="generate_until", doc_to_target="question", **keys)
    out = str(place.output)
    done = without((missing,), ["run", "--tasks", path, "--model", "dummy", "--output_path", out])
    refused(done, extra)
    assert words in done.stderr
    assert place.written() == []
    checked = without((missing,), ["validate", "--tasks", path])
    assert checked.returncode == 1
    assert words in checked.stdout


def without(missing: tuple[str, ...], argv: list[str]) -> subprocess.CompletedProcess[str]:
    """A command in a process that cannot import these packages."""
    return python("-c", WITHOUT.format(missing=missing, argv=argv), HF_HUB_OFFLINE="1")


def refused(done: subprocess.CompletedProcess[str], extra: str) -> None:
    """Exit code 1 and one message, with the line that installs the extra."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.startswith("lm-eval: error: ")
    assert done.stderr.count("pip install") == 1
    assert f"\n    pip install 'lm-eval-formats[{extra}]'\n" in done.stderr
    assert "Traceback" not in done.stderr
    assert "never awaited" not in done.stderr


@pytest.mark.parametrize("by", ["PYTHONPATH", "pth"])
def test_an_installed_datasets_is_used_wherever_it_is(tmp_path: Path, by: str) -> None:
    """Behind PYTHONPATH, ``pip install --target`` or a ``.pth`` file, too."""
    site = tmp_path / "site"
    (site / "datasets").mkdir(parents=True)
    (site / "datasets/__init__.py").write_text("REAL = True\n", "utf-8")
    (site / "datasets-1.0.dist-info").mkdir()
    place = Workplace(tmp_path)
    place.write("utils.py", "import datasets\n\ndef text(doc):\n    return str(datasets.REAL)\n")
    text = Path(place.task()).read_text("utf-8")
    place.write("t.yaml", text.replace('"question"', "!function utils.text"))
    adds = f"import site; site.addsitedir({str(tmp_path / 'pth')!r})"
    place.write("pth/own.pth", str(site))
    code = f"{adds if by == 'pth' else ''}\nfrom lm_eval.cli import main; main()"
    path = [str(SOURCE), *([str(site)] if by == "PYTHONPATH" else [])]
    done = subprocess.run(
        [sys.executable, "-c", code, "preview", "t.yaml@mcqa", "--run_code"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "True" in done.stdout, done.stderr
