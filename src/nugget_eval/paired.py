"""Paired tests: differences of topics or items → p-values, and their adjustment for being several.

The test flips the signs of the differences: in every way, if there are at most 20,000, else by 10,000
seeded draws. Needs numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nugget_eval.bootstrap import Array, numpy

EXACT_WAYS = 20_000
NUM_DRAWS = 10_000
_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class PValue:
    """A two-sided p-value, and how it was found: ``exact sign flips`` or ``10000 sign flips``."""

    value: float
    method: str


def sign_flip_p_values(differences: Array, *, seed: int) -> list[PValue]:
    """The p-value of each column (topics × comparisons): is its mean further from 0 than flips make it?

    Columns that are not exact share their draws.
    """
    np = numpy()
    found: dict[int, PValue] = {}
    drawn = []
    for place, column in enumerate(differences.T):
        moved = column[np.abs(column) > 1e-12]  # a difference of 0 has no sign to flip
        if 2 ** len(moved) <= EXACT_WAYS:
            found[place] = PValue(_exact_p(moved), "exact sign flips")
        else:
            drawn.append(place)
    if drawn:
        hits = _drawn_hits(differences[:, drawn], seed)
        for place, count in zip(drawn, hits.tolist(), strict=True):
            found[place] = PValue((1 + count) / (1 + NUM_DRAWS), f"{NUM_DRAWS} sign flips")
    return [found[place] for place in range(differences.shape[1])]


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values adjusted by Holm for being several, in their order."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for above, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - above) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def _exact_p(moved: Array) -> float:
    np = numpy()
    if not len(moved):
        return 1.0
    ways = np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1
    sums = np.abs((2 * ways - 1) @ moved)
    return float(np.mean(sums >= abs(moved.sum()) - 1e-9))


def _drawn_hits(differences: Array, seed: int) -> Array:
    np = numpy()
    rng = np.random.default_rng(seed)
    observed = np.abs(differences.sum(axis=0)) - 1e-9
    hits = np.zeros(differences.shape[1], dtype=np.int64)
    step = max(1, _CELLS_AT_ONCE // len(differences))
    for start in range(0, NUM_DRAWS, step):
        size = min(step, NUM_DRAWS - start)
        signs = rng.integers(0, 2, (size, len(differences)), dtype=np.int8) * 2.0 - 1.0
        hits += (np.abs(signs @ differences) >= observed).sum(axis=0)
    return hits
