"""PEFT adapters on ``hf``: those inside layers, and those that put tokens of their own before texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")
peft = pytest.importorskip("peft", reason="needs peft: pip install peft")

from lm_eval.errors import ModelError  # noqa: E402
from lm_eval.formats.assemble import Prompt  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest  # noqa: E402
from tests.support import tiny_models  # noqa: E402 (after the checks)

OWN_TOKENS = 5
WINDOW = 64
QUESTIONS = ["Which animal barks? Answer:", "How many legs has a spider? The best answer is", "One"]
PAIRS = [
    LoglikelihoodRequest("t", doc_id, index, Prompt((question,)), choice)
    for doc_id, question in enumerate(QUESTIONS)
    for index, choice in enumerate((" a dog", " the old black cat", " B"))
]
KINDS = {
    "lora": lambda task: peft.LoraConfig(task_type=task, r=2),
    "prompt tuning": lambda task: peft.PromptTuningConfig(
        task_type=task, num_virtual_tokens=OWN_TOKENS
    ),
    "prefix tuning": lambda task: peft.PrefixTuningConfig(
        task_type=task, num_virtual_tokens=OWN_TOKENS
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("models")
    kinds = ("gpt2", "llama", "t5")
    return {kind: tiny_models.save(base / kind, kind, window=WINDOW) for kind in kinds}


def make_adapter(folder: Path, base: Path, kind: str) -> Any:
    """An adapter with random weights, written to a folder; the model it is on."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    is_pair = base.name == "t5"
    model_class = AutoModelForSeq2SeqLM if is_pair else AutoModelForCausalLM
    model = peft.get_peft_model(
        model_class.from_pretrained(base), KINDS[kind]("SEQ_2_SEQ_LM" if is_pair else "CAUSAL_LM")
    )
    torch.manual_seed(3)
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, 0.0, 0.3)
    model.save_pretrained(folder)
    return model.eval()


def by_peft(lm: HFLM, model: Any, request: LoglikelihoodRequest) -> float:
    """The score by a forward of PEFT's own model, one text alone."""
    ((context, scored),) = lm.tokens.encode_pairs([(str(request.context), request.continuation)])
    with torch.inference_mode():
        if lm.backend == "seq2seq":
            output = model(input_ids=torch.tensor([context]), labels=torch.tensor([scored]))
        else:
            output = model(input_ids=torch.tensor([(context + scored)[:-1]]))
    rows = torch.log_softmax(output.logits[0, -len(scored) :].double(), -1)
    return float(sum(row[token] for row, token in zip(rows, scored, strict=True)))


@pytest.mark.parametrize("adapter", KINDS)
@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5"])
@pytest.mark.filterwarnings("ignore")  # PEFT warns of arguments that generation gives it
def test_scores_and_replies_are_those_of_peft(
    folders: dict[str, Path], tmp_path: Path, kind: str, adapter: str
) -> None:
    model = make_adapter(tmp_path / "adapter", folders[kind], adapter)
    lm = HFLM(folders[kind], peft=tmp_path / "adapter", device="cpu")
    scores = [score for score, _ in lm.loglikelihood(PAIRS)]
    assert scores == pytest.approx([by_peft(lm, model, pair) for pair in PAIRS], abs=1e-3)
    bare = HFLM(folders[kind], device="cpu")
    assert scores != pytest.approx([score for score, _ in bare.loglikelihood(PAIRS)], abs=1e-1)
    says_why = [note for note in lm.warnings if "puts tokens of its own before each text" in note]
    assert bool(says_why) == (adapter != "lora" and kind != "t5")
    assert lm.identity()["peft"] != bare.identity()["peft"]

    texts = ["One", "Which animal barks? a dog, the old"]
    requests = [
        GenerateRequest("t", n, 0, Prompt((text,)), {"max_gen_toks": 6})
        for n, text in enumerate(texts)
    ]
    for request, reply in zip(requests, lm.generate_until(requests), strict=True):
        ids = torch.tensor([lm.tok_encode(str(request.context))])
        with torch.inference_mode():
            whole = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=6,
                do_sample=False,
                pad_token_id=0,
            )
        before = 1 if kind == "t5" else ids.shape[1]  # the decoder's first token, or the prompt
        assert str(reply) == lm.tok_decode(whole[0][before:])


def test_tokens_of_an_adapter_take_places_in_the_window(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    make_adapter(tmp_path / "adapter", folders["gpt2"], "prompt tuning")
    lm = HFLM(folders["gpt2"], peft=tmp_path / "adapter", device="cpu")
    assert lm.max_length == WINDOW - OWN_TOKENS
    long = LoglikelihoodRequest("t", 0, 0, Prompt(("One two three " * 60,)), " A")
    assert lm.loglikelihood([long])
    assert lm.truncated == 1


@pytest.mark.filterwarnings("ignore:fan_in_fan_out")
def test_adapters_of_other_models(folders: dict[str, Path], tmp_path: Path) -> None:
    make_adapter(tmp_path / "gpt2", folders["gpt2"], "lora")
    with pytest.raises(ModelError, match="does not fit LlamaForCausalLM"):
        HFLM(folders["llama"], peft=tmp_path / "gpt2", device="cpu")

    # Made for more layers than the model has: PEFT itself would take what fits and say nothing.
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig.from_pretrained(folders["llama"])
    config.num_hidden_layers = 3
    LlamaForCausalLM(config).save_pretrained(tmp_path / "deep")
    make_adapter(tmp_path / "of-deep", tmp_path / "deep", "lora")
    with pytest.raises(ModelError, match="8 of its 12 tensors have a place in it, of 8 places"):
        HFLM(folders["llama"], peft=tmp_path / "of-deep", device="cpu")
