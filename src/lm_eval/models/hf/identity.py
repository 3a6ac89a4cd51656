"""What identifies and describes a model of ``transformers``: digests, facts, warnings.

A model is identified by its files, or, if a program passed it in, by its modules and weights.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lm_eval.errors import listing
from lm_eval.models.base import is_ours
from lm_eval.models.hf.endings import Endings
from lm_eval.models.hf.engine import HFEngine
from lm_eval.models.hf.generation import unused_settings
from lm_eval.models.hf.harness import HFMethods
from lm_eval.models.hf.loading import LoadedModel
from lm_eval.models.hf.sources import ModelSource, source_of_tokenizer
from lm_eval.models.local.weights import file_digest, file_digests
from lm_eval.models.overrides import class_path

_SPECIAL = ("bos", "eos", "pad")
_WEIGHTS = ("*.safetensors", "*.bin", "*.index.json")
_DIGESTED_FILES = {
    "pretrained": ("config.json", *_WEIGHTS),
    "tokenizer": ("tokenizer*.json", "tokenizer.model", "vocab.*", "merges.txt", "*.jinja"),
    "peft": ("adapter_config.json", *_WEIGHTS),
}


class HFFacts(HFMethods, ABC):
    """Identity, description and warnings of ``HFLM``."""

    loaded: LoadedModel | None = None
    """What ``__init__`` loaded; None in a subclass that does not call it."""
    prefix_cache = True
    is_untouched = False
    """Whether only the run has used this model, so that its files identify it."""
    _unused_device: Any = None
    _unused_dtype: str | None = None
    _quantization: Any = None
    _engine: tuple[Any, HFEngine] | None = None
    _known_facts: dict[str, Any] | None = None
    _called: Mapping[str, None] = {}
    """Methods of a program that were called in place of our own."""

    @property
    @abstractmethod
    def _own_length(self) -> int: ...

    @property
    def _name(self) -> str:
        if self.loaded is not None and self.model is self.loaded.model:
            return self.loaded.source.name
        return str(getattr(self.model, "name_or_path", "") or type(self.model).__name__)

    @property
    def tokenizer_name(self) -> str:
        if self.loaded is not None and self.tokenizer is self.loaded.tokenizer:
            return self.loaded.tokenizer_source.name
        return str(getattr(self.tokenizer, "name_or_path", "") or type(self.tokenizer).__name__)

    def _special_token(self, name: str) -> list[str | None]:
        """The text and the number of one of the tokenizer's special tokens, as the harness has them."""
        text = getattr(self.tokenizer, f"{name}_token", None)
        return [text, str(getattr(self.tokenizer, f"{name}_token_id", None))]

    @property
    def warnings(self) -> list[str]:
        """What a reader of the results should know."""
        notes = self._window_notes(self._name, trained=self._own_length)
        if self._unused_device is not None:
            notes.append(
                f"device={self._unused_device} was not used: device_map and parallelize say where a "
                "model goes, and one that is loaded already stays where it is."
            )
        precision = str(getattr(self.model, "dtype", "not known")).removeprefix("torch.")
        if self._unused_dtype not in (None, precision):
            notes.append(
                f"dtype={self._unused_dtype} was not used: a model that is loaded already stays in "
                f"its precision, {precision}."
            )
        if self._called:
            notes.append(
                f"{listing(list(self._called))} of {type(self).__name__} answered, called in the "
                "order of EleutherAI's HFLM, which takes longer than hf does by itself."
            )
        if getattr(self.model, "training", False):
            notes.append("The model is in training mode: dropout may change its answers.")
        if self._engine is not None:
            notes += self._engine[1].notes
        return notes

    def identity(self) -> dict[str, Any]:
        """What identifies the model: its files, or its weights if a program has used it."""
        if self._known_facts is None or not self.is_untouched:
            self._known_facts = self._facts()
        return dict(self._known_facts)

    def _facts(self) -> dict[str, Any]:
        loaded, name, digest = self.loaded, self._name, None
        tokenizer = source_of_tokenizer(self.tokenizer)
        if loaded is not None and self.tokenizer is loaded.tokenizer:
            tokenizer = loaded.tokenizer_source
        if loaded is not None and self.is_untouched:
            digest = source_digest(loaded.source)
        adapter = loaded and loaded.adapter
        is_local = loaded is None or loaded.source.is_local
        special = {
            name: str(value)
            for name in ("softmax_dtype", "mixed_precision_dtype", "truncation")
            if (value := getattr(self, name))
        }
        if self._quantization is not None:
            special["quantization"] = _settings(self._quantization)
        return {
            "model": "hf",
            "pretrained": shown_name(name, is_local=is_local),
            "digest": digest or weights_digest(self.model),
            "tokenizer": source_digest(tokenizer, "tokenizer"),
            "peft": adapter and source_digest(adapter, "peft"),
            "backend": self.backend,
            "dtype": str(getattr(self.model, "dtype", "")).removeprefix("torch."),
            "max_length": self.max_length,
            "max_gen_toks": self.max_gen_toks,
            "adds_bos": self.tokens.adds_bos,
            "prefix_token_id": self.prefix_token_id,
            "chat_template": self.chat_template,
            "chat_template_args": dict(self.tokens.chat_arguments),
            "think_end_token": Endings.of(
                self.model, self.tokenizer, self.think_end_token
            ).think_end,
            "attn_implementation": getattr(self.config, "_attn_implementation", None),
            "seed": self.seed,
            **special,
        }

    def describe(self) -> dict[str, Any]:
        import torch
        import transformers

        facts = dict(self._known_facts or self.identity())
        template = facts.pop("chat_template")
        engine = self.engine
        size = sum(weight.numel() for weight in getattr(self.model, "parameters", list)())
        if engine is not None:
            facts |= engine.tokens_counted
        return facts | {
            "class": type(self.model).__name__,
            **({} if is_ours(type(self)) else {"subclass": class_path(type(self))}),
            "revision": self.loaded and self.loaded.source.revision,
            "tokenizer_name": self.tokenizer_name,
            "n_params": size,
            "num_parameters": size,  # the harness's name of it
            "sha": (self.loaded and self.loaded.source.commit) or "",
            **{f"tokenizer_{name}_token": self._special_token(name) for name in _SPECIAL},
            "eot_token_id": getattr(self.tokenizer, "eos_token_id", None),
            "device": str(self.device),
            "batch_rows": engine and engine.scoring.rows,
            "batch_tokens": engine and engine.scoring.tokens,
            "prefix_cache": self.prefix_cache,
            "generation_config_not_used": unused_settings(self.model),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "chat_template_sha256": template and hashlib.sha256(template.encode()).hexdigest(),
            "truncated_requests": self.truncated,
            "empty_continuations": self.empty_continuations,
        }


def _settings(quantization: Any) -> str:
    """How weights were quantised, on one line that is the same for the same settings."""
    if not isinstance(quantization, Mapping):
        quantization = quantization.to_diff_dict() if hasattr(quantization, "to_diff_dict") else {}
    return ", ".join(f"{name}={value}" for name, value in sorted(quantization.items()))


def shown_name(name: str, *, is_local: bool) -> str:
    """A hub name unchanged; of a path its last part, because the digest identifies the files."""
    return Path(name).name if is_local else name


# Digests


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
