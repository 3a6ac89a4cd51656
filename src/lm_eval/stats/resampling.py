"""Sums over resampled items, for all columns and many resamples at once.

A resample is a row of weights (how often each item was drawn), so one matrix product gives the sums of
many resamples. What is drawn does not depend on the order of the items, except in ``drawn_sums``, where
two tables with the same number of rows get the same draws.
"""

from __future__ import annotations

import math

from lm_eval.stats.numeric import Floats, Generator, Ints, Reals, np

CELLS_AT_ONCE = 2_000_000
"""The number of weights held at a time: 16 MB."""
MANY_ROWS = 2000
"""From this number of rows on, drawing weights is faster than drawing items and counting them."""
FEW_KINDS = 0.1
"""Up to this share of distinct rows, the count of each is drawn instead of single rows."""
_LEVELS = 65536


def resampled_sums(rows: Floats, resamples: int, rng: Generator) -> Floats:
    """The column sums of ``rows`` in every resample of as many rows: resamples × columns."""
    distinct, counts = kinds(rows)
    if len(distinct) <= FEW_KINDS * len(rows):
        return kind_sums(distinct, counts, resamples, rng)
    ordered = np.repeat(distinct, counts, axis=0)
    if len(rows) < MANY_ROWS:
        return drawn_sums(ordered, resamples, rng)
    return _weighted_sums(ordered, resamples, rng)


def kinds(rows: Floats) -> tuple[Floats, Ints]:
    """The different rows, in order, and how often each occurs.

    Column by column, since ``numpy.unique`` of whole rows takes 20 s for a million.
    """
    codes: Ints = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        values, places = np.unique(column, return_inverse=True)
        if len(values) > 1:
            codes = np.unique(codes * len(values) + places, return_inverse=True)[1]
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    return rows[first], counts


def kind_sums(distinct: Floats, counts: Ints, resamples: int, rng: Generator) -> Floats:
    """Resampled sums where ``counts`` says how often each of the ``distinct`` rows occurs."""
    total = int(counts.sum())
    sums = np.zeros((max(0, resamples), distinct.shape[1]))
    step = max(1, CELLS_AT_ONCE // len(distinct))
    for start in range(0, len(sums), step):
        part = sums[start : start + step]
        part[:] = rng.multinomial(total, counts / total, size=len(part)) @ distinct
    return sums


def drawn_sums(rows: Floats, resamples: int, rng: Generator) -> Floats:
    """Resampled sums by drawing row by row; the same seed and number of rows draw the same rows."""
    num_rows = len(rows)
    step = max(1, CELLS_AT_ONCE // num_rows)
    sums = np.zeros((max(0, resamples), rows.shape[1]))
    for start in range(0, len(sums), step):
        part = sums[start : start + step]
        drawn = rng.integers(0, num_rows, (len(part), num_rows))
        drawn += np.arange(len(part))[:, None] * num_rows
        weights = np.bincount(drawn.ravel(), minlength=len(part) * num_rows)
        part[:] = weights.reshape(-1, num_rows) @ rows
    return sums


def _weighted_sums(rows: Floats, resamples: int, rng: Generator) -> Floats:
    """Resampled sums from Poisson weights, topped up to the right number of draws.

    Poisson weights that happen to add up to m are m draws with replacement. So weights that fall a
    little short of n, and the missing draws one by one, are a resample of n.
    """
    num_rows = len(rows)
    # Whole numbers this small are exact in single precision, which is twice as fast.
    is_exact = float(np.abs(rows).max()) * num_rows < 2**23 and bool((rows == rows.round()).all())
    values: Reals = rows.astype(np.float32) if is_exact else rows
    table: Reals = _poisson_table(1.0 - 5.0 / math.sqrt(num_rows)).astype(values.dtype)
    step = max(1, CELLS_AT_ONCE // num_rows)
    sums = np.zeros((resamples, rows.shape[1]))
    for start in range(0, resamples, step):
        part = sums[start : start + step]
        weights = table[rng.integers(0, _LEVELS, (len(part), num_rows), dtype=np.uint16)]
        missing = num_rows - weights.sum(axis=1, dtype=float).astype(np.int64)
        # More draws than rows come once in millions of resamples; the row is then drawn afresh.
        weights[missing < 0] = 0
        missing[missing < 0] = num_rows
        drawn = rng.integers(0, num_rows, int(missing.sum()))
        drawn += np.repeat(np.arange(len(part)) * num_rows, missing)
        np.add.at(weights.reshape(-1), drawn, values.dtype.type(1))  # fast if the types agree
        part[:] = weights @ values
    return sums


def _poisson_table(mean: float) -> Ints:
    """Poisson quantiles at 65,536 evenly spread shares: a random element is a random weight."""
    chances = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(20)]
    shares = (np.arange(_LEVELS) + 0.5) / _LEVELS
    return np.searchsorted(np.cumsum(chances), shares)
