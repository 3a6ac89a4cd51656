"""Tango's (1998) interval for the difference of two paired shares, which is valid for few items.

It contains every difference that a score test (McNemar's, for a difference of 0) does not reject. Wald's
interval, by contrast, has no width where no item is discordant: if an item is won with a chance of 2 %
and lost with 5 %, it covers 51 % on 10 items and 86 % on 40, where Tango's covers 99 %.
"""

from __future__ import annotations

import math
import statistics

from lm_eval.stats.student import check_confidence

_STEPS = 60
"""Halvings of an interval of width 2 that reach the last digit."""


def paired_share_interval(
    wins: int, losses: int, n: int, confidence: float = 0.95
) -> tuple[float, float]:
    """The interval of (wins − losses) / n, where ``n`` items were asked of both."""
    if n < 1 or wins < 0 or losses < 0 or wins + losses > n:
        raise ValueError(f"Wins and losses are of n items; got {wins} and {losses} of {n}.")
    check_confidence(confidence)
    z = statistics.NormalDist().inv_cdf(0.5 + confidence / 2)
    # The lower end is the upper end with wins and losses swapped.
    return -_upper_end(losses, wins, n, z), _upper_end(wins, losses, n, z)


def _upper_end(wins: int, losses: int, n: int, z: float) -> float:
    """The largest difference that is not rejected."""
    low, high = (wins - losses) / n, 1.0
    if wins == n:
        return 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _score(wins, losses, n, middle) > -z:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _score(wins: int, losses: int, n: int, difference: float) -> float:
    """How many standard errors the data lie above ``difference``, were that the truth."""
    # The share of losses that is most likely given the difference: a root of A x² + B x + C.
    a = 2 * n
    b = (2 * n - wins + losses) * difference - wins - losses
    c = -losses * difference * (1 - difference)
    share = (math.sqrt(max(0.0, b * b - 4 * a * c)) - b) / (2 * a)
    variance = n * (2 * share + difference * (1 - difference))
    above = wins - losses - n * difference
    if variance <= 0:
        return 0.0 if above == 0 else math.copysign(math.inf, above)
    return above / math.sqrt(variance)
