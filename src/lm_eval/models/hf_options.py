"""What the arguments of ``hf`` and of its generation requests mean, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lm_eval.errors import UsageError, did_you_mean, listing
from lm_eval.models.auto_batch import AutoBatch
from lm_eval.models.base import GenerationOptions
from lm_eval.requests import GenerateRequest

_SAMPLING = ("top_p", "top_k", "seed")
PENALTIES = ("repetition_penalty", "no_repeat_ngram_size")
_WITHOUT_EFFECT = ("num_beams", "num_return_sequences", "use_cache")
_GENERATION_OPTIONS = ("until", "max_gen_toks", "do_sample", "temperature", *_SAMPLING, *PENALTIES)


def check_options(request: GenerateRequest, options: GenerationOptions) -> None:
    for name, value in options.extra.items():
        if name in _WITHOUT_EFFECT and value in (None, True, 1):
            continue
        if name not in (*_SAMPLING, *PENALTIES):
            raise UsageError(
                f"Model 'hf' has no generation argument {name}={value!r} (task {request.task!r})."
                f"{did_you_mean(name, _GENERATION_OPTIONS)} Valid: {listing(_GENERATION_OPTIONS)}."
            )


def positive(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"Model 'hf': {name} must be a whole number above 0, not {value!r}.")
    return value


def batch_rows(batch_size: Any) -> int | None:
    """Rows per pass, or None to find them; ``auto:4`` of the harness is ``auto``."""
    if batch_size is None or (isinstance(batch_size, str) and batch_size.startswith("auto")):
        return None
    text = str(batch_size)
    return positive("batch_size", int(text) if text.isdecimal() else batch_size)


def auto_batch(rows: int | None, most_rows: int, device: Any) -> AutoBatch:
    import torch

    most_rows = positive("max_batch_size", most_rows) or 64
    if device.type == "cpu":  # beyond some thousand tokens a CPU only gets slower
        return AutoBatch(rows, most_rows=most_rows, start=1024, most=4096)
    frees = torch.cuda.empty_cache if device.type == "cuda" else torch.mps.empty_cache
    return AutoBatch(rows, most_rows=most_rows, start=4096, most=2**18, frees=frees)


def chat_arguments(given: Any, enable_thinking: bool | None) -> dict[str, Any]:
    """Variables for the chat template."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise UsageError(
                f"chat_template_args={given!r} is no JSON object ({error}). Write "
                'chat_template_args={"enable_thinking": false}.'
            ) from error
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(f"chat_template_args must be names with values, not {given!r}.")
    arguments = dict(given or {})
    if enable_thinking is not None:
        arguments["enable_thinking"] = enable_thinking
    return arguments
