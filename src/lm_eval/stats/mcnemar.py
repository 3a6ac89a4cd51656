"""McNemar's exact test of two right-or-wrong scores on the same items, and its power.

Only discordant items count: right under one, wrong under the other. Given their number, wins are
binomial with chance 1/2 if there is no difference. The power is summed over every number of discordant
items that may occur.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from functools import lru_cache

from lm_eval.stats.power import ALPHA, POWER, items_needed

MOST_DISCORDANT = 200_000
"""Beyond this many discordant items the normal formula gives the same result, and the sum is slow."""
_WIDTH = 8.5
"""Standard errors around the mean beyond which terms of the sum are negligible."""
_FEW = 30
_NEARLY = 1 - 1e-12
_STEPS = 32
_SMOOTH = 100
_TEETH = 20
"""Where the number of discordant items hardly varies (variance below ``_SMOOTH``), power is a sawtooth
in the number of items: this many further numbers are checked."""


def mcnemar(wins: int, losses: int) -> tuple[float, float]:
    """McNemar's exact two-sided p, and its mid-p; 1 for both if nothing is discordant.

    The mid-p counts only half of the chance of the observed outcome.
    """
    num = wins + losses
    if num == 0:
        return 1.0, 1.0
    fewer = min(wins, losses)
    tail, at = at_most(fewer, num, 0.5), exactly(fewer, num, 0.5)
    return min(1.0, 2 * tail), min(1.0, 2 * tail - at)


def probability_better(wins: int, losses: int) -> float:
    """The chance that the first is truly better, under a uniform prior on the 2 × 2 table."""
    return at_most(wins, wins + losses + 1, 0.5)


def exact_power(
    difference: float, n: int, *, discordant: float, alpha: float = ALPHA
) -> float | None:
    """The chance that the test finds a true ``difference`` on ``n`` items with a p below ``alpha``.

    ``discordant`` is the true share of discordant items. None if these are very many.
    """
    if n * discordant > MOST_DISCORDANT:
        return None
    wins = min(_NEARLY, (1 + abs(difference) / discordant) / 2)
    return math.fsum(
        weight * power
        for weight, power in zip(
            _weights(n, discordant), _powers(_range(n, discordant), wins, alpha), strict=True
        )
    )


def exact_items(
    difference: float, *, discordant: float, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """Items with which the test finds a true ``difference`` with this power; None: very many."""

    def finds(n: int) -> bool:
        return (exact_power(difference, n, discordant=discordant, alpha=alpha) or 0.0) >= power

    high = math.ceil(items_needed(difference, variance=discordant, alpha=alpha, power=power))
    if 2 * high * discordant > MOST_DISCORDANT:
        return None
    while not finds(high):
        high += high // 20 + 1
    low = high - 1
    while low and finds(low):
        low -= low // 20 + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    if high * discordant * (1 - discordant) < _SMOOTH:
        high += max((more + 1 for more in range(_TEETH) if not finds(high + more)), default=0)
    return high


@lru_cache(maxsize=1024)
def exact_detectable(
    n: int,
    *,
    discordant: float,
    largest: float | None = None,
    alpha: float = ALPHA,
    power: float = POWER,
) -> float | None:
    """The smallest true difference that the test finds on ``n`` items with this power.

    A difference beyond ``discordant``, up to ``largest``, implies that large a share of discordant
    items. None if not even the largest is found, and if discordant items are very many.
    """

    def finds(difference: float) -> bool:
        share = max(discordant, difference)
        return (exact_power(difference, n, discordant=share, alpha=alpha) or 0.0) >= power

    low, high = 0.0, min(1.0, max(discordant, largest or 0.0))
    if not finds(high):
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high


def _range(n: int, share: float) -> range:
    """The numbers of discordant items that occur with more than a negligible chance."""
    half = _WIDTH * math.sqrt(n * share * (1 - share)) + _FEW  # small counts have long tails
    return range(max(0, math.floor(n * share - half)), min(n, math.ceil(n * share + half)) + 1)


def _weights(n: int, share: float) -> Iterator[float]:
    return (exactly(num, n, share) for num in _range(n, share))


def _powers(nums: range, wins: float, alpha: float) -> Iterator[float]:
    """For each number of discordant items, the chance that p is below ``alpha``."""
    tails: tuple[Tail, ...] = ()
    for num in nums:
        if not tails:
            critical = _critical(num, alpha)
            if critical < 0:  # not significant even with all of them on one side
                yield 0.0
                continue
            tails = tuple(Tail(critical, num, p) for p in (0.5, wins, 1 - wins))
        else:
            for tail in tails:
                tail.add_trial()
            while 2 * tails[0].value_of_next < alpha:
                for tail in tails:
                    tail.add_success()
        yield tails[1].value + tails[2].value


def _critical(num: int, alpha: float) -> int:
    """The largest number of wins, or losses, that is few enough for a p below ``alpha``; −1: none."""
    z = -statistics.NormalDist().inv_cdf(alpha / 2)
    most = max(-1, int(num / 2 - z * math.sqrt(num) / 2) - 2)
    while 2 * at_most(most + 1, num, 0.5) < alpha:
        most += 1
    while most >= 0 and 2 * at_most(most, num, 0.5) >= alpha:
        most -= 1
    return most


_EXACT_UP_TO = 1000
"""Up to this many trials, coefficients are exact integers; beyond, their logarithms are used."""
_NEGLIGIBLE = 1e-17


def exactly(k: int, n: int, p: float) -> float:
    """The chance of ``k`` successes in ``n`` trials with chance ``p``."""
    if not 0 <= k <= n:
        return 0.0
    if p in (0.0, 1.0):
        return float(k == n * p)
    if n <= _EXACT_UP_TO and p == 0.5:
        return math.comb(n, k) / (1 << n)
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p))


def at_most(k: int, n: int, p: float) -> float:
    """The chance of at most ``k`` successes in ``n`` trials with chance ``p``."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    if k > n * p:  # the shorter sum
        return 1.0 - at_most(n - k - 1, n, 1 - p)
    term = total = exactly(k, n, p)
    while k > 0 and term > total * _NEGLIGIBLE:
        term *= k * (1 - p) / ((n - k + 1) * p)
        total += term
        k -= 1
    return total


class Tail:
    """The chance of at most ``k`` of ``n``, updated by one trial or one success at a time.

    ``p`` lies between 0 and 1, both excluded, and ``k`` is 0 or more.
    """

    def __init__(self, k: int, n: int, p: float) -> None:
        self.k, self.n, self._p = k, n, p
        self.value = at_most(k, n, p)
        self._at_k = exactly(k, n, p)

    def add_trial(self) -> None:
        """Raise ``n`` by one."""
        self.value -= self._p * self._at_k
        self._at_k *= (1 - self._p) * (self.n + 1) / (self.n + 1 - self.k)
        self.n += 1

    def add_success(self) -> None:
        """Raise ``k`` by one."""
        self._at_k = self._next
        self.value += self._at_k
        self.k += 1

    @property
    def value_of_next(self) -> float:
        """The chance of at most ``k + 1``."""
        return self.value + self._next

    @property
    def _next(self) -> float:
        return self._at_k * (self.n - self.k) / (self.k + 1) * self._p / (1 - self._p)
