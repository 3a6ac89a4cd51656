"""``hf`` with a model and a tokenizer that the program made itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer  # noqa: E402

import lm_eval  # noqa: E402
from lm_eval.errors import LmEvalError  # noqa: E402
from lm_eval.formats.assemble import Prompt  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest  # noqa: E402
from tests.support import tiny_models  # noqa: E402 (after the check for torch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save(tmp_path_factory.mktemp("model") / "tiny", "llama")


@pytest.fixture
def model(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder)


@pytest.fixture
def tokenizer(folder: Path) -> Any:
    return AutoTokenizer.from_pretrained(folder)


QUESTION = Prompt(("Question: What is the capital of France?\nAnswer:",))
SCORED = [
    LoglikelihoodRequest("t", 0, place, QUESTION, text)
    for place, text in enumerate((" Paris", " Berlin Madrid", " a dog"))
]
ASKED = [GenerateRequest("t", 0, 0, QUESTION, {"max_gen_toks": 12})]


def test_answers_are_those_of_the_saved_model(folder: Path, model: Any, tokenizer: Any) -> None:
    saved, given = HFLM(folder), HFLM(model, tokenizer=tokenizer)
    assert given.loglikelihood(SCORED) == saved.loglikelihood(SCORED)
    assert given.generate_until(ASKED) == saved.generate_until(ASKED)
    assert HFLM(model).loglikelihood(SCORED) == saved.loglikelihood(SCORED)
    assert HFLM(folder, tokenizer=tokenizer).loglikelihood(SCORED) == saved.loglikelihood(SCORED)


def test_a_whole_run(folder: Path, model: Any, tokenizer: Any) -> None:
    runs = [
        lm_eval.simple_evaluate(model=lm, tasks=["demo_mcq@mcqa", "demo_mcq@cloze"], limit=5)
        for lm in (HFLM(folder), HFLM(pretrained=model, tokenizer=tokenizer))
    ]
    assert runs[0]["results"] == runs[1]["results"]
    assert runs[1]["config"]["model_digest"].startswith("sha256:")


def test_results_of_a_run_by_arguments_are_plain_data(
    folder: Path, model: Any, tokenizer: Any
) -> None:
    nameless = type(model)(model.config)
    nameless.config.name_or_path = nameless.name_or_path = ""
    for given, name in ((model, str(folder)), (nameless, "LlamaForCausalLM")):
        results = lm_eval.simple_evaluate(
            model="hf",
            model_args={"pretrained": given, "tokenizer": tokenizer},
            tasks=["demo_mcq@mcqa"],
            limit=2,
        )
        assert json.loads(json.dumps(results))["model_name"] == name
        assert results["config"]["model_args"] == {"pretrained": name, "tokenizer": str(folder)}


def test_its_weights_identify_it(model: Any, tokenizer: Any) -> None:
    before = HFLM(model, tokenizer=tokenizer).identity()
    assert before == HFLM(model, tokenizer=tokenizer).identity()
    with torch.no_grad():
        model.lm_head.weight[0, 0] += 1.0
    assert HFLM(model, tokenizer=tokenizer).identity()["digest"] != before["digest"]


def test_its_settings_stay_and_do_not_decide(folder: Path, model: Any, tokenizer: Any) -> None:
    model.train()
    model.generation_config.repetition_penalty = 5.0
    lm = HFLM(model, tokenizer=tokenizer)
    assert lm.generate_until(ASKED) == HFLM(folder).generate_until(ASKED)
    assert model.generation_config.repetition_penalty == 5.0
    assert not any(part.training for part in model.modules())
    assert lm.describe()["generation_config_not_used"]["repetition_penalty"] == 5.0


def test_a_precision_beside_it_is_not_used_and_that_is_said(model: Any, tokenizer: Any) -> None:
    """EleutherAI's ``HFLM`` ignores it, so programs give it; what was measured is said."""
    (note,) = HFLM(model, tokenizer=tokenizer, dtype=torch.bfloat16).warnings
    assert note.startswith("dtype=bfloat16 was not used")
    assert note.endswith("float32.")
    assert HFLM(model, tokenizer=tokenizer, dtype="float32", revision="main").warnings == []


def test_arguments_of_the_harness_that_ask_for_nothing_are_taken(folder: Path) -> None:
    nothing = {"subfolder": "", "autogptq": False, "delta": None, "offload_folder": "./offload"}
    lm = HFLM(folder, max_memory_per_gpu=None, max_cpu_memory=None, gptqmodel=False, **nothing)
    assert lm.generate_until(ASKED) == HFLM(folder).generate_until(ASKED)


def test_a_model_in_a_folder_of_its_own(folder: Path) -> None:
    lm = HFLM(folder.parent, subfolder=folder.name)
    assert lm.generate_until(ASKED) == HFLM(folder).generate_until(ASKED)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"revision": "v2"}, "is loaded already, so revision cannot be obeyed. Leave it out"),
        ({"revision": "v2", "peft": "x"}, "so revision, peft cannot be obeyed. Leave them out"),
    ],
)
def test_what_only_loading_could_obey(model: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LmEvalError, match=message):
        HFLM(model, **arguments)


def test_what_is_no_model_or_lacks_its_tokenizer() -> None:
    with pytest.raises(LmEvalError, match="pretrained is a Linear, which is not a language model"):
        HFLM(torch.nn.Linear(2, 2))
    fresh = tiny_models.make_model("gpt2", 400)
    with pytest.raises(LmEvalError, match="Give its tokenizer as well"):
        HFLM(fresh)
    with pytest.raises(LmEvalError, match="knows only 40: it belongs to another model"):
        HFLM(tiny_models.make_model("gpt2", 40), tokenizer=tiny_models.make_tokenizer())


class LikeAModel(torch.nn.Module):
    """A module around another, as programs adapt models of other libraries."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.inner, self.config, self.device = model, model.config, "cpu"

    def forward(self, input_ids: Any = None, attention_mask: Any = None, **_: Any) -> Any:
        logits = self.inner(input_ids, attention_mask=attention_mask).logits
        logits.logits = logits
        return logits


@pytest.mark.filterwarnings("ignore:Model HFLM. _model of HFLM answered")
def test_a_module_with_a_forward_is_scored_and_refuses_to_generate() -> None:
    tokenizer = tiny_models.make_tokenizer()
    model = tiny_models.make_model("llama", len(tokenizer))
    module = HFLM(LikeAModel(model), tokenizer=tokenizer)
    plain = HFLM(model, tokenizer=tokenizer)
    found, wanted = (
        lm_eval.simple_evaluate(model=lm, tasks=["demo_mcq@mcqa"], limit=4, log_samples=True)[
            "samples"
        ]
        for lm in (module, plain)
    )
    scores, expected = (
        [float(one[0]) for sample in samples["demo_mcq@mcqa"] for one in sample["filtered_resps"]]
        for samples in (found, wanted)
    )
    assert scores == pytest.approx(expected, abs=1e-3)
    with pytest.raises(LmEvalError, match="has no generate"):
        lm_eval.simple_evaluate(model=module, tasks=["demo_mcq@generate"], limit=1)


def test_attributes_and_arguments_of_the_harness(folder: Path) -> None:
    lm = HFLM(str(folder), torch_dtype="float32", use_safetensors=True, use_cache=True)
    assert (lm.pretrained, lm.revision, lm.peft) == (str(folder), "main", None)
    assert HFLM._DEFAULT_MAX_LENGTH == 2048
    info = lm.get_model_info()
    assert info["model_num_parameters"] == sum(part.numel() for part in lm.model.parameters())
    assert (info["model_revision"], info["model_dtype"]) == ("main", torch.float32)
    hook = object()
    lm.set_cache_hook(hook)
    assert (lm.cache_hook, lm.all_gather(3), lm.barrier()) == (hook, 3, None)  # type: ignore[func-returns-value]
    assert (lm.gather_object(3), lm.gather_object(3, dst=1)) == ([3], None)
    config = AutoConfig.from_pretrained(folder, attention_dropout=0.5)
    other = HFLM(str(folder), config=config, variant=None, local_files_only=True, cache_dir="x")
    assert other.model.config.attention_dropout == 0.5
    with pytest.raises(LmEvalError, match="variant cannot be obeyed"):
        HFLM(lm.model, tokenizer=lm.tokenizer, variant="fp16")
