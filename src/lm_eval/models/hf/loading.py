"""Models and tokenizers of ``transformers``, loaded, with errors that say what to do.

Nothing is loaded halfway: weights that are missing are an error, not random numbers.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from lm_eval.errors import LmEvalError, MissingExtraError, ModelError, UsageError, listing
from lm_eval.models.hf.forward import virtual_tokens
from lm_eval.models.hf.options import read_backend, read_device, read_dtype
from lm_eval.models.hf.sources import (
    ModelSource,
    check_model,
    converted,
    find_source,
    is_object,
    named_tokenizer,
    source_of_model,
    source_of_tokenizer,
)

INSTALL_EXTRA = "pip install 'lm-eval-formats[hf]'"


@dataclass(frozen=True)
class LoadOptions:
    """What to load, by the arguments of ``hf``."""

    pretrained: Any
    revision: str | None = None
    tokenizer: Any = None
    dtype: Any = "auto"
    device: Any = None
    device_map: Any = None
    backend: str = "default"
    trust_remote_code: bool = False
    peft: str | None = None
    attn_implementation: str | None = None
    quantization: Any = None
    max_memory: Mapping[int | str, Any] | None = None
    offload_folder: str | None = None
    passed: Mapping[str, Any] = field(default_factory=dict)
    """More arguments for ``from_pretrained`` of the model."""


@dataclass(frozen=True)
class LoadedModel:
    """A model with its tokenizer, on its device."""

    model: Any
    tokenizer: Any
    config: Any
    backend: Literal["causal", "seq2seq"]
    device: Any
    source: ModelSource
    tokenizer_source: ModelSource
    adapter: ModelSource | None = None

    @property
    def vocabulary(self) -> int:
        """How many tokens the model knows."""
        table = getattr(self.model, "get_input_embeddings", None)
        return int(table().weight.shape[0]) if table else len(self.tokenizer)


def load(wanted: LoadOptions) -> LoadedModel:
    """The model and its tokenizer; whatever can be checked without the weights is checked first."""
    import_torch()
    if is_object(wanted.pretrained):
        return _adopt(wanted)
    dtype = read_dtype(wanted.dtype)
    device_map = wanted.device_map
    device = read_device(wanted.device) if device_map is None else None
    trusts = wanted.trust_remote_code
    is_offline = bool(wanted.passed.get("local_files_only"))
    source = find_source(wanted.pretrained, wanted.revision, is_offline=is_offline)
    adapter = None if wanted.peft is None else find_source(wanted.peft, kind="peft")
    source = converted(source, load_gguf)
    config = load_config(source, trust_remote_code=trusts)
    backend = read_backend(wanted.backend, config)
    tokenizer, tokenizer_source = _tokenizer(wanted, source)
    saved = _saved_quantization(config)
    quantization = _quantization(wanted.quantization, saved)
    if device is not None and (quantization or saved):
        device_map = {"": str(device)}  # quantised weights are not moved afterwards
    if quantization or saved:  # it would report the precision of every pass
        logging.getLogger("bitsandbytes").setLevel(logging.ERROR)
    model = load_model(
        source,
        backend=backend,
        dtype=dtype,
        trust_remote_code=trusts,
        device_map=device_map,
        attn_implementation=wanted.attn_implementation,
        quantization_config=quantization,
        max_memory=wanted.max_memory,
        offload_folder=wanted.offload_folder,
        **wanted.passed,
    )
    if adapter is not None:
        model = load_adapter(model, adapter)
    if device is not None and device_map is None:
        with _loading(source, f"weights to {device}"):
            model.to(device)
    loaded = LoadedModel(
        model,
        tokenizer,
        config,
        backend,
        device or _main_device(model),
        source,
        tokenizer_source,
        adapter,
    )
    check_vocabulary(loaded)
    return loaded


def _saved_quantization(config: Any) -> str | None:
    """The method by which the saved weights were quantised, if they were."""
    saved = getattr(config, "quantization_config", None)
    if saved is None:
        return None
    method = saved.get("quant_method") if isinstance(saved, Mapping) else saved.quant_method
    return str(getattr(method, "value", method))


def _quantization(settings: Any, saved: str | None) -> Any:
    """The settings as ``transformers`` takes them; refused if the weights are quantised already."""
    if settings is None:
        return None
    if saved is not None:
        raise UsageError(
            f"The weights are saved quantised ({saved}): they are loaded as they are, without "
            "load_in_4bit, load_in_8bit or quantization_config."
        )
    if not isinstance(settings, Mapping):
        return settings
    _, transformers = import_torch()
    if importlib.util.find_spec("bitsandbytes") is None:
        raise MissingExtraError(
            "load_in_4bit and load_in_8bit need the package bitsandbytes.",
            install="pip install -U bitsandbytes",
        )
    try:
        return transformers.BitsAndBytesConfig(**settings)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"The settings of bitsandbytes are wrong. It says:\n{said(error)}"
        ) from error


def _main_device(model: Any) -> Any:
    """The device of the inputs: for a model on several devices, the first that computes."""
    devices = list(getattr(model, "hf_device_map", {}).values())
    if not devices:
        return model.device
    torch, _ = import_torch()
    computes = [device for device in devices if device not in ("cpu", "disk")]
    return torch.device(computes[0] if computes else "cpu")


def _adopt(wanted: LoadOptions) -> LoadedModel:
    """A model object, left on its device and set to evaluation."""
    decided = ("revision", "dtype", "device_map", "peft", "attn_implementation", "quantization")
    values = {name: getattr(wanted, name) for name in decided} | dict(wanted.passed)
    check_model(wanted.pretrained, values)
    model = _without_wrapper(wanted.pretrained.eval())
    source = source_of_model(model)
    if wanted.tokenizer is None:
        wanted = replace(wanted, tokenizer=named_tokenizer(model))
    tokenizer, tokenizer_source = _tokenizer(wanted, source)
    backend = read_backend(wanted.backend, model.config)
    loaded = LoadedModel(
        model, tokenizer, model.config, backend, model.device, source, tokenizer_source
    )
    check_vocabulary(loaded)
    return loaded


def _tokenizer(wanted: LoadOptions, model: ModelSource) -> tuple[Any, ModelSource]:
    """The tokenizer and its source: an object as it is, else as ``find_tokenizer`` says."""
    if is_object(wanted.tokenizer):
        return wanted.tokenizer, source_of_tokenizer(wanted.tokenizer)
    source = find_tokenizer(wanted.tokenizer, model)
    return load_tokenizer(source, trust_remote_code=wanted.trust_remote_code), source


def _without_wrapper(adapted: Any) -> Any:
    """A model with an adapter's layers in place; its wrapper only where it puts tokens before texts."""
    if virtual_tokens(adapted) or not hasattr(adapted, "get_base_model"):
        return adapted
    return adapted.get_base_model()


def load_gguf(source: ModelSource) -> tuple[Any, Any]:
    """The model and the tokenizer of a GGUF file, to be converted."""
    model = load_model(source, backend="causal", dtype="auto", trust_remote_code=False)
    return model, load_tokenizer(source, trust_remote_code=False)


def import_torch() -> tuple[Any, Any]:
    """``(torch, transformers)``, or the line that installs them."""
    # Threads that spin while they wait starve each other on a busy machine: thirty times slower at a
    # load of 7 on 2 cores. OpenMP reads this once, when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtraError(
            f"Model 'hf' needs torch and transformers ({error}).", install=INSTALL_EXTRA
        ) from error
    return torch, transformers


def load_config(source: ModelSource, *, trust_remote_code: bool) -> Any:
    """The model's configuration."""
    _, transformers = import_torch()
    with _loading(source, "configuration"):
        return transformers.AutoConfig.from_pretrained(
            source.at, **source.arguments(trust_remote_code=trust_remote_code)
        )


def load_model(
    source: ModelSource, *, backend: str, dtype: Any, trust_remote_code: bool, **more: Any
) -> Any:
    """The model, ready for evaluation; ``more`` are arguments such as ``device_map``."""
    _, transformers = import_torch()
    kinds = {
        "causal": transformers.AutoModelForCausalLM,
        "seq2seq": transformers.AutoModelForSeq2SeqLM,
    }
    options = {name: value for name, value in more.items() if value is not None}
    with _loading(source, "weights"):
        model, info = kinds[backend].from_pretrained(
            source.at,
            **source.arguments(trust_remote_code=trust_remote_code, dtype=dtype, **options),
            output_loading_info=True,
        )
    missing = sorted(info.get("missing_keys") or ())
    if missing:
        raise ModelError(
            f"The weights of {source.name} lack {len(missing)} tensors that a "
            f"{type(model).__name__} has ({listing(missing, 4)}); transformers would fill them "
            "with random numbers. Give the whole model, or one made for this task."
        )
    return model.eval()


def find_tokenizer(name: str | None, model: ModelSource) -> ModelSource:
    """Where the tokenizer is: at the given name, else with the model."""
    if name is None:
        return model
    return converted(find_source(str(name), kind="tokenizer"))


def load_tokenizer(source: ModelSource, *, trust_remote_code: bool) -> Any:
    """The tokenizer, the fast one if there is one."""
    _, transformers = import_torch()
    with _loading(source, "tokenizer"):
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            source.at, **source.arguments(trust_remote_code=trust_remote_code)
        )
        tokens = tokenizer("An answer", add_special_tokens=False)["input_ids"]
        if set(tokens) <= {tokenizer.unk_token_id}:  # some releases make one up if there is none
            raise ValueError("a backend tokenizer without a vocabulary")
    return tokenizer


def load_adapter(model: Any, source: ModelSource) -> Any:
    """The model with a PEFT adapter on it, unmerged."""
    name = source.name
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError(
            f"peft={name} needs the package peft ({error}).", install="pip install -U peft"
        ) from error
    try:
        with _quiet():
            adapted = peft.PeftModel.from_pretrained(model, source.at)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ModelError(
            f"peft={name} does not fit {type(model).__name__}; was it trained on this model? peft "
            f"says:\n{said(error)}"
        ) from error
    _check_adapter_weights(adapted, source)
    return _without_wrapper(adapted).eval()


def _check_adapter_weights(adapted: Any, source: ModelSource) -> None:
    """Refuse an adapter that fits only in part: PEFT would leave out the rest."""
    from peft.utils import get_peft_model_state_dict, load_peft_weights

    saved = load_peft_weights(source.at, device="cpu")
    there = get_peft_model_state_dict(adapted)
    if odd := sorted(saved.keys() ^ there.keys()):
        raise ModelError(
            f"peft={source.name} does not fit the model: {len(saved.keys() & there.keys())} of its "
            f"{len(saved)} tensors have a place in it, of {len(there)} places (not both: "
            f"{listing(odd, 2)}). Check that the adapter was trained on this model."
        )


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and no advice of ``transformers`` while something is loaded."""
    from transformers.utils import logging

    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()


# Does the tokenizer belong to the model?


def check_vocabulary(loaded: LoadedModel) -> None:
    """Refuse a tokenizer whose tokens the model does not have."""
    size = int(loaded.tokenizer.vocab_size)
    if size > loaded.vocabulary:
        raise ModelError(
            f"The tokenizer {loaded.tokenizer_source.name} has {size} tokens, but "
            f"{loaded.source.name} knows only {loaded.vocabulary}: it belongs to another model. "
            "Leave tokenizer= out to use the model's own."
        )


# Errors of transformers

_POINTER = b"version https://git-lfs"


@contextmanager
def _loading(source: ModelSource, what: str) -> Iterator[None]:
    """Quietly load the configuration, weights or tokenizer; whatever goes wrong is one message."""
    try:
        with _quiet():
            yield
    except LmEvalError:
        raise
    except Exception as error:  # each of the libraries behind it has exceptions of its own
        if source.is_local and (pointers := _pointers(Path(source.at))):
            raise ModelError(
                f"{pointers[0]} is a pointer of git-lfs, not the file itself. Run `git lfs pull` in "
                f"{source.at}."
            ) from error
        raise ModelError(
            f"transformers cannot load the {what} of {source.name}. It says:\n{said(error)}"
        ) from error


def _pointers(folder: Path) -> list[str]:
    """Files that ``git clone`` leaves behind without git-lfs."""
    small = [file for file in folder.iterdir() if file.is_file() and file.stat().st_size < 1024]
    return sorted(file.name for file in small if file.read_bytes().startswith(_POINTER))


def said(error: Exception) -> str:
    """What an error says, with its kind if the text alone says little."""
    text = str(error).strip()
    if isinstance(error, OSError | ValueError | ImportError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
