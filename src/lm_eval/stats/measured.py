"""A statistic with its bootstrap interval, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lm_eval.stats.estimates import SMALL_N, Estimate, bare
from lm_eval.stats.numeric import Floats, np
from lm_eval.stats.student import resampled_tail

DEFINED_SHARE = 0.9
"""If the statistic is defined in less than this share of the resamples, it gets no interval."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A statistic with its interval, or the reason why it has no value or no interval."""

    estimate: Estimate | None
    reason: str = ""

    @property
    def value(self) -> float | None:
        """The statistic, or None."""
        return None if self.estimate is None else self.estimate.value

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        shown = {"value": None, "low": None, "high": None, "stderr": None, "n": 0, "method": "none"}
        if self.estimate is not None:
            shown = {name: getattr(self.estimate, name) for name in shown}
        return {**shown, "reason": self.reason} if self.reason else shown


def from_resamples(
    value: float,
    draws: Floats,
    *,
    n: int,
    num_units: int,
    of: str = "items",
    confidence: float = 0.95,
) -> Measured:
    """``value`` with the percentile interval of ``draws``; draws that are NaN are ignored.

    ``of`` names what was resampled and ``num_units`` is its number; ``n`` is the ``n`` of the
    estimate. The fewer units there are, the smaller the tails that are cut off (``resampled_tail``).
    """
    if len(draws) < 2 or num_units < 2:
        return Measured(bare(value, n), f"no interval: it takes two {of} and two draws")
    defined = draws[np.isfinite(draws)]
    if len(defined) < max(2, DEFINED_SHARE * len(draws)):
        return Measured(bare(value, n), "undefined in too many resamples for an interval")
    if np.ptp(defined) < 1e-12:
        return Measured(bare(value, n, 0.0), f"all {of} agree: no spread to resample")
    tail = resampled_tail(confidence, num_units)
    low, high = (float(end) for end in np.quantile(defined, [tail, 1.0 - tail]))
    stderr = float(np.std(defined, ddof=1))
    return Measured(Estimate(value, stderr, low, high, n, resampling_method(of, num_units)))


def resampling_method(of: str, num_units: int) -> str:
    """The method of an estimate: ``bootstrap over topics, small n``."""
    return f"bootstrap over {of}{', small n' if num_units < SMALL_N else ''}"
