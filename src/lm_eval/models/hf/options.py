"""The arguments of ``hf`` and of its generation requests, checked and turned into what they mean.

``check_values`` needs neither weights nor, for ordinary values, ``torch``: a dry run uses it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
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

_DEVICES = ("cpu", "cuda", "mps", "xpu", "npu", "hpu", "mtia", "xla", "meta")
"""Kinds of devices that are known without ``torch``."""
DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")

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
_QUANT_TYPES = ("nf4", "fp4")
_SIZE = re.compile(r"\d+(\.\d+)?\s*[KMG]i?B", re.IGNORECASE)
_SPREAD = "device_map=auto spreads a model over the GPUs there are, as far as their memory goes."
_FOREIGN = {
    **dict.fromkeys(GPTQ, "A GPTQ checkpoint needs no argument: its config.json says what it is."),
    "tp_plan": _SPREAD,
    "delta": "Add the delta weights to the model and save it; then give its folder.",
    "subfolder": "",
    **dict.fromkeys(("token", "use_auth_token"), "Set HF_TOKEN, or run `hf auth login`."),
    "use_accelerate": _SPREAD,
}
"""Arguments that programs give and ``hf`` does not have → what to do instead."""


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
    """Refuse arguments that ``hf`` does not take, and say what to do instead; a value that asks for
    nothing is accepted, because programs pass on every argument of EleutherAI's ``HFLM``.
    """
    for name, value in foreign.items():
        if name in (*_4BIT, *_8BIT, "subfolder") or (name in GPTQ and value is True):
            continue
        if name in ("torch_dtype", "use_safetensors", "use_cache", *PASSED):
            continue  # dtype, and what decides only how fast weights and prefixes are read
        if name not in _FOREIGN:
            raise UsageError(
                f"Model 'hf' has no argument {name!r}."
                f"{did_you_mean(name, [*valid, *_4BIT, *_8BIT, *_FOREIGN])} "
                f"Its arguments: {listing(valid)}."
            )
        if value not in (None, False, ""):
            raise UsageError(f"Model 'hf' does not take {name}={value}. {_FOREIGN[name]}")


def read_quantization(arguments: Mapping[str, Any]) -> Mapping[str, Any] | Any:
    """The settings of ``bitsandbytes`` for the weights; None if there are none.

    ``quantization_config`` is used as it is: an object of ``transformers``, or its settings.
    """
    settings = {name: value for name, value in arguments.items() if value not in (None, False, "")}
    config = settings.pop("quantization_config", None)
    if isinstance(config, str):
        config = json_object("quantization_config", config, '{"load_in_4bit": true}')
    names = [name for name in ("load_in_4bit", "load_in_8bit", *_4BIT, *_8BIT) if name in settings]
    if config is not None:
        if names:
            raise UsageError(
                f"quantization_config says everything: leave {listing(names)} out, or write it there."
            )
        return config
    if "load_in_4bit" in settings and "load_in_8bit" in settings:
        raise UsageError("load_in_4bit and load_in_8bit cannot both be true. Give one of them.")
    for bits, allowed in (("load_in_4bit", _4BIT), ("load_in_8bit", _8BIT)):
        if bits not in settings and (odd := [name for name in names if name in allowed]):
            raise UsageError(f"{listing(odd)} goes with {bits}=true, which is not given.")
    kind = str(settings.get("bnb_4bit_quant_type", "nf4"))
    if kind not in _QUANT_TYPES:
        raise UsageError(
            f"bnb_4bit_quant_type={kind} is not known.{did_you_mean(kind, _QUANT_TYPES)} "
            f"Valid: {listing(_QUANT_TYPES)}."
        )
    if (dtype := settings.get("bnb_4bit_compute_dtype")) is not None:
        settings["bnb_4bit_compute_dtype"] = dtype_name(dtype)
    return {name: settings[name] for name in names} or None


def read_max_memory(limits: Any, per_gpu: Any, cpu: Any) -> dict[int | str, Any] | None:
    """Device → the memory that weights may take there, such as ``10GiB``; None by default."""
    if isinstance(limits, str):
        limits = json_object("max_memory", limits, '{"0": "10GiB", "cpu": "30GiB"}')
    if limits is not None and not isinstance(limits, Mapping):
        raise UsageError(
            f"max_memory must say how much each device takes, not {limits!r}: "
            'max_memory={"0": "10GiB", "cpu": "30GiB"}.'
        )
    if limits is not None and (per_gpu or cpu):
        raise UsageError(
            "max_memory says everything: leave max_memory_per_gpu and max_cpu_memory out."
        )
    known: dict[int | str, Any] = {
        int(device) if str(device).isdecimal() else str(device): size
        for device, size in dict(limits or {}).items()
    }
    _check_sizes("max_memory", known.values())
    _check_sizes("max_memory_per_gpu", [per_gpu])
    _check_sizes("max_cpu_memory", [cpu])
    if per_gpu:
        import torch

        known |= dict.fromkeys(range(torch.cuda.device_count()), per_gpu)
    return known | ({"cpu": cpu} if cpu else {}) or None


def _check_sizes(name: str, sizes: Iterable[Any]) -> None:
    """Refuse what ``accelerate`` does not understand as an amount of memory."""
    for size in sizes:
        is_size = size >= 0 if isinstance(size, int) else bool(_SIZE.fullmatch(str(size)))
        if size is not None and not is_size:
            raise UsageError(
                f"{name} has {size!r}, which is not an amount of memory. Write bytes or a number with "
                "its unit, such as 10GiB or 500MB."
            )


def check_values(model_args: Mapping[str, Any]) -> None:
    """Refuse values that are wrong whatever the model; ``torch`` is asked only about odd devices."""
    plain = {name: value for name, value in model_args.items() if not _is_of_torch(value)}
    for name, check in _CHECKS.items():
        if name in plain:
            check(plain[name])
    read_quantization(quantizing(plain))
    path_inside(plain.get("pretrained"), "subfolder", plain.get("subfolder"))
    _check_sizes("max_memory_per_gpu", [plain.get("max_memory_per_gpu")])
    read_max_memory(plain.get("max_memory"), None, plain.get("max_cpu_memory"))
    chat_arguments(plain.get("chat_template_args"), plain.get("enable_thinking"))


def _is_of_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch"


def _check_device(device: Any) -> None:
    """Refuse what is not a device; whether there is one shows on the machine of the run."""
    if device is not None and not _is_named(device):
        read_device(device)


def _check_device_map(device_map: Any) -> None:
    if not _is_named(device_map):
        read_device_map(device_map)


def _is_named(device: Any) -> bool:
    """Whether this names a kind of device; assumed of any text if ``torch`` is not installed."""
    kind = str(device).partition(":")[0]
    return kind in _DEVICES or importlib.util.find_spec("torch") is None


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


_IN_A_FOLDER = {
    "subfolder": (
        "folder",
        "Download the model and give the folder itself: pretrained=FOLDER/SUBFOLDER.",
    ),
    "gguf_file": ("file", "Download the file, and give its path: pretrained=FILE.gguf."),
}


def path_inside(pretrained: Any, argument: str, name: str | None) -> Any:
    """The path of a ``subfolder`` or ``gguf_file`` in the folder ``pretrained``; else ``pretrained``."""
    if not name:
        return pretrained
    folder = Path(str(pretrained)).expanduser()
    if callable(pretrained) or not folder.is_dir():
        what, advice = _IN_A_FOLDER[argument]
        raise UsageError(
            f"{argument}={name} is a {what} in the folder pretrained=…, and {pretrained} is not a "
            f"folder here. {advice}"
        )
    return str(folder / name)


def read_device(device: Any) -> Any:
    """The named device, else a GPU if there is one, else the CPU.

    If there is no GPU at all, one that is named means the CPU, with a warning.
    """
    import torch

    has_mps = torch.backends.mps.is_available()
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device is None:
        return torch.device("cuda" if count else "mps" if has_mps else "cpu")
    here = ["cpu", *(["cuda"] if count else []), *[f"cuda:{n}" for n in range(count)]]
    here += ["mps"] if has_mps else []
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UsageError(
            f"{device!r} is not a device.{did_you_mean(str(device), here)} Here: {listing(here)}."
        ) from error
    if known.type == "cuda" and not count:
        warnings.warn(
            f"device={device} was not used: no GPU is visible here, so the model runs on the CPU.",
            LmEvalWarning,
            stacklevel=2,
        )
        return torch.device("cpu")
    if known.type in ("cpu", "cuda", "mps") and str(known) not in here:
        raise UsageError(f"There is no device {device!r} here. There is: {listing(here)}.")
    return known


def read_device_map(device_map: Any) -> Any:
    """How to spread the model: one of the rules of ``accelerate``, a device, or layers with devices."""
    if device_map is None or isinstance(device_map, Mapping) or device_map in DEVICE_MAPS:
        return device_map
    try:
        return str(read_device(device_map))
    except UsageError as error:
        raise UsageError(
            f"Model 'hf' has no device_map={device_map}."
            f"{did_you_mean(str(device_map), DEVICE_MAPS)} Valid: {listing(DEVICE_MAPS)}, or a device."
        ) from error


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


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "backend": partial(read_backend, config=None),
    "device": _check_device,
    "device_map": _check_device_map,
    "dtype": dtype_name,
    "softmax_dtype": dtype_name,
}
