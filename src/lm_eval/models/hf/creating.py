"""Loading by the methods that programs written for EleutherAI's ``HFLM`` override.

Where a subclass has its own ``_get_config``, ``_get_backend``, ``_create_tokenizer`` or
``_create_model``, all four are called in the harness's order, and what they leave in the model's
attributes is what is evaluated.
"""

from __future__ import annotations

from abc import ABC
from dataclasses import replace
from typing import Any

from lm_eval.errors import ModelError
from lm_eval.models.base import overridden
from lm_eval.models.hf.harness import HFMethods
from lm_eval.models.hf.loading import (
    LoadedModel,
    LoadOptions,
    find_tokenizer,
    load,
    load_config,
    load_tokenizer,
)
from lm_eval.models.hf.options import read_backend, read_device
from lm_eval.models.hf.sources import converted, find_source, is_object

_METHODS = ("_get_config", "_get_backend", "_create_tokenizer", "_create_model")


class CreatingMethods(HFMethods, ABC):
    """The part of ``HFLM`` that loads."""

    _wanted: LoadOptions

    def _load(self, wanted: LoadOptions) -> LoadedModel:
        """The model and its tokenizer, by the methods of a subclass where it has any."""
        self._wanted = wanted
        if is_object(wanted.pretrained) or not overridden(self, _METHODS):
            return load(wanted)
        return self._load_by_methods(wanted)

    def _load_by_methods(self, wanted: LoadOptions) -> LoadedModel:
        name, trusts = wanted.pretrained, wanted.trust_remote_code
        self._device = read_device(wanted.device)
        files = {"revision": wanted.revision or "main", "trust_remote_code": trusts}
        self._get_config(name, **files, gguf_file=None, subfolder="")
        self._get_backend(config=self.config, backend=wanted.backend, trust_remote_code=trusts)
        self._create_tokenizer(
            name,
            wanted.tokenizer,
            **files,
            use_fast_tokenizer=True,
            gguf_file=None,
            add_bos_token=self.add_bos_token,
            subfolder="",
        )
        self._create_model(
            pretrained=name,
            dtype=wanted.dtype,
            **files,
            parallelize=wanted.device_map is not None,
            gpus=0,
            max_memory_per_gpu=None,
            max_cpu_memory=None,
            offload_folder="./offload",
            peft=wanted.peft,
            delta=None,
            autogptq=False,
            gptqmodel=False,
            gguf_file=None,
            quantization_config=None,
            subfolder="",
        )
        for attribute, maker in (("_model", "_create_model"), ("tokenizer", "_create_tokenizer")):
            if getattr(self, attribute) is None:
                raise ModelError(
                    f"{type(self).__name__}.{maker} left no {attribute}. Let it set "
                    f"self.{attribute}."
                )
        return load(
            LoadOptions(self.model, tokenizer=self.tokenizer, backend=self.backend),
        )

    def _get_config(self, pretrained: str, **_: Any) -> None:
        """Set ``_config``."""
        source = converted(find_source(pretrained, self._wanted.revision))
        self._config = load_config(source, trust_remote_code=self._wanted.trust_remote_code)

    def _get_backend(self, config: Any, backend: str = "default", **_: Any) -> None:
        """Set ``backend``, and ``AUTO_MODEL_CLASS`` where a subclass has none."""
        import transformers

        self.backend = read_backend(backend, config)
        if self.AUTO_MODEL_CLASS is None:
            self.AUTO_MODEL_CLASS = (
                transformers.AutoModelForSeq2SeqLM
                if self.backend == "seq2seq"
                else transformers.AutoModelForCausalLM
            )

    def _create_tokenizer(self, pretrained: Any, tokenizer: Any, **_: Any) -> None:
        """Set ``tokenizer``."""
        if is_object(tokenizer):
            self.tokenizer = tokenizer
            return
        model = converted(find_source(pretrained, self._wanted.revision))
        source = find_tokenizer(tokenizer, model)
        trusts = self._wanted.trust_remote_code
        self.tokenizer = load_tokenizer(source, trust_remote_code=trusts)

    def _create_model(self, pretrained: str, **_: Any) -> None:
        """Set ``_model``."""
        wanted = replace(self._wanted, pretrained=pretrained, tokenizer=self.tokenizer)
        self._model = load(wanted).model
