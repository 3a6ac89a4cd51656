"""Which part of a format matters: how much of the variance between formats each slot explains.

In: a score of each format, and the value of each of its slots. Out: a ``SlotEffect`` for each slot,
tested by permuting its values over the formats. The test is valid where slots were
sampled independently of each other, which is nearly true of a sweep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lm_eval.stats.estimates import DEFAULT_SEED
from lm_eval.stats.multiplicity import holm
from lm_eval.stats.numeric import Floats
from lm_eval.text.encode import AsDict

DEFAULT_PERMUTATIONS = 5000
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class SlotEffect(AsDict):
    """One slot: what its values score, and whether they differ by more than chance."""

    slot: str
    means: Mapping[str, float]
    """Value → the mean score of the formats that have it, highest first."""
    counts: Mapping[str, int]
    """Value → how many formats have it."""
    explained: float
    """Share of the variance between formats that the slot explains."""
    by_chance: float
    """The share that a slot with as many values and no effect would show on average."""
    p: float
    adjusted: float
    """``p`` adjusted by Holm for the number of slots."""


def slot_effects(
    scores: Sequence[float],
    slots: Mapping[str, Sequence[str]],
    *,
    permutations: int = DEFAULT_PERMUTATIONS,
    seed: int = DEFAULT_SEED,
) -> list[SlotEffect]:
    """The effect of each slot with two values or more, strongest first.

    ``slots`` has one value for each format. Where all formats score alike nothing is explained.
    """
    values = np.asarray(scores, dtype=float)
    drawn = np.random.default_rng(seed).permuted(np.tile(values, (permutations, 1)), axis=1)
    effects = []
    for slot, chosen in slots.items():
        if len(chosen) != len(values):
            raise ValueError(f"Slot {slot!r} has {len(chosen)} values for {len(values)} formats.")
        if 1 < len(set(chosen)) < len(values):
            effects.append(_effect(slot, list(chosen), values, drawn))
    p_values = holm([effect.p for effect in effects])
    adjusted = [replace(effect, adjusted=p) for effect, p in zip(effects, p_values, strict=True)]
    return sorted(adjusted, key=lambda effect: (effect.p, -effect.explained))


def _effect(slot: str, chosen: list[str], values: Floats, drawn: Floats) -> SlotEffect:
    names = sorted(set(chosen))
    member = np.array([[value == name for value in chosen] for name in names], dtype=float)
    counts = member.sum(axis=1)
    total = float(((values - values.mean()) ** 2).sum())
    seen = _between(values[None, :], member, counts)[0]
    chance = _between(drawn, member, counts)
    p = (1 + int((chance >= seen - _TIE).sum())) / (1 + len(chance))
    means = dict(zip(names, (member @ values / counts).tolist(), strict=True))
    ordered = sorted(means, key=lambda name: -means[name])
    return SlotEffect(
        slot=slot,
        means={name: means[name] for name in ordered},
        counts={name: int(counts[names.index(name)]) for name in ordered},
        explained=float(seen) / total if total > _TIE else 0.0,
        by_chance=float(chance.mean()) / total if total > _TIE else 0.0,
        p=p,
        adjusted=p,
    )


def _between(rows: Floats, member: Floats, counts: Floats) -> Floats:
    """The sum of squares between the groups of each row."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    squares: Floats = ((centred @ member.T) ** 2 / counts).sum(axis=1)
    return squares
