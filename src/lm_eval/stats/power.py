"""How many items a difference needs to be found, and how small a difference a number of items can find.

With d the difference of two paired scores on an item: n = (z_{α/2} + z_β)² · V / δ², where V is the
variance of d over items plus, for replies that vary from one try to the next, what that adds: twice
``within`` / ``repeats`` (``total_variance``). Normal theory, so an approximation for few items.
"""

from __future__ import annotations

import math
import statistics

ALPHA = 0.05
POWER = 0.8


def factor(alpha: float = ALPHA, power: float = POWER) -> float:
    """How many standard errors a difference must be to be found with this power; 2.8016 by default."""
    normal = statistics.NormalDist()
    return normal.inv_cdf(power) - normal.inv_cdf(alpha / 2)


def can_find(num_units: int, alpha: float = ALPHA) -> bool:
    """Whether this many items or clusters can be significant: if all favour one side, p is 2 / 2ⁿ."""
    return 2.0 ** (1 - num_units) < alpha


def total_variance(variance: float, within: float = 0.0, repeats: float = 1) -> float:
    """The variance of an item's difference, including that of ``repeats`` replies on each side."""
    return variance + 2 * within / repeats


def items_needed(
    delta: float, *, variance: float, alpha: float = ALPHA, power: float = POWER
) -> float:
    """Items that show a true difference of ``delta`` with this power; round up."""
    return factor(alpha, power) ** 2 * variance / delta**2


def detectable(n: float, *, variance: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest true difference that ``n`` items show with this power."""
    return factor(alpha, power) * math.sqrt(variance / n)


def repeats_needed(
    delta: float,
    n: float,
    *,
    variance: float,
    within: float,
    alpha: float = ALPHA,
    power: float = POWER,
) -> float | None:
    """Replies per item, the same number for both, that show ``delta`` on ``n`` items; round up.

    None if no number of replies is enough, because the items themselves vary too much.
    """
    of_replies = total_variance(0.0, within)
    room = n * (delta / factor(alpha, power)) ** 2 - variance
    if of_replies == 0:
        return 1.0 if room >= 0 else None
    return max(1.0, of_replies / room) if room > 0 else None


def power_of(delta: float, n: float, *, variance: float, alpha: float = ALPHA) -> float:
    """The chance that ``n`` items show a true difference of ``delta`` at level ``alpha``."""
    normal = statistics.NormalDist()
    edge = factor(alpha, 0.5)
    shift = abs(delta) / math.sqrt(variance / n)
    return normal.cdf(shift - edge) + normal.cdf(-shift - edge)


def variance_of_difference(accuracy: float, correlation: float) -> float:
    """The variance of the difference of two right-or-wrong scores with this accuracy and correlation."""
    return 2 * accuracy * (1 - accuracy) * (1 - correlation)
