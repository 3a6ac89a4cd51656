"""Student's t without scipy, for the intervals that every run has."""

from __future__ import annotations

import math
import statistics
from functools import lru_cache

MOST_EXACT = 200
"""Beyond this many degrees of freedom, four terms of an expansion are exact to ten digits."""


@lru_cache(maxsize=1024)
def t_quantile(confidence: float, df: int) -> float:
    """The half-width, in standard errors, of an interval of this ``confidence``."""
    check_confidence(confidence)
    if df < 1:
        raise ValueError(f"Student's t needs one degree of freedom or more; got {df}.")
    if df > MOST_EXACT:
        return _expanded(statistics.NormalDist().inv_cdf(0.5 + confidence / 2), df)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, df) < confidence else (low, middle)
    return math.sqrt(df) * math.tan(low)


def check_confidence(confidence: float) -> None:
    """Raise a ``ValueError`` unless ``confidence`` lies between 0 and 1."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"Confidence lies between 0 and 1, such as 0.95; got {confidence}.")


def resampled_tail(confidence: float, num_units: int) -> float:
    """The share of resamples to cut off at either end, for an interval of few units as wide as t's.

    Resamples of n units vary too little by √((n − 1)/n), and as if their variance were known. Moving the
    quantiles outwards corrects for both (Hesterberg's expanded percentiles).
    """
    reach = t_quantile(confidence, num_units - 1) * math.sqrt(num_units / (num_units - 1))
    return statistics.NormalDist().cdf(-reach)


def _within(angle: float, df: int) -> float:
    """The chance that t lies within ± √df · tan(angle): a finite sum for whole ``df``."""
    cosine = math.cos(angle)
    is_odd = df % 2
    term = cosine if is_odd else 1.0
    terms = [term] if df > 1 else []
    for factor in range(2 + is_odd, df - 1, 2):
        term *= cosine**2 * (factor - 1) / factor
        terms.append(term)
    total = math.sin(angle) * math.fsum(terms)
    return (angle + total) * 2 / math.pi if is_odd else total


def _expanded(z: float, df: int) -> float:
    """Cornish and Fisher's expansion of the quantile around the normal one."""
    sums = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + math.fsum(part / df**power for power, part in enumerate(sums, start=1))
