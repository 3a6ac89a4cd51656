"""GGUF files for ``transformers``: converted to a folder once, kept in the user's cache.

``transformers`` reads such a file four times over, in Python, whenever it is loaded: half a minute
even for a small model. The weights in the folder are those it would use, dequantised to float32.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from lm_eval.models.hf.sources import ModelSource
from lm_eval.models.local_options import file_digest
from lm_eval.text.files import cache_folder

LARGEST_KEPT = 2**30
"""Bytes of a GGUF file up to which its conversion, about seven times as large, is kept."""


def converted(source: ModelSource, load: Callable[[ModelSource], tuple[Any, Any]]) -> ModelSource:
    """The file's model as a folder; ``load`` gives ``(model, tokenizer)`` where it is not there yet.

    A file that is too large to keep twice, or a cache that cannot be written, leaves it as it is.
    """
    assert source.gguf_file is not None
    file = Path(source.at) / source.gguf_file
    if file.stat().st_size > LARGEST_KEPT:
        return source
    folder = _folder_for(file)
    if not folder.is_dir():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            _convert(folder, *load(source))
        except OSError:
            return source
    return replace(source, at=str(folder), gguf_file=None, made_from=str(file))


def if_converted(source: ModelSource) -> ModelSource:
    """The file's model as a folder where it was converted before, else the file."""
    if source.gguf_file is None:
        return source
    file = Path(source.at) / source.gguf_file
    folder = _folder_for(file)
    if not folder.is_dir():
        return source
    return replace(source, at=str(folder), gguf_file=None, made_from=str(file))


def _folder_for(file: Path) -> Path:
    return cache_folder() / "gguf" / file_digest(file).rpartition(":")[2][:32]


def _convert(folder: Path, model: Any, tokenizer: Any) -> None:
    """Write the folder under another name first: a killed run leaves nothing that looks whole."""
    import safetensors.torch

    config = copy.deepcopy(model.config)
    with suppress(AttributeError):
        del config.quantization_config
    unfinished = tempfile.mkdtemp(dir=folder.parent)
    try:
        config.save_pretrained(unfinished)
        model.generation_config.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        weights = str(Path(unfinished) / "model.safetensors")
        safetensors.torch.save_model(model, weights, metadata={"format": "pt"})
        with suppress(OSError):  # another run was faster
            Path(unfinished).rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
