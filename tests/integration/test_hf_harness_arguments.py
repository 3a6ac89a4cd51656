"""Arguments of EleutherAI's ``hf`` as people type them: obeyed, or without effect and harmless."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

from lm_eval.errors import LmEvalWarning  # noqa: E402
from lm_eval.formats.assemble import Prompt  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.models.loading import load_model  # noqa: E402
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest  # noqa: E402
from tests.support import tiny_models  # noqa: E402 (after the check for torch)
from tests.support.command_line import Workplace  # noqa: E402

QUESTION = Prompt(("Question: What is the capital of France?\nAnswer:",))
SCORED = [LoglikelihoodRequest("t", 0, 0, QUESTION, " Paris")]
ASKED = [GenerateRequest("t", 0, 0, QUESTION, {"max_gen_toks": 8})]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save(tmp_path_factory.mktemp("model") / "tiny", "llama")


@pytest.mark.parametrize(
    "arguments",
    [
        {"dtype": None},
        {"use_fast_tokenizer": True},
        {"use_fast_tokenizer": False},
        {"low_cpu_mem_usage": True},
        {"softmax_dtype": "float32"},
        {"softmax_dtype": torch.float32},
        {"logits_cache": False},
        {"truncation": False},
        {"truncation": True},
        {"max_batch_size": None, "trust_remote_code": None},
    ],
)
@pytest.mark.parametrize("name", ["hf", "hf-auto"])
def test_arguments_that_change_no_answer(folder: Path, name: str, arguments: Any) -> None:
    plain, lm = HFLM(folder), load_model(name, {"pretrained": str(folder), **arguments})
    assert lm.loglikelihood(SCORED) == plain.loglikelihood(SCORED)
    assert lm.generate_until(ASKED) == plain.generate_until(ASKED)


def test_another_precision_of_log_probs_is_obeyed(folder: Path) -> None:
    ((exact, _),) = HFLM(folder).loglikelihood(SCORED)
    coarse = HFLM(folder, softmax_dtype="bfloat16")
    ((score, _),) = coarse.loglikelihood(SCORED)
    assert score == pytest.approx(exact, abs=0.2)
    assert score != exact
    assert coarse.identity()["softmax_dtype"] == "torch.bfloat16"


def test_truncation_cuts_at_the_tokenizers_own_limit(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "tiny")
    lm = HFLM(tmp_path / "tiny", truncation=True)
    lm.tokenizer.model_max_length = 4
    start = Prompt((lm.tok_decode(lm.tok_encode(str(QUESTION))[:4]),))
    begun = [GenerateRequest("t", 0, 0, start, {"max_gen_toks": 8})]
    assert lm.generate_until(ASKED) == HFLM(folder).generate_until(begun)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:3"])
def test_a_gpu_where_there_is_none_is_the_cpu_with_a_warning(folder: Path, device: str) -> None:
    with pytest.warns(LmEvalWarning, match=f"device={device} was not used: no GPU is visible"):
        lm = HFLM(folder, device=device)
    assert str(lm.device) == "cpu"
    assert lm.loglikelihood(SCORED) == HFLM(folder).loglikelihood(SCORED)


def test_results_of_a_relative_path_are_not_in_a_hidden_folder(
    folder: Path, tmp_path: Path
) -> None:
    work = Workplace(tmp_path)
    work.task()
    shutil.copytree(folder, tmp_path / "tiny")
    for name in ("./tiny", "../" + tmp_path.name + "/tiny"):
        work.run(
            *("--include_path", str(tmp_path), "--tasks", "t", "--limit", "2"),
            *("--model_args", f"pretrained={name}", "--output_path", "out"),
            model="hf",
        ).ok()
        assert [path.name for path in work.output.iterdir()] == ["tiny"]
