"""Sign-flip tests: is a mean difference further from 0 than chance explains?

Without an effect, the difference of a unit (an item, or the sum over a cluster of items) would be just
as likely to have the opposite sign. All combinations of signs are counted if there are at most 20,000;
otherwise 10,000 are drawn at random.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lm_eval.stats.estimates import DEFAULT_SEED
from lm_eval.stats.numeric import Floats, np

EXACT_WAYS = 20_000
NUM_DRAWS = 10_000
NO_SIGN = 1e-12
"""A difference of at most this size is rounding error: it counts as a tie."""
_ROUNDING = 1e-9
_CELLS_AT_ONCE = 2_000_000


@dataclass(frozen=True, slots=True)
class PValue:
    """A two-sided p-value, and how it was found: ``exact sign flips`` or ``10000 sign flips``."""

    value: float
    method: str


def sign_flip_p_values(differences: Floats, *, seed: int = DEFAULT_SEED) -> list[PValue]:
    """The p-value of each column (units × comparisons): is its mean further from 0 than after flips?

    Columns with too many units for the exact test share their draws.
    """
    num_units, width = differences.shape
    against_nothing = np.column_stack([differences, np.zeros(num_units)])
    return pair_sign_flip_p_values(
        against_nothing, [(column, width) for column in range(width)], seed=seed
    )


def pair_sign_flip_p_values(
    scores: Floats, pairs: Sequence[tuple[int, int]], *, seed: int = DEFAULT_SEED
) -> list[PValue]:
    """The same for differences between two columns of ``scores`` (units × formats).

    Flipping a difference is flipping both of its scores, so that one product with the drawn signs serves
    all pairs: the cost grows with the formats, not with their pairs.
    """
    p_values: dict[int, PValue] = {}
    drawn: list[int] = []
    for index, (first, second) in enumerate(pairs):
        values = scores[:, first] - scores[:, second]
        moved = values[np.abs(values) > NO_SIGN]
        if 2 ** len(moved) <= EXACT_WAYS:
            p_values[index] = PValue(_exact_p(moved), "exact sign flips")
        else:
            drawn.append(index)
    hits = _drawn_hits(scores, [pairs[index] for index in drawn], seed) if drawn else ()
    for index, count in zip(drawn, hits, strict=True):
        p_values[index] = PValue((1 + count) / (1 + NUM_DRAWS), f"{NUM_DRAWS} sign flips")
    return [p_values[index] for index in range(len(pairs))]


def _exact_p(moved: Floats) -> float:
    if not len(moved):
        return 1.0
    ways = np.arange(2 ** len(moved))[:, None] >> np.arange(len(moved)) & 1
    sums = np.abs((2 * ways - 1) @ moved)
    return float(np.mean(sums >= abs(moved.sum()) - _ROUNDING))


def _drawn_hits(scores: Floats, pairs: Sequence[tuple[int, int]], seed: int) -> list[int]:
    first, second = np.array(pairs).T
    total = scores.sum(axis=0)
    observed = np.abs(total[first] - total[second]) - _ROUNDING
    hits = np.zeros(len(pairs), dtype=np.int64)
    for sums in _flipped_sums(scores, seed):
        hits += (np.abs(sums[:, first] - sums[:, second]) >= observed).sum(axis=0)
    return [int(count) for count in hits]


def _flipped_sums(scores: Floats, seed: int) -> Iterator[Floats]:
    """The column sums under drawn signs (draws × columns), some draws at a time."""
    rng = np.random.default_rng(seed)
    num_units = len(scores)
    total = scores.sum(axis=0)
    step = max(1, _CELLS_AT_ONCE // num_units)
    for start in range(0, NUM_DRAWS, step):
        size = min(step, NUM_DRAWS - start)
        bits = rng.integers(0, 256, (size, -(-num_units // 8)), dtype=np.uint8)
        is_kept = np.unpackbits(bits, axis=1, count=num_units)
        yield 2.0 * (is_kept.astype(np.float64) @ scores) - total
