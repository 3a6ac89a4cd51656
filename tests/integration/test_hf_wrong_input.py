"""Wrong input for ``hf``: one message each, that says what to do, and no traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Workplace, subprocess_cli

torch = pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

import transformers  # noqa: E402

from lm_eval.errors import LmEvalError, ModelError, UsageError  # noqa: E402
from lm_eval.formats.assemble import Prompt  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.models.loading import load_model  # noqa: E402
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest  # noqa: E402
from tests.support import tiny_models  # noqa: E402 (after the check for torch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save(tmp_path_factory.mktemp("model") / "tiny", "llama", window=64)


def copy(folder: Path, target: Path, **config: Any) -> Path:
    """The model's folder again, with keys of its configuration changed."""
    shutil.copytree(folder, target)
    path = target / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return target


WRONG_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"dtype": "fp17"}, "no dtype 'fp17'. Did you mean 'fp16'?"),
    ({"device": "gpu"}, "'gpu' is not a device. torch says:"),
    ({"device": "mps:9"}, "cannot load the weights to mps:9 of"),
    ({"softmax_dtype": "fp17"}, "no dtype 'fp17'. Did you mean 'fp16'?"),
    ({"gguf_file": "m.gguf"}, "There is no file "),
    ({"subfolder": "step_10"}, "There is no folder "),
    ({"backend": "casual"}, "Did you mean 'causal'?"),
    ({"batch_size": 0}, "batch_size must be a whole number above 0"),
    ({"batch_size": "automatic"}, "batch_size must be a whole number above 0"),
    ({"kv_budget": "1GB"}, "kv_budget must be a whole number of bytes above 0, not '1GB'"),
    ({"seed": "x"}, "seed must be a whole number, not 'x'"),
    ({"device_map": "autoo"}, "cannot load the weights of"),
    ({"think_end_token": 99999}, "think_end_token must be the number of a token, 0 to"),
    ({"enable_thinking": True}, "Leave chat_template_args"),
    ({"max_length": -1}, "max_length must be"),
    ({"chat_template_args": "{no json"}, "is not a JSON object"),
    ({"attn_implementation": "quick"}, "attn_implementation"),
    ({"prefix_token_id": "x"}, "prefix_token_id must be the number of a token, 0 to"),
    ({"revision": "v9"}, "revision=v9 is for names on the hub"),
    ({"tokenizer": "/nowhere"}, "no folder /nowhere. Give tokenizer="),
    ({"tokenizer": "."}, "tokenizer=.: the folder has no tokenizer_config.json"),
    ({"peft": "."}, "peft=.: the folder has no adapter_config.json. It holds"),
    ({"peft": "/nowhere/adapter"}, "There is no folder /nowhere/adapter. Give peft="),
    ({"load_in_4bit": True, "load_in_8bit": True}, "give either load_in_4bit=true with"),
    ({"bnb_4bit_quant_type": "nf4"}, "bnb_4bit_quant_type: give either load_in_4bit=true with"),
    ({"load_in_4bit": True, "bnb_4bit_compute_dtype": "bf17"}, "has no dtype 'bf17'"),
    ({"load_in_4bit": True, "quantization_config": {"x": 1}}, "which says everything"),
    ({"quantization_config": "{"}, "is not a JSON object"),
    ({"max_memory": "10GiB"}, "is not a JSON object"),
    ({"max_memory": {"cpu": "much"}}, "cannot load the weights of"),
    ({"bnb_4bit_quant_typ": "nf4"}, "Did you mean 'bnb_4bit_quant_type'?"),
    ({"max_lenght": 5}, "has no argument 'max_lenght'. Did you mean 'max_length'?"),
    ({"autogptq": "model.safetensors"}, "Model 'hf' has no argument 'autogptq'."),
    *(
        ({switch: "maybe"}, f"'hf': {switch} must be true or false, not 'maybe'")
        for switch in ("prefix_cache", "trust_remote_code", "add_bos_token", "parallelize")
    ),
]


def test_wrong_arguments(folder: Path) -> None:
    failing = []
    for arguments, message in WRONG_ARGUMENTS:
        try:
            load_model("hf", {"pretrained": str(folder), "device": "cpu", **arguments})
            said = "nothing"
        except LmEvalError as error:
            said = str(error)
        if message not in said:
            failing.append((arguments, said))
    assert not failing


def test_a_window_beyond_the_models_positions(folder: Path, tmp_path: Path) -> None:
    learned = tiny_models.save(tmp_path / "learned", "gpt2", window=64)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1, "ffn_dim": 32}
    opt = transformers.OPTConfig(
        vocab_size=405, max_position_embeddings=64, word_embed_proj_dim=32, **sizes
    )
    transformers.OPTForCausalLM(opt).save_pretrained(tmp_path / "opt")
    tiny_models.make_tokenizer().save_pretrained(tmp_path / "opt")
    for model in (learned, tmp_path / "opt"):
        with pytest.raises(UsageError, match=r"64 positions reads no more.*at most max_length=64"):
            HFLM(model, device="cpu", max_length=65)
    lm = HFLM(folder, device="cpu", max_length=65)  # rotary: by a rule
    assert lm.max_length == 65
    assert "max_length=65 is more than the 64 tokens" in lm.warnings[0]


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ModelError, match=r"has no config.json.*It holds: notes.txt"):
        HFLM(tmp_path)
    (tmp_path / "a.gguf").write_bytes(b"no gguf")
    with pytest.raises(ModelError, match=r"It holds: a\.gguf, notes\.txt"):
        HFLM(tmp_path)
    with pytest.raises(ModelError, match="not a GGUF file"):
        HFLM(tmp_path / "a.gguf")
    with pytest.raises(ModelError, match="There is no file"):
        HFLM(tmp_path / "b.gguf")
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(ModelError, match="an adapter is peft="):
        HFLM(tmp_path)
    with pytest.raises(ModelError, match=r"notes.txt is a file"):
        HFLM(tmp_path / "notes.txt")
    with pytest.raises(ModelError, match="There is no folder"):
        HFLM(tmp_path / "nowhere")


def test_broken_folders(folder: Path, tmp_path: Path) -> None:
    unknown = copy(folder, tmp_path / "unknown", model_type="no_such_architecture")
    with pytest.raises(
        ModelError, match=r"(?s)cannot load the configuration.*no_such_architecture"
    ):
        HFLM(unknown)
    code = copy(
        folder,
        tmp_path / "code",
        model_type="own",
        auto_map={"AutoConfig": "configuration_own.OwnConfig"},
    )
    with pytest.raises(
        ModelError, match=r"(?s)cannot load the configuration.*trust_remote_code=True"
    ):
        HFLM(code)
    empty = copy(folder, tmp_path / "empty")
    (empty / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="cannot load the weights"):
        HFLM(empty)
    # More layers than there are weights: transformers would go on with random ones.
    larger = copy(folder, tmp_path / "larger", num_hidden_layers=3)
    with pytest.raises(ModelError, match=r"lack \d+ tensors.*random numbers"):
        HFLM(larger)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("model.safetensors", 0.9, "cannot load the weights of .*damaged. It says:\n."),
        ("model.safetensors", 100, "cannot load the weights of .*damaged. It says:\n."),
        ("model.safetensors", "version https://git-lfs.github.com/spec/v1\n", "`git lfs pull` in"),
        ("tokenizer.json", None, "(?s)cannot load the tokenizer.*backend tokenizer"),
        ("tokenizer.json", '{"x": 1}', "(?s)cannot load the tokenizer.*KeyError: 'added_tokens'"),
        (
            "config.json",
            '{"model_type": ',
            "(?s)cannot load the configuration.*not a valid JSON file",
        ),
        (
            "config.json",
            {"hidden_size": 64},
            "(?s)cannot load the weights.*ignore_mismatched_sizes",
        ),
        (
            "config.json",
            {"model_type": "vit"},
            "Unrecognized configuration class",
        ),
        (
            "config.json",
            {"model_type": "qwen2_vl"},
            "Unrecognized configuration class",
        ),
    ],
)
def test_damaged_files(folder: Path, tmp_path: Path, file: str, content: Any, message: str) -> None:
    """``content``: a part or a number of its bytes that is kept, another text, or other settings."""
    damaged = copy(folder, tmp_path / "damaged", **(content if isinstance(content, dict) else {}))
    path = damaged / file
    whole = path.read_bytes()
    if content is None:
        path.unlink()
        (damaged / "tokenizer_config.json").unlink()
    elif isinstance(content, str):
        path.write_text(content)
    elif not isinstance(content, dict):
        kept = content if isinstance(content, int) else int(content * len(whole))
        path.write_bytes(whole[:kept])
    with pytest.raises(ModelError, match=message):
        HFLM(damaged, device="cpu")


def test_a_gguf_file_that_is_cut_off(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="needs gguf: pip install gguf")
    file = tmp_path / "cut.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(64)
    writer.add_tokenizer_model("gpt2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(
        ModelError, match=r"transformers cannot load .* of .*cut\.gguf. It says:\n."
    ):
        HFLM(file, device="cpu")


def test_a_tokenizer_of_another_model(tmp_path: Path) -> None:
    tokenizer = tiny_models.make_tokenizer()
    small = tmp_path / "small"
    tiny_models.make_model("llama", 300).save_pretrained(small)
    tokenizer.save_pretrained(small)
    with pytest.raises(ModelError, match=r"has \d+ tokens, but .* knows only 300"):
        HFLM(small)


def test_texts_longer_than_the_window(folder: Path) -> None:
    lm = HFLM(folder, device="cpu")
    long = LoglikelihoodRequest("t", 7, 0, Prompt(("x",)), " word" * 80)
    with pytest.raises(ModelError, match=r"doc 7: a continuation of \d+ tokens .*Raise max_length"):
        lm.loglikelihood([long])
    with pytest.raises(
        UsageError, match=r"doc 0: the prompt has \d+ tokens and the window .*--samples"
    ):
        lm.generate_until(
            [GenerateRequest("t", 0, 0, Prompt((" word" * 80,)), {"max_gen_toks": 64})]
        )
    lm.generate_until([GenerateRequest("t", 0, 0, Prompt(("x",)), {"max_gen_toks": 64})])
    assert any("1 replies were limited to what the window" in note for note in lm.warnings)
    with pytest.raises(UsageError, match=r"'t'\)\. Did you mean 'top_[pk]'"):
        lm.generate_until([GenerateRequest("t", 0, 0, Prompt(("x",)), {"top_q": 1})])


def test_weights_that_are_no_numbers(tmp_path: Path) -> None:
    model = tiny_models.make_model("llama", 405)
    model.lm_head.weight.data[:] = float("nan")
    model.save_pretrained(tmp_path / "nan")
    tiny_models.make_tokenizer().save_pretrained(tmp_path / "nan")
    lm = HFLM(tmp_path / "nan", device="cpu", prefix_cache=False)
    with pytest.raises(ModelError, match=r"not numbers.*dtype=bfloat16"):
        lm.loglikelihood([LoglikelihoodRequest("t", 0, 0, Prompt(("x",)), " A")])


def test_a_hub_name_while_offline(tmp_path: Path) -> None:
    """No server listens at the hub's address: one message, which names the files."""
    done = subprocess_cli(
        *("run", "--tasks", "demo_mcq@mcqa", "--model", "hf", "--limit", "1"),
        *("--model_args", "pretrained=gpt2"),
        cwd=tmp_path,
        HF_ENDPOINT="http://127.0.0.1:9",
        HF_HOME=str(tmp_path / "hf"),
    )
    text = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert "Traceback" not in text
    assert "Retry" not in text
    assert "pretrained=gpt2 is not a folder here, and the hub (http://127.0.0.1:9) does not" in text
    assert "then give pretrained=FOLDER. What went wrong:" in text


def test_offline_by_choice(tmp_path: Path) -> None:
    done = subprocess_cli(
        *("run", "--tasks", "demo_mcq@mcqa", "--model", "hf", "--model_args", "pretrained=a/b"),
        cwd=tmp_path,
        HF_HUB_OFFLINE="1",
        HF_HOME=str(tmp_path / "hf"),
    )
    assert "HF_HUB_OFFLINE or local_files_only is set" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_the_command_line_shows_one_message(folder: Path, tmp_path: Path) -> None:
    work = Workplace(tmp_path)
    work.task()
    given = (
        "--include_path",
        str(tmp_path),
        "--tasks",
        "t",
        "--model_args",
        f"pretrained={folder}",
    )
    work.run(*given, "--device", "gpu", model="hf").refused("'gpu' is not a device.")
