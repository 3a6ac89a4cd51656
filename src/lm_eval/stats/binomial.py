"""Binomial probabilities in plain Python: of ``k`` successes in ``n`` trials, and of at most ``k``."""

from __future__ import annotations

import math

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
