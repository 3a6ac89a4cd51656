"""Resampling of topics or items, many draws at once.

Every statistic here is a function of sums over topics. So a resample is a row of weights (how often each
topic was drawn), and one matrix product gives the sums of all resamples. Needs numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lm_eval.stats import numeric
from lm_eval.stats.intervals import DEFAULT_ITERS, DEFAULT_SEED, SMALL_N, Estimate
from lm_eval.stats.numeric import Array

CELLS_AT_ONCE = 2_000_000
"""So many weights are held at a time, 16 MB."""
DEFINED_SHARE = 0.9
"""Below this share of resamples in which the statistic is defined, there is no interval."""


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
        found = self.estimate
        shown = {"value": None, "low": None, "high": None, "stderr": None, "n": 0, "method": "none"}
        if found is not None:
            shown = {name: getattr(found, name) for name in shown}
        return {**shown, "reason": self.reason} if self.reason else shown


@dataclass(frozen=True, slots=True)
class Resampling:
    """How an interval is made: draws, seed, confidence, and what is drawn."""

    iters: int = DEFAULT_ITERS
    seed: int = DEFAULT_SEED
    confidence: float = 0.95
    of: str = "topics"

    def __post_init__(self) -> None:
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(
                f"Confidence lies between 0 and 1, such as 0.95; got {self.confidence}."
            )


def numpy() -> Any:
    """The package numpy; an error with the pip line where it is not installed."""
    return numeric.numpy(install="pip install 'lm-eval-formats[judge]'")


def resampled_sums(sums: Array, how: Resampling) -> Array:
    """The column sums of ``sums`` (a row for each topic) in every resample: iters × columns.

    The same seed and number of topics draw the same topics. Items are many and of few kinds, so that it
    is drawn how many there are of each kind.
    """
    np = numpy()
    num_topics = len(sums)
    rng = np.random.default_rng(how.seed)
    if how.of == "items" and num_topics:
        kinds, counts = _kinds(sums)
        return rng.multinomial(num_topics, counts / num_topics, size=max(0, how.iters)) @ kinds
    step = max(1, CELLS_AT_ONCE // num_topics)
    parts = []
    for start in range(0, how.iters, step):
        size = min(step, how.iters - start)
        drawn = rng.integers(0, num_topics, (size, num_topics))
        drawn += np.arange(size)[:, None] * num_topics
        weights = np.bincount(drawn.ravel(), minlength=size * num_topics)
        parts.append(weights.reshape(size, num_topics) @ sums)
    return np.concatenate(parts) if parts else np.zeros((0, sums.shape[1]))


def _kinds(rows: Array) -> tuple[Array, Array]:
    """The different rows and how often each occurs.

    Column by column, since ``numpy.unique`` of whole rows takes 20 s for a million.
    """
    np = numpy()
    codes = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        values, places = np.unique(column, return_inverse=True)
        if len(values) > 1:
            codes = np.unique(codes * len(values) + places, return_inverse=True)[1]
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    return rows[first], counts


def measured(
    sums: Array,
    statistic: Callable[[Array], Array],
    how: Resampling,
    *,
    n: int,
    undefined: str,
    draws: Array | None = None,
) -> Measured:
    """``statistic`` of the column sums with its percentile interval over resampled rows.

    ``statistic`` takes sums (draws × columns) and gives a number for each, NaN where it is undefined;
    ``undefined`` is the reason shown then. ``n`` is what the estimate counts. ``draws`` are the
    resampled sums, where several statistics share them.
    """
    np = numpy()
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(statistic(sums.sum(axis=0, keepdims=True))[0])
        if not np.isfinite(value):
            return Measured(None, undefined)
        if len(sums) < 2 or how.iters < 2:
            return Measured(_bare(value, n), _alone(how))
        found = statistic(resampled_sums(sums, how) if draws is None else draws)
    return from_draws(value, found, how, n=n, num_units=len(sums))


def from_draws(
    value: float,
    draws: Array,
    how: Resampling,
    *,
    n: int,
    num_units: int,
    bounds: tuple[Array, Array] | None = None,
) -> Measured:
    """``value`` with the percentile interval of ``draws``, of which those that are NaN are left out.

    With ``bounds``, the draws of the lowest and the highest value that missing labels allow, the
    interval reaches from the low end of the one to the high end of the other.
    """
    np = numpy()
    if bounds is not None:
        return _widened(value, draws, bounds, how, n=n, num_units=num_units)
    if len(draws) < 2:
        return Measured(_bare(value, n), _alone(how))
    defined = draws[np.isfinite(draws)]
    if len(defined) < max(2, DEFINED_SHARE * len(draws)):
        return Measured(_bare(value, n), "undefined in too many resamples for an interval")
    if np.ptp(defined) < 1e-12:
        return Measured(_bare(value, n, 0.0), f"all {how.of} agree: no spread to resample")
    tail = (1.0 - how.confidence) / 2
    low, high = (float(end) for end in np.quantile(defined, [tail, 1.0 - tail]))
    method = _method(how, num_units)
    return Measured(Estimate(value, float(np.std(defined, ddof=1)), low, high, n, method))


def _widened(
    value: float,
    draws: Array,
    bounds: tuple[Array, Array],
    how: Resampling,
    *,
    n: int,
    num_units: int,
) -> Measured:
    plain = from_draws(value, draws, how, n=n, num_units=num_units).estimate
    tail = (1.0 - how.confidence) / 2
    np = numpy()
    low, high = (found[np.isfinite(found)] for found in bounds)
    if plain is None or len(low) < 2 or len(high) < 2:
        return Measured(_bare(value, n), _alone(how))
    method = f"{_method(how, num_units)}, missing labels at worst"
    ends = float(np.quantile(low, tail)), float(np.quantile(high, 1.0 - tail))
    return Measured(Estimate(value, plain.stderr, *ends, n, method))


def _alone(how: Resampling) -> str:
    return f"no interval: it takes two {how.of} and two draws"


def _method(how: Resampling, num_units: int) -> str:
    return f"bootstrap over {how.of}{', small n' if num_units < SMALL_N else ''}"


def _bare(value: float, n: int, stderr: float | None = None) -> Estimate:
    return Estimate(value, stderr, None, None, n, "none")
