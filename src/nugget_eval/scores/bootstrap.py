"""Resampling of topics or items, many draws at once.

Every statistic here is a function of sums over topics. So a resample is a row of weights (how often each
topic was drawn), and one matrix product gives the sums of all resamples. Needs numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lm_eval.stats.estimates import DEFAULT_ITERS, DEFAULT_SEED, Estimate, bare, resampled_tail
from lm_eval.stats.numeric import Floats, np
from lm_eval.stats.resampling import (
    Measured,
    drawn_sums,
    from_resamples,
    kind_sums,
    kinds,
    resampling_method,
)
from nugget_eval.config import MetricsConfig

__all__ = ["Resampling", "from_draws", "measured", "np", "resampled_sums"]


@dataclass(frozen=True, slots=True)
class Resampling:
    """How an interval is made: draws, seed, confidence, and what is drawn."""

    iters: int = DEFAULT_ITERS
    seed: int = DEFAULT_SEED
    confidence: float = 0.95
    of: str = "topics"

    @classmethod
    def from_config(cls, metrics: MetricsConfig, seed: int) -> Resampling:
        """Resampling of topics as the config says."""
        return cls(metrics.bootstrap_iters, seed, metrics.confidence)

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(
                f"Confidence lies between 0 and 1, such as 0.95; got {self.confidence}."
            )


def resampled_sums(sums: Floats, how: Resampling) -> Floats:
    """The column sums of ``sums`` (a row for each topic) in every resample: iters × columns.

    The same seed and number of topics draw the same topics. Items are many but of few kinds, so the
    number of items of each kind is drawn.
    """
    rng = np.random.default_rng(how.seed)
    if how.of == "items" and len(sums):
        return kind_sums(*kinds(sums), how.iters, rng)
    return drawn_sums(sums, how.iters, rng)


def measured(
    sums: Floats,
    statistic: Callable[[Floats], Floats],
    how: Resampling,
    *,
    n: int,
    undefined: str,
    draws: Floats | None = None,
) -> Measured:
    """``statistic`` of the column sums with its percentile interval over resampled rows.

    ``statistic`` takes sums (draws × columns) and gives a number for each, NaN if it is undefined;
    ``undefined`` is the reason shown then. ``n`` is what the estimate counts. ``draws`` are the
    resampled sums, if several statistics share them.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(statistic(sums.sum(axis=0, keepdims=True))[0])
        if not np.isfinite(value):
            return Measured(None, undefined)
        if len(sums) < 2 or how.iters < 2:
            return Measured(bare(value, n), _alone(how))
        drawn = statistic(resampled_sums(sums, how) if draws is None else draws)
    return from_draws(value, drawn, how, n=n, num_units=len(sums))


def from_draws(
    value: float,
    draws: Floats,
    how: Resampling,
    *,
    n: int,
    num_units: int,
    bounds: tuple[Floats, Floats] | None = None,
) -> Measured:
    """``value`` with the percentile interval of ``draws``; draws that are NaN are left out.

    With ``bounds``, the draws of the lowest and the highest value that missing labels allow, the
    interval reaches from the low end of the one to the high end of the other.
    """
    if bounds is not None:
        return _widened(value, draws, bounds, how, n=n, num_units=num_units)
    return from_resamples(
        value, draws, n=n, num_units=num_units, of=how.of, confidence=how.confidence
    )


def _widened(
    value: float,
    draws: Floats,
    bounds: tuple[Floats, Floats],
    how: Resampling,
    *,
    n: int,
    num_units: int,
) -> Measured:
    plain = from_draws(value, draws, how, n=n, num_units=num_units).estimate
    low, high = (drawn[np.isfinite(drawn)] for drawn in bounds)
    if plain is None or num_units < 2 or len(low) < 2 or len(high) < 2:
        return Measured(bare(value, n), _alone(how))
    tail = resampled_tail(how.confidence, num_units)
    method = f"{resampling_method(how.of, num_units)}, missing labels at worst"
    ends = float(np.quantile(low, tail)), float(np.quantile(high, 1.0 - tail))
    return Measured(Estimate(value, plain.stderr, *ends, n, method))


def _alone(how: Resampling) -> str:
    return f"no interval: it takes two {how.of} and two draws"
