"""Keys and values of the beginning that the next tokens continue, and the memory they may take."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

_UNKNOWN_MEMORY = 2**32


def path_cache(room: int) -> Any:
    """An empty transformers cache for up to ``room`` tokens of one text.

    Tokens written by a forward pass are seen by it and then forgotten, unless ``keep`` says which
    of them the text goes on with. Nothing is copied for tokens that stay where they are; unlike the
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

        def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
            return self._length + query_length, 0

        def get_seq_length(self) -> int:
            return self._length

        def get_max_length(self) -> int:
            return self._room

        get_max_cache_shape = get_max_length  # its name before transformers 5.10

    class PathCache(Cache):  # type: ignore[misc]  # transformers is not typed
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
    """Bytes that are free on a device, as far as it tells; for the CPU, those of the machine."""
    import torch

    device = torch.device(device)
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file)
        return int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError):
        return _physical_memory() // 2


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return _UNKNOWN_MEMORY
