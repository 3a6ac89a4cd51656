"""The shuffles of ``numpy.random.default_rng(seed).permutation(n)``, without numpy.

``datasets`` shuffles with them, so a task that shuffles its docs sees the same order here, whether
or not numpy is installed. PCG64 seeded through ``SeedSequence``, then Fisher-Yates from the end.
"""

from __future__ import annotations

from collections.abc import Iterator

_MASK32 = 0xFFFFFFFF
_MASK64 = (1 << 64) - 1
_MASK128 = (1 << 128) - 1
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645


def permutation(size: int, seed: int) -> list[int]:
    """The numbers below ``size`` in the order that numpy gives for ``seed``."""
    order = list(range(size))
    words = _words(seed)
    for last in range(size - 1, 0, -1):
        other = _at_most(words, last)
        order[last], order[other] = order[other], order[last]
    return order


def _at_most(words: Iterator[int], largest: int) -> int:
    """A number from 0 to ``largest`` without bias: draw as many bits as it has, until it fits."""
    mask = (1 << largest.bit_length()) - 1
    value = next(words) & mask
    while value > largest:
        value = next(words) & mask
    return value


def _words(seed: int) -> Iterator[int]:
    """The 32-bit words of PCG64: each 64-bit output gives its low half, then its high half."""
    high, low, inc_high, inc_low = _seed_words(seed)
    increment = ((inc_high << 64 | inc_low) << 1 | 1) & _MASK128
    state = (increment + (high << 64 | low)) & _MASK128
    state = (state * _MULTIPLIER + increment) & _MASK128
    while True:
        state = (state * _MULTIPLIER + increment) & _MASK128
        mixed, turn = (state >> 64) ^ (state & _MASK64), state >> 122
        output = (mixed >> turn | mixed << (64 - turn)) & _MASK64
        yield output & _MASK32
        yield output >> 32


def _seed_words(seed: int) -> tuple[int, int, int, int]:
    """Four 64-bit words from a seed, as ``SeedSequence(seed).generate_state(4, uint64)``."""
    pool = _mixed_pool(_entropy(seed))
    constant, halves = 0x8B51F9DD, []
    for position in range(8):
        value = pool[position % 4] ^ constant
        constant = constant * 0x58F38DED & _MASK32
        value = value * constant & _MASK32
        halves.append(value ^ value >> 16)
    first, second, third, fourth = (halves[i] | halves[i + 1] << 32 for i in range(0, 8, 2))
    return first, second, third, fourth


def _entropy(seed: int) -> list[int]:
    words = [seed >> shift & _MASK32 for shift in range(0, max(seed.bit_length(), 1), 32)]
    return words + [0] * (4 - len(words))


def _mixed_pool(entropy: list[int]) -> list[int]:
    constant = 0x43B0D7E5

    def hashed(value: int) -> int:
        nonlocal constant
        value ^= constant
        constant = constant * 0x931E8875 & _MASK32
        value = value * constant & _MASK32
        return value ^ value >> 16

    def mixed(left: int, right: int) -> int:
        value = (left * 0xCA01F9DD - right * 0x4973F715) & _MASK32
        return value ^ value >> 16

    pool = [hashed(word) for word in entropy[:4]]
    for source in range(4):
        for target in range(4):
            if source != target:
                pool[target] = mixed(pool[target], hashed(pool[source]))
    for word in entropy[4:]:
        for target in range(4):
            pool[target] = mixed(pool[target], hashed(word))
    return pool
