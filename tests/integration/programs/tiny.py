"""The model of these programs: a small Llama whose weights follow from the names of its tensors."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import tiny_models


def save(folder: Path) -> Path:
    """The same model on every machine: numpy's old generator never changes."""
    import torch

    tokenizer = tiny_models.make_tokenizer()
    model: Any = tiny_models.make_model("llama", len(tokenizer) + 5, window=1024)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:  # norms stay at one
                draw = np.random.RandomState(zlib.crc32(name.encode()))
                weight.copy_(torch.tensor(0.3 * draw.standard_normal(tuple(weight.shape))))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
