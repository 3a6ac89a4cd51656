"""Tensors and stopping rules for backends that run ``transformers`` models themselves."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import torch
import transformers


def pad_and_concat(
    max_length: int, tensors: Sequence[torch.Tensor], padding_side: str = "right"
) -> torch.Tensor:
    """One row for each tensor of token ids, all of one length, padded with zeros."""
    if padding_side not in ("left", "right"):
        raise AssertionError(f"padding_side must be left or right, not {padding_side!r}")
    rows = [tensor.squeeze(0) if tensor.dim() == 2 else tensor for tensor in tensors]
    padded = []
    for row in rows:
        missing = max(0, max_length - row.shape[0])
        sides = (missing, 0) if padding_side == "left" else (0, missing)
        padded.append(torch.nn.functional.pad(row, sides).unsqueeze(0))
    return torch.cat(padded)


def clear_torch_cache() -> None:
    """Free memory that is no longer used."""
    gc.collect()
    torch.cuda.empty_cache()


def get_dtype(dtype: str | torch.dtype) -> Any:
    """The dtype of a name such as ``float16``; ``auto`` and dtypes are returned as they are."""
    return getattr(torch, dtype) if isinstance(dtype, str) and dtype != "auto" else dtype


class MultiTokenEOSCriteria(transformers.StoppingCriteria):  # type: ignore[misc, unused-ignore]
    """Stops once every row of a batch has produced a text.

    Looks at two tokens more than the text has, because a model may spell it in other tokens; never at
    the prompt.
    """

    def __init__(
        self, sequence: str, tokenizer: Any, initial_decoder_input_length: int, batch_size: int
    ) -> None:
        self.sequence = sequence
        self.tokenizer = tokenizer
        self.initial_decoder_input_length = initial_decoder_input_length
        self.done_tracker = [False] * batch_size
        self.sequence_ids = tokenizer.encode(sequence, add_special_tokens=False)
        self.sequence_id_len = len(self.sequence_ids) + 2

    def __call__(self, input_ids: Any, _scores: Any, **_settings: Any) -> Any:
        new = input_ids[:, self.initial_decoder_input_length :][:, -self.sequence_id_len :]
        texts = self.tokenizer.batch_decode(new)
        for row, is_done in enumerate(self.done_tracker):
            self.done_tracker[row] = is_done or self.sequence in texts[row]
        return all(self.done_tracker)


def stop_sequences_criteria(
    tokenizer: Any,
    stop_sequences: Sequence[str],
    initial_decoder_input_length: int,
    batch_size: int,
) -> Any:
    """Stopping criteria for several texts."""
    return transformers.StoppingCriteriaList(
        MultiTokenEOSCriteria(text, tokenizer, initial_decoder_input_length, batch_size)
        for text in stop_sequences
    )
