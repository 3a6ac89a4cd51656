"""What identifies a model of ``transformers``: digests of its files, or of its modules and weights."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_eval.models.hf.sources import ModelSource
from lm_eval.models.local.weights import file_digest, file_digests

_WEIGHTS = ("*.safetensors", "*.bin", "*.index.json")
_DIGESTED_FILES = {
    "pretrained": ("config.json", *_WEIGHTS),
    "tokenizer": ("tokenizer*.json", "tokenizer.model", "vocab.*", "merges.txt", "*.jinja"),
    "peft": ("adapter_config.json", *_WEIGHTS),
}


def quantization_line(quantization: Any) -> str:
    """How weights were quantised, on one line that is the same for the same settings."""
    if not isinstance(quantization, Mapping):
        quantization = quantization.to_diff_dict() if hasattr(quantization, "to_diff_dict") else {}
    return ", ".join(f"{name}={value}" for name, value in sorted(quantization.items()))


def shown_name(name: str, *, is_local: bool) -> str:
    """A hub name unchanged; of a path its last part, because the digest identifies the files."""
    return Path(name).name if is_local else name


def source_digest(source: ModelSource, kind: str = "pretrained") -> str:
    """Identifies the files of a model, tokenizer or adapter: the hub's commit, or a hash over them."""
    if source.in_memory is not None:
        return source.in_memory
    if not source.is_local:
        return f"commit:{source.commit}"
    if source.made_from is not None:
        return file_digest(Path(source.made_from))
    folder = Path(source.at)
    if source.gguf_file is not None:
        return file_digest(folder / source.gguf_file)
    files = sorted({file for pattern in _DIGESTED_FILES[kind] for file in folder.glob(pattern)})
    digests = file_digests(file for file in files if file.is_file())
    parts = {file.name: digest for file, digest in digests.items()}
    return f"sha256:{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}"


def weights_digest(model: Any) -> str:
    """Identifies a model as it is now: its modules and all their weights."""
    import torch

    if not hasattr(model, "modules") or any(map(_is_patched, model.modules())):
        return f"unknown:{uuid.uuid4().hex}"  # nobody can tell what a hook or a function does
    parts = f"{getattr(model, 'config', '')!r}{model!r}"
    digest = hashlib.sha256(parts.encode())
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        if weight.is_meta:  # on disk: its values are unknown, so no stored answer may be used
            return f"unknown:{uuid.uuid4().hex}"
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}".encode())
        digest.update(weight.detach().cpu().reshape(-1).contiguous().view(torch.uint8).numpy())
    return f"sha256:{digest.hexdigest()}"


def _is_patched(module: Any) -> bool:
    """Whether a program changes what a module computes; ``accelerate`` only moves it."""
    has_hooks = bool(module._forward_hooks or module._forward_pre_hooks)
    return has_hooks or ("forward" in vars(module) and not hasattr(module, "_hf_hook"))
