"""One piece of a token tree as one forward pass of a transformers model.

The piece is a single sequence. Its position ids and a mask, by which each token sees only those it
follows, describe the tree; the keys and values of the beginning it continues come from a ``path_cache``.
Logits are requested of the model itself, only where they are read: calling its output head by hand would
skip what some models do after it, such as soft-capping.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lm_eval.models.hf.forward import find_rope_switch, score_rows, takes, virtual_tokens
from lm_eval.models.local.token_tree import Chunk, Span

if TYPE_CHECKING:
    import torch


_ATTENTION_WITH_MASKS = ("sdpa", "eager")
_FULL, _SLIDING = "full_attention", "sliding_attention"
_BIASED = ("bloom", "mpt")
_ROWS_AT_ONCE = 32
_STATELESS = ("torch.nn.", "transformers.models.", "transformers.activations", "peft.tuners.")


def refusal(model: Any) -> str | None:
    """Why a model cannot evaluate token trees; None if it seems to be able to."""
    config = model.config.get_text_config()
    attention = getattr(config, "_attn_implementation", None)
    others = sorted(_layer_kinds(config) - {_FULL, _SLIDING})
    has_state = getattr(model, "_is_stateful", False)
    has_biases = getattr(config, "alibi", config.model_type in _BIASED)
    is_local = "local" in getattr(config, "attention_layers", ())
    takes_masks = attention in _ATTENTION_WITH_MASKS
    reasons = [
        (config.is_encoder_decoder, "has an encoder, which reads each text as a whole"),
        (has_state, "carries one state from token to token, which texts cannot share"),
        (others, f"has layers of the kind {', '.join(others)}"),
        (has_biases, "weighs attention by distances that it counts itself (ALiBi)"),
        (is_local, "counts places in the cache for its local attention, not positions"),
        (virtual_tokens(model), "has an adapter that puts tokens of its own before each text"),
        (not takes_masks, f"has attention {attention!r}, which takes no masks (sdpa and eager do)"),
    ]
    first = next((reason for applies, reason in reasons if applies), None)
    return first and f"{type(model).__name__} {first}"


def looks_everywhere(model: Any) -> bool:
    """Whether every layer sees all earlier tokens, however far back."""
    return _layer_kinds(model.config.get_text_config()) == {_FULL}


def vocabulary_size(model: Any) -> int:
    """How many logits there are for each token."""
    return int(model.config.get_text_config().vocab_size)


def runs_beside_itself(model: Any) -> bool:
    """Whether several threads may use the model at once, because no pass changes anything in it.

    Only modules of ``torch``, ``transformers`` and ``peft`` are known; hooks and methods of a program
    are not.
    """
    return find_rope_switch(model.config) is None and all(
        type(module).__module__.startswith(_STATELESS)
        and "forward" not in vars(module)
        and not module._forward_hooks
        and not module._forward_pre_hooks
        for module in model.modules()
    )


class TreeForward:
    """Evaluates the chunks of one tree, in order. ``longest`` is the length of its longest text."""

    def __init__(self, model: Any, device: Any, *, longest: int, tokens_at_once: int) -> None:
        self._model = model
        self._device = device
        self._cache = path_cache(longest + tokens_at_once)
        self._windows = _windows(model.config.get_text_config(), longest)
        self._takes_indices = takes(model, "logits_to_keep")

    def fork(self, length: int) -> TreeForward:
        """Another one for the same tree, which continues after the first ``length`` kept tokens."""
        import torch

        other = copy.copy(self)
        with torch.inference_mode():
            other._cache = self._cache.fork(length)
        return other

    @property
    def has_windows(self) -> bool:
        """Whether some layers do not look back to the start of the longest text."""
        return any(window is not None for window in self._windows.values())

    def begin(self, spans: Sequence[Span], keep: int) -> None:
        """Score spans of one text by an ordinary pass, and keep the text's first ``keep`` tokens."""
        import torch

        tokens = list(spans[0].inputs)
        first = min(span.first_read for span in spans)
        with torch.inference_mode():
            rows = torch.arange(first, len(tokens), device=self._device)
            logits = self._model(
                input_ids=torch.tensor([tokens], device=self._device),
                past_key_values=self._cache,
                use_cache=True,
                **({"logits_to_keep": rows} if self._takes_indices else {}),
            ).logits[0]
            logits = logits if self._takes_indices else logits[first:]
            for span in spans:
                for score in score_rows(span.targets, logits[span.first_read - first :]):
                    span.add(*score)
            self._cache.keep(0, 0, range(keep))

    def scores(self, chunk: Chunk) -> list[tuple[float, bool]]:
        """For each target that the chunk reads: its log-prob, and whether it is the likeliest."""
        import torch

        with torch.inference_mode():
            rows = [index for index, _ in chunk.reads]
            logits = self._logits(chunk, rows)
            self._cache.keep(chunk.past, chunk.kept, chunk.moved)
            wanted = [(row, t) for row, (_, reads) in enumerate(chunk.reads) for _, t in reads]
            return _read(logits, wanted)

    def _logits(self, chunk: Chunk, rows: list[int]) -> torch.Tensor:
        """The logits after the tokens at ``rows``."""
        import torch

        at = torch.tensor(rows or [0], device=self._device)
        keep = {"logits_to_keep": at} if self._takes_indices else {}
        logits: torch.Tensor = self._model(
            input_ids=torch.tensor([chunk.tokens], device=self._device),
            position_ids=torch.tensor([chunk.positions], device=self._device),
            attention_mask=self._mask(chunk),
            past_key_values=self._cache,
            use_cache=True,
            **keep,
        ).logits[0]
        return logits if self._takes_indices else logits[at.to(logits.device)]

    def _mask(self, chunk: Chunk) -> Any:
        """What each token may attend to, as numbers to add: some models misread true and false.

        If layers differ in their windows, one such mask for each kind of layer.
        """
        import torch

        visible = _ancestors(chunk)
        near = torch.tensor([*range(chunk.past), *chunk.positions])
        distance = near[chunk.past :, None] - near
        masks = {}
        for kind, window in self._windows.items():
            hidden = ~visible if window is None else ~(visible & (distance < window))
            mask = torch.zeros(hidden.shape, dtype=self._model.dtype)
            mask.masked_fill_(hidden, torch.finfo(mask.dtype).min)
            masks[kind] = mask[None, None].to(self._device)
        return masks if len(masks) > 1 else next(iter(masks.values()))


def _ancestors(chunk: Chunk) -> torch.Tensor:
    """Which tokens, kept and new, each new one follows or is."""
    import torch

    index = torch.arange(len(chunk.tokens))
    kept = torch.arange(chunk.past) < torch.tensor(chunk.seen())[:, None]
    new = (index <= index[:, None]) & (index[:, None] < torch.tensor(chunk.ends()))
    return torch.cat([kept, new], dim=1)


def _read(logits: torch.Tensor, wanted: list[tuple[int, int]]) -> list[tuple[float, bool]]:
    """``(log-prob, whether likeliest)`` of each ``(row, token)``; rows are ascending."""
    import torch

    if not wanted:
        return []
    totals, tops = [], []
    for block in logits.split(_ROWS_AT_ONCE):  # a few rows at a time need little memory
        totals.append(block.float().logsumexp(-1))
        tops.append(block.argmax(-1))
    rows, tokens = torch.tensor(wanted, device=logits.device).unbind(1)
    scores = logits[rows, tokens].float() - torch.cat(totals)[rows]
    is_top = torch.cat(tops)[rows] == tokens
    return list(zip(scores.tolist(), is_top.tolist(), strict=True))


def _layer_kinds(config: Any) -> set[str]:
    kinds = getattr(config, "layer_types", None)
    if kinds:
        return set(kinds)
    return {_SLIDING if getattr(config, "sliding_window", None) else _FULL}


def _windows(config: Any, longest: int) -> dict[str, int | None]:
    """Kind of layer → how far it looks back, None if to the start; one kind if they do not differ."""
    window = getattr(config, "sliding_window", None)
    if not window or longest <= window:
        return {_FULL: None}
    windows = {_FULL: None, _SLIDING: int(window)}
    return {kind: windows[kind] for kind in sorted(_layer_kinds(config))}


_UNKNOWN_MEMORY = 2**32


def path_cache(room: int) -> Any:
    """An empty transformers cache for up to ``room`` tokens of one text.

    Tokens written by a forward pass are seen by it and then forgotten, except those that ``keep``
    names as part of the text. Nothing is copied for tokens that stay where they are; unlike the
    caches of transformers, sliding-window layers keep every token, as the mask hides those outside.
    """
    cache_class, layer_class = _classes()
    return cache_class(layer_class_to_replicate=functools.partial(layer_class, room))


@functools.cache
def _classes() -> tuple[Any, Any]:
    from transformers.cache_utils import Cache, CacheLayerMixin

    class PathLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers is not typed
        is_sliding = False

        def __init__(self, room: int) -> None:
            super().__init__()
            self._room = room
            self._length = 0

        def lazy_initialization(self, key_states: Any, value_states: Any) -> None:
            self.keys, self.values = (
                states.new_empty([*states.shape[:-2], self._room, states.shape[-1]])
                for states in (key_states, value_states)
            )
            self.is_initialized = True

        def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            end = self._length + key_states.shape[-2]
            self.keys[..., self._length : end, :] = key_states
            self.values[..., self._length : end, :] = value_states
            return self.keys[..., :end, :], self.values[..., :end, :]

        def keep(self, kept: int, moved: Any) -> None:
            end = kept + len(moved)
            for states in (self.keys, self.values):
                states[..., kept:end, :] = states[..., moved.to(states.device) + self._length, :]
            self._length = end

        def cut(self, length: int) -> None:
            self._length = length

        def fork(self, length: int) -> PathLayer:
            other = PathLayer(self._room)
            other.lazy_initialization(self.keys, self.values)
            other.keys[..., :length, :] = self.keys[..., :length, :]
            other.values[..., :length, :] = self.values[..., :length, :]
            other.cut(length)
            return other

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            return self._length + query_length, 0

        def get_seq_length(self) -> int:
            return self._length

        def get_max_length(self) -> int:
            return self._room

        get_max_cache_shape = get_max_length  # its name before transformers 5.10

    class PathCache(Cache):  # type: ignore[misc]  # transformers is not typed
        def fork(self, length: int) -> PathCache:
            """A separate cache for what follows the first ``length`` tokens."""
            other = copy.copy(self)
            other.layers = [layer.fork(length) for layer in self.layers]
            return other

        def keep(self, past: int, kept: int, moved: Sequence[int]) -> None:
            """Of ``past`` kept tokens keep the first ``kept``, then the new ones at ``moved``."""
            import torch

            stay = kept == past and list(moved) == list(range(len(moved)))
            index = torch.tensor(moved, dtype=torch.long)
            for layer in self.layers:
                if stay or not moved:
                    layer.cut(kept + len(moved))
                else:
                    layer.keep(kept, index)

    return PathCache, PathLayer


def bytes_per_token(model: Any) -> int:
    """The size of one token's keys and values."""
    config = model.config.get_text_config()
    # Layers may differ; before transformers 5.10 none of its configurations could say so.
    layers = getattr(config, "per_layer_config", None) or [config] * config.num_hidden_layers
    return int(sum(map(_numbers_per_token, layers)) * model.dtype.itemsize)


def _numbers_per_token(layer: Any) -> int:
    heads = getattr(layer, "num_attention_heads", None) or 1
    kv_heads = getattr(layer, "num_key_value_heads", None) or heads
    width = getattr(layer, "head_dim", None) or layer.hidden_size // heads
    key = getattr(layer, "qk_head_dim", None) or width
    value = getattr(layer, "v_head_dim", None) or width
    return int(kv_heads * (key + value))


def free_memory(device: Any) -> int:
    """Free bytes on a device, as far as it reports them; for the CPU, those of the machine."""
    import torch

    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    with suppress(OSError, KeyError), open("/proc/meminfo", encoding="ascii") as file:
        facts = dict(line.split(":", 1) for line in file)
        return int(facts["MemAvailable"].split()[0]) * 1024
    return _UNKNOWN_MEMORY
