"""The arguments of ``hf`` and of its generation requests, checked and turned into what they mean.

``check_values`` needs neither weights nor, for ordinary values, ``torch``: a dry run uses it.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from lm_eval.errors import LmEvalWarning, UsageError, did_you_mean, listing
from lm_eval.models.hf.auto_batch import AutoBatch
from lm_eval.models.settings import BATCH_SIZE
from lm_eval.requests import GenerateRequest
from lm_eval.requests.options import GenerationOptions

_SAMPLING = ("top_p", "top_k", "seed")
PENALTIES = ("repetition_penalty", "no_repeat_ngram_size")
_WITHOUT_EFFECT = ("num_beams", "num_return_sequences", "use_cache")
DTYPES = {
    "auto": "auto",
    "float32": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float64": "float64",
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp64": "float64",
    "float": "float32",
    "half": "float16",
    "double": "float64",
}

_POSITIONS = ("n_positions", "max_position_embeddings", "n_ctx", "max_seq_len")
_POSITIONS_BY_RULE = ("rope_parameters", "rope_theta", "alibi", "relative_attention_num_buckets")
"""Settings of models whose positions extend beyond those they were trained on."""


_4BIT = (
    *("bnb_4bit_compute_dtype", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant"),
    "bnb_4bit_quant_storage",
)
_8BIT = (
    *("llm_int8_threshold", "llm_int8_skip_modules", "llm_int8_enable_fp32_cpu_offload"),
    "llm_int8_has_fp16_weight",
)
GPTQ = ("autogptq", "gptqmodel")
PASSED = ("variant", "config", "cache_dir", "local_files_only")
"""Arguments that ``from_pretrained`` of the model gets as they are."""
_TAKEN = (
    *(*_4BIT, *_8BIT, *PASSED, "subfolder", "torch_dtype"),
    *("use_fast_tokenizer", "low_cpu_mem_usage", "use_safetensors", "logits_cache", "use_cache"),
)
"""More arguments of EleutherAI's ``HFLM``; the last ones decide only how fast something is read."""
_ABSENT = (*GPTQ, "tp_plan", "delta", "token", "use_auth_token", "use_accelerate")
"""Arguments that programs pass on without asking for anything by them."""


def check_options(request: GenerateRequest, options: GenerationOptions) -> None:
    """Refuse generation arguments that ``hf`` does not know."""
    extra = options.extra.items()
    kept = {k: v for k, v in extra if k not in _WITHOUT_EFFECT or v not in (None, True, 1)}
    valid = (*_SAMPLING, *PENALTIES)
    replace(options, extra=kept).check_extra(valid, model="hf", task=request.task)


def token_id(name: str, value: Any, known: int) -> int | None:
    """A token of the model's vocabulary of ``known`` tokens."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < known:
        raise UsageError(
            f"Model 'hf': {name} must be the number of a token, 0 to {known - 1}, not {value!r}."
        )
    return value


def batch_rows(batch_size: Any) -> int | None:
    """Rows per pass, or None to find out how many fit."""
    return None if batch_size is None else BATCH_SIZE.apply("batch_size", batch_size, "hf")


def auto_batch(rows: int | None, most_rows: int, device: Any) -> AutoBatch:
    import torch

    if device.type == "cpu":  # larger passes are no faster there, and hold more padding
        return AutoBatch(rows, most_rows=most_rows, start=1024, most=2048)
    frees = torch.cuda.empty_cache if device.type == "cuda" else torch.mps.empty_cache
    return AutoBatch(rows, most_rows=most_rows, start=4096, most=2**18, frees=frees)


def chat_arguments(variables: Any, enable_thinking: bool | None) -> dict[str, Any]:
    """Variables for the chat template."""
    if isinstance(variables, str):
        variables = json_object("chat_template_args", variables, '{"enable_thinking": false}')
    if variables is not None and not isinstance(variables, Mapping):
        raise UsageError(f"chat_template_args must be names with values, not {variables!r}.")
    arguments = dict(variables or {})
    if enable_thinking is not None:
        arguments["enable_thinking"] = enable_thinking
    return arguments


def json_object(name: str, text: str, example: str) -> Any:
    """The value of an argument that is written as JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(
            f"{name}={text!r} is not a JSON object ({error}). Write {name}={example}."
        ) from error


def quantizing(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those arguments that say how weights are quantised while they are loaded."""
    names = ("load_in_4bit", "load_in_8bit", "quantization_config", *_4BIT, *_8BIT)
    return {name: arguments[name] for name in names if name in arguments}


def check_foreign(foreign: Mapping[str, Any], valid: Sequence[str]) -> None:
    """Refuse arguments that ``hf`` does not take; those that ask for nothing are accepted."""
    for name, value in foreign.items():
        asks = value not in ((None, False, "", True) if name in GPTQ else (None, False, ""))
        if name not in _TAKEN and (asks or name not in _ABSENT):
            raise UsageError(
                f"Model 'hf' has no argument {name!r}.{did_you_mean(name, [*valid, *_TAKEN])} Its "
                f"arguments: {listing(valid)}. A token comes from HF_TOKEN; for what only loading can "
                "do, load the model yourself and give it as pretrained."
            )


def read_quantization(arguments: Mapping[str, Any]) -> Mapping[str, Any] | Any:
    """The settings of ``bitsandbytes`` for the weights; None if there are none.

    ``quantization_config`` is used as it is: an object of ``transformers``, or its settings.
    """
    settings = {name: value for name, value in arguments.items() if value not in (None, False, "")}
    config = settings.pop("quantization_config", None)
    if isinstance(config, str):
        config = json_object("quantization_config", config, '{"load_in_4bit": true}')
    bits = [name for name in ("load_in_4bit", "load_in_8bit") if name in settings]
    if settings and (config is not None or len(bits) != 1):
        raise UsageError(
            f"{listing(sorted(settings))}: give either load_in_4bit=true with bnb_4bit_… or "
            "load_in_8bit=true with llm_int8_…, or quantization_config, which says everything."
        )
    if (dtype := settings.get("bnb_4bit_compute_dtype")) is not None:
        settings["bnb_4bit_compute_dtype"] = dtype_name(dtype)
    return config or settings or None


def read_max_memory(limits: Any, per_gpu: Any, cpu: Any) -> dict[int | str, Any] | None:
    """Device → the memory that weights may take there, such as ``10GiB``; None by default."""
    if isinstance(limits, str):
        limits = json_object("max_memory", limits, '{"0": "10GiB", "cpu": "30GiB"}')
    known: dict[int | str, Any] = {
        int(device) if str(device).isdecimal() else str(device): size
        for device, size in dict(limits or {}).items()
    }
    if per_gpu:
        import torch

        known = dict.fromkeys(range(torch.cuda.device_count()), per_gpu) | known
    return ({"cpu": cpu} if cpu else {}) | known or None


def check_values(model_args: Mapping[str, Any]) -> None:
    """Refuse values that are wrong whatever the model."""
    for name in ("dtype", "softmax_dtype"):
        dtype_name(model_args.get(name))
    read_backend(model_args.get("backend") or "default", None)
    read_quantization(quantizing(model_args))
    read_max_memory(model_args.get("max_memory"), None, None)
    chat_arguments(model_args.get("chat_template_args"), model_args.get("enable_thinking"))


# -- of the model itself --------------------------------------------------------------------


def read_dtype(dtype: Any) -> Any:
    """A dtype by its name, such as ``bfloat16``, as ``transformers`` takes it."""
    import torch

    if isinstance(dtype, torch.dtype):
        return dtype
    name = dtype_name(dtype)
    return "auto" if name == "auto" else getattr(torch, name)


def dtype_name(dtype: Any) -> str:
    """The name of a dtype in ``torch``, or ``auto``, which None means as well."""
    name = "auto" if dtype is None else str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise UsageError(
            f"Model 'hf' has no dtype {dtype!r}.{did_you_mean(name, DTYPES)} "
            f"Valid: {listing(DTYPES)}."
        )
    return DTYPES[name]


def read_softmax_dtype(dtype: Any) -> Any:
    """The precision of log-probs; None for the usual one, float32."""
    if dtype is None:
        return None
    import torch

    precision = read_dtype(dtype)
    return None if precision in ("auto", torch.float32) else precision


def launched_rank() -> int:
    """Which process of ``torchrun`` or ``accelerate launch`` this is; 0 for the first or only one."""
    rank = os.environ.get("RANK", "").strip()
    return int(rank) if rank.isdecimal() else 0


def torch_device(device: Any) -> Any:
    """A device of ``torch``, also given by name."""
    import torch

    return torch.device(device)


def path_inside(pretrained: Any, name: str | None) -> Any:
    """The path of a ``subfolder`` or ``gguf_file`` in the folder ``pretrained``."""
    return str(Path(str(pretrained)).expanduser() / name) if name else pretrained


def read_device(device: Any) -> Any:
    """The named device, else a GPU if there is one, else the CPU.

    If there is no GPU at all, one that is named means the CPU, with a warning.
    """
    import torch

    has_gpu = torch.cuda.is_available()
    if device is None:
        return torch.device(
            "cuda" if has_gpu else "mps" if torch.backends.mps.is_available() else "cpu"
        )
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UsageError(f"{device!r} is not a device. torch says:\n{error}") from error
    if known.type == "cuda" and not has_gpu:
        warnings.warn(
            f"device={device} was not used: no GPU is visible here, so the model runs on the CPU.",
            LmEvalWarning,
            stacklevel=2,
        )
        return torch.device("cpu")
    return known


def window_of(config: Any, tokenizer: Any) -> int:
    """The most tokens that the model reads, by its configuration, else 2048."""
    positions = None if config is None else _positions(config)
    if positions is not None:
        return positions
    limit = getattr(tokenizer, "model_max_length", None)
    return int(limit) if isinstance(limit, int) and 0 < limit < 10**12 else 2048


def _positions(config: Any) -> int | None:
    text = config.get_text_config(decoder=True)
    for name in _POSITIONS:
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return None


def read_window(length: int | None, config: Any, tokenizer: Any, *, taken: int = 0) -> int:
    """The window in tokens: ``length`` if the model has positions for it; without, the model's own.

    ``taken`` positions go to tokens that come before every text.
    """
    longest = window_of(config, tokenizer) - taken
    if length is None or config is None:
        return length or longest
    text = config.get_text_config(decoder=True)
    extends = any(getattr(text, name, None) for name in _POSITIONS_BY_RULE)
    is_known = type(text).__module__.startswith(
        "transformers."
    )  # else it may have a rule of its own
    if length > longest and _positions(config) and is_known and not extends:
        raise UsageError(
            f"max_length={length}, but a model of type {text.model_type!r} with {longest} positions "
            f"reads no more. Give at most max_length={longest}."
        )
    return length


def read_backend(backend: str, config: Any) -> Literal["causal", "seq2seq"]:
    """``causal`` or ``seq2seq``; ``default`` is what the configuration says."""
    kinds = ("default", "causal", "seq2seq")
    if backend not in kinds:
        raise UsageError(
            f"Model 'hf' has no backend {backend!r}.{did_you_mean(str(backend), kinds)} "
            f"Valid: {listing(kinds)}."
        )
    if backend != "default":
        return "seq2seq" if backend == "seq2seq" else "causal"
    return "seq2seq" if getattr(config, "is_encoder_decoder", False) else "causal"
