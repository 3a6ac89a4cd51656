"""Where models run, and what happens when memory runs out there: real limits, real failures."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

transformers = pytest.importorskip("transformers", reason="needs the extra hf")

from lm_eval.errors import ModelError, UsageError  # noqa: E402
from lm_eval.formats.assemble import Prompt  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest  # noqa: E402
from tests.support import tiny_models  # noqa: E402 (after the check for torch)

PAIRS = [
    LoglikelihoodRequest("t", 0, index, Prompt(("Which animal barks? Answer:",)), choice)
    for index, choice in enumerate((" a dog", " the old black cat", " B"))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save(tmp_path_factory.mktemp("model") / "tiny", "llama")


@pytest.mark.parametrize(
    "arguments",
    [
        {"device_map": "auto"},
        {"device_map": "cpu"},
        {"device_map": "sequential"},
        {"device_map": {"": "cpu"}},
        {"parallelize": True},
    ],
    ids=str,
)
def test_a_model_spread_by_accelerate_answers_as_before(
    folder: Path, arguments: dict[str, Any]
) -> None:
    pytest.importorskip("accelerate", reason="needs accelerate: pip install accelerate")
    lm, plain = HFLM(folder, **arguments), HFLM(folder, device="cpu")
    assert lm.loglikelihood(PAIRS) == plain.loglikelihood(PAIRS)
    requests = [GenerateRequest("t", 0, 0, Prompt(("The best",)), {"max_gen_toks": 4})]
    assert lm.generate_until(requests) == plain.generate_until(requests)
    assert lm.describe()["device"] == "cpu"
    assert HFLM(folder, device="cpu", **arguments).warnings == []


def test_layers_on_disk_answer_as_before(folder: Path) -> None:
    """What accelerate does with a model too large for its devices: weights come when they are used."""
    accelerate = pytest.importorskip(
        "accelerate", reason="needs accelerate: pip install accelerate"
    )
    lm, plain = HFLM(folder, device="cpu"), HFLM(folder, device="cpu")
    accelerate.disk_offload(lm.model, folder / "offloaded", execution_device=torch.device("cpu"))
    assert lm.loglikelihood(PAIRS) == plain.loglikelihood(PAIRS)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_memory": {"cpu": "60KB"}},
        {"max_memory": '{"cpu": "60KB"}', "device_map": "sequential"},
        {"max_cpu_memory": "60KB", "max_memory_per_gpu": "1GiB", "parallelize": True},
    ],
    ids=str,
)
def test_what_has_no_room_goes_to_disk_and_answers_as_before(
    folder: Path, limits: dict[str, Any], tmp_path: Path
) -> None:
    lm, plain = HFLM(folder, offload_folder=tmp_path / "offload", **limits), HFLM(folder)
    assert "disk" in lm.model.hf_device_map.values()
    assert str(lm.device) == "cpu"
    assert lm.loglikelihood(PAIRS) == plain.loglikelihood(PAIRS)
    assert lm.generate_until(ASKED) == plain.generate_until(ASKED)
    assert lm.identity()["dtype"] == plain.identity()["dtype"]


ASKED = [GenerateRequest("t", 0, 0, Prompt(("The best",)), {"max_gen_toks": 4})]
BITS = {
    "4": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": "float32"},
    "8": {"load_in_8bit": True},
}


@pytest.mark.filterwarnings("ignore::UserWarning")  # of bitsandbytes, about precisions
@pytest.mark.parametrize("bits", BITS)
def test_weights_are_quantised_while_they_are_loaded(bits: str, tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes", reason="needs bitsandbytes: pip install bitsandbytes")
    folder = tiny_models.save(tmp_path / "tiny", "llama", width=64)  # as wide as a block of weights
    lm, plain = HFLM(folder, device="cpu", **BITS[bits]), HFLM(folder, device="cpu")
    settings = transformers.BitsAndBytesConfig(**BITS[bits])
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=settings, device_map="cpu"
    )
    model.save_pretrained(tmp_path / "saved")  # a first pass packs the weights for this processor
    plain.tokenizer.save_pretrained(tmp_path / "saved")
    scores = lm.loglikelihood(PAIRS)
    assert scores == HFLM(model, tokenizer=plain.tokenizer).loglikelihood(PAIRS)
    assert scores != plain.loglikelihood(PAIRS)
    given = HFLM(folder, device="cpu", quantization_config=settings)
    assert given.loglikelihood(PAIRS) == scores
    assert lm.identity()["quantization"].startswith("bnb_4bit_" if bits == "4" else "load_in_8")
    assert "quantization" not in plain.identity()
    saved = HFLM(tmp_path / "saved", device="cpu")
    assert type(saved.model.model.layers[0].mlp.up_proj).__name__.startswith("Linear")
    assert [score for score, _ in saved.loglikelihood(PAIRS)] == pytest.approx(
        [score for score, _ in scores], abs=1e-3
    )
    with pytest.raises(UsageError, match=r"saved quantised \(bitsandbytes\)"):
        HFLM(tmp_path / "saved", device="cpu", **BITS[bits])


def test_gptq_needs_no_argument(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "gptq")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 128}
    (tmp_path / "gptq" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="It says:\nLoading a GPTQ quantized model"):
        HFLM(tmp_path / "gptq", device="cpu", gptqmodel=True)


_LIMITED = """
import json, resource, torch
from lm_eval.errors import ModelError
from lm_eval.formats.assemble import Prompt
from lm_eval.models.huggingface import HFLM
from lm_eval.requests import LoglikelihoodRequest

def pairs(words, count):
    return [
        LoglikelihoodRequest("t", n, 0, Prompt((f"Question: {n} " + "One two three " * words,)), " A")
        for n in range(count)
    ]

def limit_memory(more):
    now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))

torch.set_num_threads(1)  # the stacks of others, on a machine with many cores, would not fit
lm = HFLM(FOLDER, device="cpu", attn_implementation="eager", **ARGUMENTS)
"""


def limited(folder: Path, code: str, **arguments: Any) -> Any:
    """What code prints, as JSON, in a process that limits its own memory."""
    start = _LIMITED.replace("FOLDER", repr(str(folder))).replace("ARGUMENTS", repr(arguments))
    done = subprocess.run(
        [sys.executable, "-c", start + code],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="limits memory as Linux does"
)


@linux
def test_batches_shrink_until_they_fit(tmp_path: Path) -> None:
    """Attention of 32 texts takes more memory than there is; that of a few does not."""
    tiny_models.save(tmp_path / "wide", "gpt2", window=2048)
    found = limited(
        tmp_path / "wide",
        """
requests = pairs(160, 32)
alone = [score for request in requests[:3] for score, _ in lm.loglikelihood([request])]
limit_memory(2**28)
together = [score for score, _ in lm.loglikelihood(requests)]
print(json.dumps({"alone": alone, "together": together, "notes": lm.warnings}))
""",
        batch_size=32,
        prefix_cache=False,
    )
    assert found["together"][:3] == pytest.approx(found["alone"], abs=1e-4)
    assert len(found["together"]) == 32
    assert "Memory ran out" in found["notes"][0]
    assert "scores are the same" in found["notes"][0]


@linux
@pytest.mark.parametrize("prefix_cache", [True, False])
def test_a_single_text_that_does_not_fit_is_one_message(tmp_path: Path, prefix_cache: bool) -> None:
    tiny_models.save(tmp_path / "wide", "gpt2", window=16384)
    found = limited(
        tmp_path / "wide",
        """
short = pairs(1, 1)
before = lm.loglikelihood(short)
limit_memory(2**28)
try:
    message = str(lm.loglikelihood(pairs(3000, 1)))
except ModelError as error:
    message = str(error)
print(json.dumps({"message": message, "goes on": lm.loglikelihood(short) == before}))
""",
        prefix_cache=prefix_cache,
    )
    assert found["message"].startswith("Out of memory with a single text of ")
    assert "smaller max_length" in found["message"]
    assert found["goes on"]
