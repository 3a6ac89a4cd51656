"""Models and tokenizers that a program made itself and hands to ``hf`` as objects."""

from __future__ import annotations

import copy
import hashlib
import json
import uuid
from typing import Any

from lm_eval.errors import UsageError, listing
from lm_eval.models.hf.sources import ModelSource

_NEEDED = ("config", "generate", "get_input_embeddings", "device")


def is_object(given: Any) -> bool:
    """Whether this is a model or tokenizer itself, not the name of one."""
    return callable(given)


def check_model(model: Any, decided: dict[str, Any]) -> None:
    """Refuse what is no model of ``transformers``, and arguments that only loading could obey."""
    if any(not hasattr(model, name) for name in _NEEDED):
        raise UsageError(
            f"pretrained is a {type(model).__name__}, which is no language model of transformers. Give "
            "such a model, a hub name, a folder, or a .gguf file."
        )
    given = [name for name, value in decided.items() if value not in (None, False, "auto")]
    if given:
        raise UsageError(
            f"pretrained is a model that is loaded already, so {listing(given)} cannot be obeyed. "
            f"Leave {'it' if len(given) == 1 else 'them'} out, or give a folder or hub name."
        )


def own_settings(model: Any) -> Any:
    """The same model, weights and all, whose settings for generation can be changed apart."""
    return copy.copy(model)


def source_of_model(model: Any) -> ModelSource:
    """What identifies a model: its name, if it has one, and its weights."""
    name = getattr(model, "name_or_path", "") or type(model).__name__
    return ModelSource(name, name, in_memory=_weights_digest(model))


def source_of_tokenizer(tokenizer: Any) -> ModelSource:
    """What identifies a tokenizer: its name, if it has one, and all that decides its tokens."""
    name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = backend.to_str() if backend else json.dumps(tokenizer.get_vocab(), sort_keys=True)
    return ModelSource(name, name, in_memory=f"sha256:{hashlib.sha256(rules.encode()).hexdigest()}")


def named_tokenizer(model: Any) -> str:
    """The name under which the model's own tokenizer is to be found."""
    name = str(getattr(model, "name_or_path", ""))
    if not name:
        raise UsageError(
            f"pretrained is a {type(model).__name__} that does not say where it came from. Give its "
            "tokenizer as well: tokenizer= an object, a folder or a hub name."
        )
    return name


def _weights_digest(model: Any) -> str:
    import torch

    digest = hashlib.sha256(repr(model.config).encode())
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        if weight.is_meta:  # on disk: what it is cannot be said, so no kept answer may be used
            return f"unknown:{uuid.uuid4().hex}"
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy())
    return f"sha256:{digest.hexdigest()}"
