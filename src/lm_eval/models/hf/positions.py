"""Models that encode the positions of a long text otherwise than those of a short one.

Their code looks at the longest text of a pass and encodes all texts in it alike. So that each is scored
as if it were alone, texts on both sides of the switch must not go together, nor share a beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")

_SWITCHING = ("longrope", "dynamic")


@dataclass(frozen=True)
class RopeSwitch:
    """Up to ``length`` tokens all texts are encoded alike; ``grows``: beyond it by their length."""

    length: int
    grows: bool

    def apart(self, items: Sequence[T], length: Callable[[T], int]) -> Iterator[list[T]]:
        """The items in lists that may go together."""
        yield [item for item in items if length(item) <= self.length]
        beyond = [item for item in items if length(item) > self.length]
        yield from [[item] for item in beyond] if self.grows else [beyond]


def find_rope_switch(config: Any) -> RopeSwitch | None:
    """Where a model switches its encoding of positions; None if it never does."""
    text = config.get_text_config(decoder=True)
    switches = [_switch_of(rope, text) for rope in _ropes(getattr(text, "rope_parameters", None))]
    return min(
        (switch for switch in switches if switch), key=lambda switch: switch.length, default=None
    )


def _ropes(given: Any) -> list[Mapping[str, Any]]:
    """The settings of rotary positions: one for the model, or one for each kind of layer."""
    if not isinstance(given, Mapping):
        return []
    if "rope_type" in given:
        return [given]
    return [rope for rope in given.values() if isinstance(rope, Mapping)]


def _switch_of(rope: Mapping[str, Any], text: Any) -> RopeSwitch | None:
    kind = str(rope.get("rope_type"))
    if not any(name in kind for name in _SWITCHING):
        return None
    grows = "dynamic" in kind
    trained = rope.get("original_max_position_embeddings")
    return RopeSwitch(int(text.max_position_embeddings if grows or not trained else trained), grows)


def forget_lengths(model: Any) -> None:
    """Let a model whose encoding grows with its texts forget those it has seen.

    It keeps that of the longest for all later ones, until a short one comes; some releases for ever.
    """
    for module in model.modules():
        if hasattr(module, "original_inv_freq") and hasattr(module, "max_seq_len_cached"):
            module.inv_freq = module.original_inv_freq.to(module.inv_freq.device)
            module.max_seq_len_cached = module.original_max_seq_len
