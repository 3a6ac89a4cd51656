"""The attention mask of one piece of a token tree, which knows which tokens cannot see each other.

Texts that branch off the kept beginning do not see each other. To a model the mask is a tensor of
numbers to add, like any other. When the model passes it to ``scaled_dot_product_attention`` on a CPU,
each branch attends to its own tokens, and all of them to the kept beginning; the two results are
combined by their weights. That equals attention under the whole mask, without computing hidden pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch

from lm_eval.models.local.token_tree import Chunk

_SHORTEST_BLOCK = 64
"""Tokens below which a branch goes together with the next one."""
_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class MaskBlock:
    """New tokens from ``start`` to ``end``, which see none outside the block but kept ones.

    They follow the first ``seen`` kept tokens; ``is_path``: each follows the one before it.
    """

    start: int
    end: int
    seen: int
    is_path: bool


def blocks(chunk: Chunk) -> list[MaskBlock]:
    """The tokens of a chunk in blocks, in order."""
    merged: list[MaskBlock] = []
    for block in _branches(chunk.positions, chunk.past):
        last = merged[-1] if merged else None
        if last and last.seen == block.seen and last.end - last.start < _SHORTEST_BLOCK:
            merged[-1] = MaskBlock(last.start, block.end, block.seen, is_path=False)
        else:
            merged.append(block)
    return merged


def _branches(positions: Sequence[int], past: int) -> Iterator[MaskBlock]:
    """A block for each new token that follows a kept one, with everything below it."""
    starts = []
    seen = past
    for index, position in enumerate(positions):
        if position <= seen:
            starts.append(index)
            seen = position
    for start, end in zip(starts, [*starts[1:], len(positions)], strict=True):
        is_path = positions[end - 1] - positions[start] == end - 1 - start
        yield MaskBlock(start, end, positions[start], is_path)


def tree_mask(values: torch.Tensor, chunk: Chunk) -> torch.Tensor:
    """``values`` (1, 1, new tokens, kept and new tokens) as a ``TreeMask``, where that saves work."""
    parts = blocks(chunk)
    if values.device.type != "cpu" or values.dtype not in _DTYPES or len(parts) < 2:
        return values
    mask: TreeMask = values.as_subclass(TreeMask)
    mask.blocks, mask.past = parts, chunk.past
    return mask


class TreeMask(torch.Tensor):  # type: ignore[misc]  # torch is not typed here
    """A mask that computes attention block by block; in every other use a plain tensor."""

    blocks: list[MaskBlock]
    past: int

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            if func is torch.nn.functional.scaled_dot_product_attention:
                mask = kwargs.get("attn_mask")
                if isinstance(mask, cls) and mask._fits(*args, **kwargs):
                    query, key, value = args
                    return mask._attend(query, key, value, kwargs.get("scale"))
            return func(*args, **kwargs)

    def _fits(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *others: Any,
        **options: Any,
    ) -> bool:
        """Whether a call asks for nothing but attention of one sequence, under this mask."""
        plain = {"attn_mask", "scale"}
        return (
            not others
            and not any(set_to for name, set_to in options.items() if name not in plain)
            and key.shape == value.shape
            and query.shape[:2] == key.shape[:2]
            and query.shape[-1] == key.shape[-1]
            and (1, 1, query.shape[2], key.shape[2]) == (*query.shape[:1], *self.shape[1:])
            and query.dtype in _DTYPES
        )

    def _attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None
    ) -> torch.Tensor:
        past = self.past
        new_keys, new_values = key[:, :, past:], value[:, :, past:]
        results = []
        for block in self.blocks:
            rows = slice(block.start, block.end)
            mask = None if block.is_path else self._within(rows)
            results.append(
                _flash(
                    query[:, :, rows],
                    new_keys[:, :, rows],
                    new_values[:, :, rows],
                    0.0,
                    block.is_path,
                    attn_mask=mask,
                    scale=scale,
                )
            )
        output, weight = (torch.cat(parts, dim=2) for parts in zip(*results, strict=True))
        for seen, group in groupby(self.blocks, key=lambda block: block.seen):
            if seen:
                together = list(group)
                rows = slice(together[0].start, together[-1].end)
                kept, kept_weight = _flash(
                    query[:, :, rows], key[:, :, :seen], value[:, :, :seen], 0.0, False, scale=scale
                )
                share = torch.sigmoid(kept_weight - weight[:, :, rows])[..., None].to(output.dtype)
                output[:, :, rows] = torch.lerp(output[:, :, rows], kept, share)
        return output

    def _within(self, rows: slice) -> torch.Tensor:
        plain = self.as_subclass(torch.Tensor)
        return plain[..., rows, self.past + rows.start : self.past + rows.stop]
