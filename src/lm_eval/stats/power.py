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
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"The level alpha lies between 0 and 1, such as 0.05; got {alpha:g}.")
    if not 0.0 < power < 1.0:
        raise ValueError(f"Power lies between 0 and 1, such as 0.8; got {power:g}.")
    if power <= alpha / 2:
        raise ValueError(f"A power of {power:g} is no more than chance gives at level {alpha:g}.")
    normal = statistics.NormalDist()
    return normal.inv_cdf(power) - normal.inv_cdf(alpha / 2)


def can_find(num_units: int, alpha: float = ALPHA) -> bool:
    """Whether this many items or clusters can be significant: if all favour one side, p is 2 / 2ⁿ."""
    return 2.0 ** (1 - num_units) < alpha


def total_variance(variance: float, within: float = 0.0, repeats: float = 1) -> float:
    """The variance of an item's difference, including that of ``repeats`` replies on each side."""
    for name, value in (("variance", variance), ("within", within)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"A variance must be 0 or more; {name} is {value:g}.")
    if repeats < 1:
        raise ValueError(f"Repeats must be 1 or more; got {repeats:g}.")
    return variance + 2 * within / repeats


def items_needed(
    delta: float, *, variance: float, alpha: float = ALPHA, power: float = POWER
) -> float:
    """Items that show a true difference of ``delta`` with this power; round up."""
    return factor(alpha, power) ** 2 * total_variance(variance) / _some(delta) ** 2


def detectable(n: float, *, variance: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest true difference that ``n`` items show with this power."""
    return factor(alpha, power) * math.sqrt(total_variance(variance) / _at_least_one(n))


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
    room = _at_least_one(n) * (_some(delta) / factor(alpha, power)) ** 2 - total_variance(variance)
    if of_replies == 0:
        return 1.0 if room >= 0 else None
    return max(1.0, of_replies / room) if room > 0 else None


def power_of(delta: float, n: float, *, variance: float, alpha: float = ALPHA) -> float:
    """The chance that ``n`` items show a true difference of ``delta`` at level ``alpha``."""
    normal = statistics.NormalDist()
    edge = factor(alpha, 0.5)
    if not variance > 0:
        raise ValueError(f"Power needs a variance above 0; got {variance:g}.")
    shift = abs(delta) / math.sqrt(variance / n)
    return normal.cdf(shift - edge) + normal.cdf(-shift - edge)


def variance_of_difference(accuracy: float, correlation: float) -> float:
    """The variance of the difference of two right-or-wrong scores with this accuracy and correlation."""
    if not 0.0 < accuracy < 1.0:
        raise ValueError(f"An accuracy lies between 0 and 1, such as 0.7; got {accuracy:g}.")
    if not -1.0 <= correlation < 1.0:
        raise ValueError(
            f"A correlation lies between -1 and 1 (excluded), such as 0.5; got {correlation:g}."
        )
    return 2 * accuracy * (1 - accuracy) * (1 - correlation)


def _at_least_one(n: float) -> float:
    if not n >= 1:
        raise ValueError(f"At least one item is needed; got {n:g}.")
    return n


def _some(delta: float) -> float:
    if not (math.isfinite(delta) and delta != 0):
        raise ValueError(f"The difference to look for must not be 0; got {delta:g}.")
    return delta
