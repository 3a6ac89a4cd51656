"""Standard errors of aggregated metrics, with the numbers that the harness gives.

In: the values of a metric and how they were aggregated. Out: a float, or None if there is no error.
Resamples are the harness's own: chunks of up to 1,000, chunk i drawn by a generator seeded with i.
numpy makes the same draws many at a time; it is imported when there are any.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from lm_eval.harness.aggregation import (
    CORPUS_SCORES,
    Pairs,
    acc_all,
    aligned,
    all_right,
    bleu,
    chrf,
    chrfpp,
    f1_of_counts,
    f1_score,
    is_non_str_iterable,
    matthews_corrcoef,
    mcc_of_counts,
    mean,
    median,
    nanmean,
    perplexity,
    sacrebleu_metric,
    ter,
)
from lm_eval.stats.estimates import Estimate, mean_estimate

if TYPE_CHECKING:
    from lm_eval.scoring.results import Clusters

Statistic = Callable[[Sequence[Any]], float]
OfPlaces = Callable[[Any], float]
"""A statistic of a resample, which is given by the positions of the items drawn."""

DEFAULT_ITERS = 100_000
CHUNK = 1000
CORPUS_ITERS = 100
"""The most resamples for metrics with one of these names, which are slow to compute."""
CORPUS_METRICS = ("bleu", "chrf", "chrf++", "ter")
BLOCK = 1 << 20
"""Items drawn at a time."""

BOOTSTRAPPED: tuple[Statistic, ...] = (
    *(median, matthews_corrcoef, f1_score, perplexity, nanmean),
    *(bleu, chrf, chrfpp, ter),
)


def pop_stddev(arr: Sequence[float]) -> float:
    return math.sqrt(_squared(arr) / len(arr))


def sample_stddev(arr: Sequence[float]) -> float:
    return math.sqrt(_squared(arr) / (len(arr) - 1))


def _squared(arr: Sequence[float]) -> float:
    centre = mean(arr)
    return sum([(x - centre) ** 2 for x in arr])


def mean_stderr(arr: Sequence[float]) -> float:
    return sample_stddev(arr) / math.sqrt(len(arr))


def stderr_for_metric(metric: Statistic, bootstrap_iters: int) -> Statistic | None:
    """The function that gives the standard error of an aggregation; None if there is none."""
    if bootstrap_iters <= 0:
        return None
    if metric in BOOTSTRAPPED:
        return partial(bootstrap_stderr, metric, iters=bootstrap_iters)
    closed: dict[Statistic, Statistic] = {mean: mean_stderr, acc_all: acc_all_stderr}
    return closed.get(metric)


def stderr_of(
    metric: str, values: Sequence[Any], aggregation: Statistic, iters: int | None
) -> float | None:
    """The standard error of a task's metric; None for one value, no resamples, or no rule.

    The metric's name bounds the number of resamples, not its aggregation.
    """
    if not isinstance(iters, int) or len(values) < 2:
        return None
    error = stderr_for_metric(aggregation, resamples_for(metric, iters))
    return error(values) if error else None


def value_and_stderr(
    metric: str, values: Sequence[Any], aggregation: Statistic, iters: int | None
) -> tuple[float, float | None]:
    """The aggregated score and its ``stderr_of``; a corpus score counts its docs only once."""
    bootstraps = isinstance(iters, int) and iters > 1 and len(values) > 1
    if not bootstraps or aggregation not in CORPUS_SCORES or not _same_shape(values):
        return aggregation(values), stderr_of(metric, values, aggregation, iters)
    of_places = _of_places(aggregation, values)
    error = _spread(of_places, len(values), resamples_for(metric, iters or 0))
    return of_places(range(len(values))), error


def with_interval(
    value: float, stderr: float | None, values: Sequence[Any], aggregation: Callable[..., float]
) -> Estimate:
    """The harness's score and error with an interval: that of a mean, else value ± 1.96 errors.

    A perplexity is the power of a mean, so its interval is that of the mean, taken to the same power:
    it is never below 0, and longer above the value than below it.
    """
    is_share = all(isinstance(v, int | float) and v in (0, 1) for v in values)
    if is_share or (aggregation in (mean, perplexity) and all(map(math.isfinite, values))):
        of_mean = mean_estimate([float(v) for v in values])
        if aggregation is perplexity and not is_share:
            low, high = _perplexity(of_mean.high), _perplexity(of_mean.low)
            of_mean = replace(of_mean, value=value, low=low, high=high)
        if math.isclose(of_mean.value, value):
            return replace(of_mean, value=value, stderr=stderr)
    if stderr is None:
        return Estimate(value, None, None, None, len(values), "none")
    half = NormalDist().inv_cdf(0.975) * stderr
    return Estimate(value, stderr, value - half, value + half, len(values), "normal")


def over_clusters(
    plain: Estimate,
    clusters: Clusters,
    name: str,
    values: Sequence[Any],
    places: Sequence[int],
    *,
    is_mean: bool,
) -> Estimate:
    """The estimate, with error and interval over clusters if docs have these and it is a mean."""
    if not clusters:
        return plain
    if not is_mean or not all(isinstance(v, int | float) and math.isfinite(v) for v in values):
        clusters.left_plain(name)
        return plain
    return replace(clusters.estimate([float(v) for v in values], places), value=plain.value)


def _perplexity(mean_log: float | None) -> float | None:
    """The perplexity of a mean log-likelihood; None beyond the largest number."""
    try:
        return None if mean_log is None else math.exp(-mean_log)
    except OverflowError:
        return None


def resamples_for(metric: str, iters: int) -> int:
    return min(iters, CORPUS_ITERS) if metric in CORPUS_METRICS else iters


def bootstrap_stderr(f: Statistic, xs: Sequence[Any], iters: int) -> float:
    """The spread of ``f`` over resamples of ``xs``; NaN for fewer than two of them."""
    return _spread(_of_places(f, xs), len(xs), iters)


def _spread(of_places: OfPlaces, n: int, iters: int) -> float:
    scores = [of_places(places) for places in _resamples(n, iters)]
    return sample_stddev(scores) if len(scores) > 1 else math.nan


# Resamples


def _resamples(n: int, iters: int) -> Iterator[Any]:
    """The positions drawn for each resample."""
    size = min(CHUNK, iters)
    for seed in range(iters // size):
        yield from _chunk(seed, size, n)


def _chunk(seed: int, size: int, n: int) -> Iterator[Any]:
    """What ``random.Random(seed).choices`` draws, from the same generator inside numpy."""
    import numpy

    words = random.Random(seed).getstate()[1]
    rng = numpy.random.RandomState()
    state: Any = ("MT19937", numpy.array(words[:-1], dtype=numpy.uint32), words[-1])
    rng.set_state(state)
    rows = max(1, BLOCK // n)
    for start in range(0, size, rows):
        drawn = rng.random_sample((min(rows, size - start), n))
        yield from (drawn * float(n)).astype(numpy.int64)


# Statistics of places


def _of_places(f: Statistic, xs: Sequence[Any]) -> OfPlaces:
    """``f`` of a resample, in the fastest way that gives the same number."""
    if f in CORPUS_SCORES and _same_shape(xs):
        return _corpus_statistic(CORPUS_SCORES[f], xs)
    import numpy

    if f in (f1_score, matthews_corrcoef):
        return _table_statistic(f1_of_counts if f is f1_score else mcc_of_counts, xs)
    if all(isinstance(x, (int, float)) for x in xs):
        values = numpy.array(xs, dtype=float)
        if f is perplexity:
            return lambda places: math.exp(-float(values[places].mean()))
        if f is nanmean:
            return lambda places: _nanmean(values[places])
        if f is median and not numpy.isnan(values).any():
            return _median_statistic(xs)
    return lambda places: f([xs[place] for place in places])


def _nanmean(drawn: Any) -> float:
    import numpy

    numbers = drawn[~numpy.isnan(drawn)]
    return float(numbers.mean()) if len(numbers) else math.nan


def _median_statistic(xs: Sequence[float]) -> OfPlaces:
    """The median by counting ranks, which is faster than sorting each resample."""
    import numpy

    order = numpy.argsort(numpy.array(xs, dtype=float), kind="stable")
    n = len(xs)
    ranks = numpy.empty(n, dtype=numpy.int64)
    ranks[order] = numpy.arange(n)
    in_order = [xs[place] for place in order]

    def statistic(places: Any) -> float:
        up_to = numpy.bincount(ranks[places], minlength=n).cumsum()
        return float(in_order[int(numpy.searchsorted(up_to, n // 2, side="right"))])

    return statistic


def _table_statistic(of_counts: Callable[[Any], float], xs: Sequence[Any]) -> OfPlaces:
    import numpy

    pairs = [(gold, predicted) for gold, predicted in xs]
    cells = list(dict.fromkeys(pairs))
    number = {cell: place for place, cell in enumerate(cells)}
    cell_of = [number[pair] for pair in pairs]
    of_counts(Counter(pairs))  # raises for all pairs before any resample
    array = numpy.array(cell_of)
    return lambda places: of_counts(
        _named(dict(enumerate(numpy.bincount(array[places]).tolist())), cells)
    )


def _named(counts: Any, cells: Sequence[Any]) -> dict[Any, int]:
    return {cells[cell]: count for cell, count in counts.items() if count}


def _same_shape(xs: Sequence[Any]) -> bool:
    """Whether every resample is aligned as all items are: one kind and number of references."""
    lengths = {len(refs) if is_non_str_iterable(refs) else None for refs, _ in xs}
    return len(lengths) == 1 and len({is_non_str_iterable(response) for _, response in xs}) == 1


def _corpus_statistic(kind: str, xs: Sequence[Any]) -> OfPlaces:
    """A corpus score from sums of what sacrebleu counts in each doc once."""
    import numpy

    references, responses = aligned(xs)
    scorer = sacrebleu_metric(kind)
    counts = numpy.array(scorer._extract_corpus_statistics(responses, references))

    def statistic(places: Any) -> float:
        times = numpy.bincount(places, minlength=len(xs))
        return float(scorer._compute_score_from_stats((times @ counts).tolist()).score)

    return statistic


# Groups


def pooled_sample_stderr(stderrs: Sequence[float], sizes: Sequence[int]) -> float:
    """The standard error of a mean weighted by size."""
    spread = sum([(n - 1) * error**2 * n for n, error in zip(sizes, stderrs, strict=True)])
    return math.sqrt(spread / (sum(sizes) - len(sizes)) / sum(sizes))


def unweighted_mean_stderr(stderrs: Sequence[float]) -> float:
    """The standard error of a plain mean of independent scores."""
    return math.sqrt(sum(error**2 for error in stderrs)) / len(stderrs)


def aggregate_subtask_metrics(
    metrics: Sequence[float], sizes: Sequence[int], weight_by_size: bool = True
) -> float:
    """The mean of the tasks' scores, each weighted by its number of docs or all alike."""
    weights = sizes if weight_by_size else [1] * len(sizes)
    return sum([score * n for score, n in zip(metrics, weights, strict=True)]) / sum(weights)


def acc_all_stderr(items: Pairs) -> float:
    """As in the harness: here a question is its number, whatever the paragraph."""
    return mean_stderr(all_right(items, lambda idx: idx["question"]))
