"""A score with its standard error and 95 % interval.

In: per-item numbers, counts, or (gold, prediction) pairs. Out: an ``Estimate``. Nothing here knows
what the numbers mean.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from lm_eval.stats.numeric import np

T = TypeVar("T")
Cell = tuple[Hashable, Hashable]
"""One kind of (gold, prediction) pair; a prediction of None means that none was read."""

SMALL_N = 30
DEFAULT_ITERS = 1000
DEFAULT_SEED = 1234
CONFIDENCE = 0.95
_FEWEST_ITERS = 100
_MOST_DRAWN = 1_000_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A score, its standard error and interval; None if there is none (one item, no spread)."""

    value: float
    stderr: float | None
    low: float | None
    high: float | None
    n: int
    method: str
    """How the interval was made: ``wilson``, ``t over items``, ``t over items, small n``,
    ``bootstrap``, ``pooled``, ``none``; ``normal`` if only a standard error is known."""


def mean_estimate(values: Sequence[float]) -> Estimate:
    """The mean of per-item scores.

    Scores that are all 0 or 1 get Wilson's interval, others Student's t. With fewer than 30 items the
    latter may be too narrow for skewed scores, so its method then says ``t over items, small n``. It is
    clipped to [0, 1] only if every score lies in [0, 1]. Items that do not differ give no interval,
    unless they are 0 or 1.
    """
    scores = _finite(values)
    if {0.0, 1.0}.issuperset(scores):
        return share_estimate(scores.count(1.0), len(scores))
    n = len(scores)
    mean = math.fsum(scores) / n
    if n == 1:
        return bare(mean, n)
    stderr = statistics.stdev(scores, mean) / math.sqrt(n)
    if min(scores) == max(scores):
        return bare(scores[0], n, 0.0)
    half = t_quantile(CONFIDENCE, n - 1) * stderr
    low, high = mean - half, mean + half
    if min(scores) >= 0.0 and max(scores) <= 1.0:
        low, high = max(0.0, low), min(1.0, high)
    return Estimate(mean, stderr, low, high, n, t_method(n))


def perplexity_estimate(logprobs: Sequence[float]) -> Estimate:
    """exp(−mean) of log-likelihoods, with the interval of the mean carried over.

    The standard error is that of the mean times the perplexity (delta method).
    """
    mean = mean_estimate(logprobs)
    value = math.exp(-mean.value)
    stderr = None if mean.stderr is None else value * mean.stderr
    low = None if mean.high is None else math.exp(-mean.high)
    high = None if mean.low is None else math.exp(-mean.low)
    return Estimate(value, stderr, low, high, mean.n, mean.method)


def t_method(n: int) -> str:
    """The method of an interval of Student's t over ``n`` items."""
    return "t over items" + (", small n" if n < SMALL_N else "")


def share_estimate(k: int, n: int) -> Estimate:
    """``k`` of ``n`` as a share, with Wilson's interval; one item has no standard error."""
    share = k / n
    stderr = math.sqrt(share * (1.0 - share) / (n - 1)) if n > 1 else None
    low, high = _wilson(k, n)
    return Estimate(share, stderr, low, high, n, "wilson")


def cells_estimate(
    pairs: Iterable[Cell],
    statistic: Callable[[Mapping[Cell, int]], float],
    iters: int = DEFAULT_ITERS,
    seed: int = DEFAULT_SEED,
) -> Estimate:
    """A bootstrap for statistics of a confusion table: ``statistic`` gets cell → count.

    Resampling items is the same as drawing the counts of the cells (a multinomial draw), so the cost
    grows with the number of cells, not of items.
    """
    cells = Counter(pairs)
    n = sum(cells.values())
    value = _check(statistic(_some(cells)), "the statistic")
    if iters < 2 or n == 1:
        return bare(value, n)
    shares = [count / n for count in cells.values()]
    drawn = np.random.default_rng(seed).multinomial(n, shares, size=iters).tolist()
    draws = (
        statistic({cell: count for cell, count in zip(cells, counts, strict=True) if count})
        for counts in drawn
    )
    return _from_draws(value, draws, n)


def statistic_estimate(
    values: Sequence[T], statistic: Callable[[Sequence[T]], float], seed: int = DEFAULT_SEED
) -> Estimate:
    """Any statistic of per-item values, with a bootstrap interval.

    Of many items there are fewer resamples, down to 100, so that the work stays bounded.
    """
    n = len(_some(values))
    value = _check(statistic(values), "the statistic")
    if n == 1:
        return bare(value, n)
    iters = max(_FEWEST_ITERS, min(DEFAULT_ITERS, _MOST_DRAWN // n))
    rng = random.Random(seed)
    return _from_draws(value, (statistic(rng.choices(values, k=n)) for _ in range(iters)), n)


def macro_f1_estimate(
    pairs: Iterable[Cell], iters: int = DEFAULT_ITERS, seed: int = DEFAULT_SEED
) -> Estimate:
    """Macro F1 of (gold, prediction) pairs with a bootstrap interval."""
    return cells_estimate(pairs, macro_f1, iters, seed)


def macro_f1(cells: Mapping[Cell, int]) -> float:
    """The plain mean of the F1 of every class that occurs as gold or as prediction.

    A prediction of None is not a class: it only lowers the recall of its gold class.
    """
    hits: Counter[Hashable] = Counter()
    seen: Counter[Hashable] = Counter()
    for (gold, predicted), count in cells.items():
        seen[gold] += count
        if predicted is not None:
            seen[predicted] += count
        if gold == predicted:
            hits[gold] += count
    # F1 = 2 TP / (2 TP + FP + FN), and the divisor is how often the class occurs on either side.
    classes = [name for name, count in seen.items() if count]
    return math.fsum(2 * hits[name] / seen[name] for name in classes) / len(classes)


def pooled_estimate(members: Sequence[Estimate], *, weight_by_size: bool = True) -> Estimate:
    """The score of a group from the scores of its tasks, as EleutherAI's harness 0.4.13 has it.

    Weighted by the tasks' item counts, with the pooled standard error; or their plain mean. The
    standard error is None if any member has none.
    """
    _some(members)
    sizes = [member.n for member in members]
    weights = sizes if weight_by_size else [1] * len(members)
    value = math.fsum(m.value * w for m, w in zip(members, weights, strict=True)) / sum(weights)
    stderr = _pooled_stderr(members, weight_by_size)
    if stderr is None:
        return bare(value, sum(sizes))
    are_shares = all(member.method == "wilson" for member in members)
    if are_shares and weight_by_size:  # all items together are one share again
        low, high = _wilson(round(value * sum(sizes)), sum(sizes))
        return Estimate(value, stderr, low, high, sum(sizes), "wilson")
    df = _pooled_df(members, weight_by_size)
    half = t_quantile(CONFIDENCE, df) * stderr
    if half == 0:  # members without any spread say nothing about how far off they may be
        return bare(value, sum(sizes), stderr)
    low, high = value - half, value + half
    if are_shares:
        low, high = max(0.0, low), min(1.0, high)
    return Estimate(value, stderr, low, high, sum(sizes), "pooled")


def _pooled_stderr(members: Sequence[Estimate], weight_by_size: bool) -> float | None:
    errors = [m.stderr for m in members if m.stderr is not None]
    if len(errors) < len(members):
        return None
    if not weight_by_size:
        return math.sqrt(math.fsum(error**2 for error in errors)) / len(members)
    total = sum(m.n for m in members)
    spread = math.fsum((m.n - 1) * m.n * error**2 for m, error in zip(members, errors, strict=True))
    return math.sqrt(spread / (total - len(members)) / total)


def _pooled_df(members: Sequence[Estimate], weight_by_size: bool) -> int:
    """Degrees of freedom of the pooled standard error; Welch and Satterthwaite's for a plain mean."""
    if weight_by_size:
        return max(1, sum(m.n - 1 for m in members))
    squares = [(m.stderr or 0.0) ** 2 for m in members]
    noise = math.fsum(x**2 / max(1, m.n - 1) for x, m in zip(squares, members, strict=True))
    return max(1, math.floor(math.fsum(squares) ** 2 / noise + 1e-9)) if noise else 1


def ratio_estimate(pairs: Sequence[tuple[float, float]]) -> Estimate:
    """The share of successes among the trials of all items, from (successes, trials) of each.

    Trials of one item are not independent, so items are what varies: the standard error is that of a
    ratio over items.
    """
    total = math.fsum(trials for _, trials in _some(pairs))
    share = math.fsum(hits for hits, _ in pairs) / total
    errors = [(hits - share * trials) / total for hits, trials in pairs]
    return _linearised(share, errors)


def mean_and_ratio_estimate(pairs: Sequence[tuple[float, float]]) -> Estimate:
    """The mean of two shares: of items that succeed in all their trials, and of all trials."""
    n = len(_some(pairs))
    wholly = [float(hits == trials) for hits, trials in pairs]
    mean, ratio = math.fsum(wholly) / n, ratio_estimate(pairs).value
    total = math.fsum(trials for _, trials in pairs)
    errors = [
        (whole - mean) / (2 * n) + (hits - ratio * trials) / (2 * total)
        for whole, (hits, trials) in zip(wholly, pairs, strict=True)
    ]
    return _linearised((mean + ratio) / 2, errors)


def _linearised(value: float, errors: Sequence[float]) -> Estimate:
    """A share from 0 to 1 with what each item adds to its error; Student's t over items."""
    n = len(errors)
    if n == 1:
        return bare(value, n)
    stderr = math.sqrt(n / (n - 1) * math.fsum(error**2 for error in errors))
    if not stderr:
        return bare(value, n, 0.0)
    half = t_quantile(CONFIDENCE, n - 1) * stderr
    return Estimate(value, stderr, max(0.0, value - half), min(1.0, value + half), n, t_method(n))


def weighted_estimate(
    members: Sequence[Estimate], weights: Sequence[float], sources: Sequence[Hashable]
) -> Estimate:
    """The mean of several scores with given weights, which sum to 1.

    Scores of different ``sources`` are independent; those of one source, such as one task under two
    formats, are taken to err together, which makes the interval too wide rather than too narrow. Its
    degrees of freedom are Welch and Satterthwaite's.
    """
    value = math.fsum(m.value * w for m, w in zip(_some(members), weights, strict=True))
    n = sum(member.n for member in members)
    if any(member.stderr is None for member in members):
        return bare(value, n)
    spreads: dict[Hashable, float] = {}
    sizes: dict[Hashable, int] = {}
    for member, weight, source in zip(members, weights, sources, strict=True):
        spreads[source] = spreads.get(source, 0.0) + weight * (member.stderr or 0.0)
        sizes[source] = max(sizes.get(source, 0), member.n)
    variance = math.fsum(spread**2 for spread in spreads.values())
    if not variance:
        return bare(value, n, 0.0)
    noise = math.fsum(spread**4 / max(1, sizes[s] - 1) for s, spread in spreads.items())
    df = max(1, math.floor(variance**2 / noise + 1e-9))
    half = t_quantile(CONFIDENCE, df) * math.sqrt(variance)
    low, high = value - half, value + half
    if all(m.low is not None and m.high is not None and 0 <= m.low <= m.high <= 1 for m in members):
        low, high = max(0.0, low), min(1.0, high)
    return Estimate(value, math.sqrt(variance), low, high, n, "pooled")


def _wilson(k: int, n: int) -> tuple[float, float]:
    z = statistics.NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)
    share, spread = k / n, z * z / n
    centre = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    # Exact at the ends, where rounding would leave 1e-17 or 0.9999….
    return (0.0 if k == 0 else centre - half), (1.0 if k == n else centre + half)


def bare(value: float, n: int, stderr: float | None = None) -> Estimate:
    """An estimate without an interval."""
    return Estimate(value, stderr, None, None, n, "none")


def _some(values: T) -> T:
    if not values:
        raise ValueError("An estimate needs at least one value; got none.")
    return values


def _finite(values: Sequence[float]) -> list[float]:
    numbers = [*map(float, _some(list(values)))]
    if not all(map(math.isfinite, numbers)):
        for index, number in enumerate(numbers):
            _check(number, f"value {index}")
    return numbers


def _check(value: float, what: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"Scores must be finite numbers, but {what} is {number}.")
    return number


def _from_draws(value: float, draws: Iterable[float], n: int) -> Estimate:
    tail = resampled_tail(CONFIDENCE, n)
    known = [_check(draw, f"the statistic of resample {index}") for index, draw in enumerate(draws)]
    low, high = (float(end) for end in np.quantile(known, [tail, 1.0 - tail]))
    return Estimate(value, statistics.stdev(known), low, high, n, "bootstrap")


MOST_EXACT = 200
"""Beyond this many degrees of freedom, four terms of an expansion are exact to ten digits."""


@lru_cache(maxsize=1024)
def t_quantile(confidence: float, df: int) -> float:
    """The half-width, in standard errors, of an interval of this ``confidence``."""
    if df > MOST_EXACT:
        return _expanded(statistics.NormalDist().inv_cdf(0.5 + confidence / 2), df)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, df) < confidence else (low, middle)
    return math.sqrt(df) * math.tan(low)


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
