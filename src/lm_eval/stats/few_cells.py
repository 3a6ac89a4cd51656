"""The distribution of a score over many formats, from a fraction of the (format, item) cells.

In: the cells that were asked and their scores. Out: a ``Distribution``: mean, quantiles and spread of
the formats' scores over all items, each with an interval. The model is additive and normal, ``score =
format + item + rest``, with effects shrunk by variances that the cells themselves make likely; cells
that were asked stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy import linalg, sparse

from lm_eval.stats.clusters import is_binary
from lm_eval.stats.estimates import CONFIDENCE, DEFAULT_SEED, Estimate
from lm_eval.stats.numeric import Floats, Generator, Ints
from lm_eval.support.encode import AsDict

__all__ = ["Cell", "Distribution", "balanced_cells", "estimate_distribution"]

QUANTILES = (5, 50, 95)
DRAWS = 400
EXACT = "all cells seen"
CALIBRATED = "two-way model, calibrated by simulation"
APPROXIMATE = "two-way model, approximate"
"""Outside the simulated range: few formats, few cells for each, or graded scores."""
MIN_FORMATS, MIN_PER_FORMAT = 20, 4

# The factor by which an interval is widened, so that "95 %" holds on the simulated right and wrong
# answers of benchmarks/few_cells.py, which prints the factors needed and the coverage. Chosen on its
# seeds 0 to 11; check them on others.
WIDER = {"mean": 1.15, "median": 1.8, "quantile": 2.4, "spread": 1.6, "format": 1.2}

# The spread is given as this quantile of its draws, as their mean is about twice the truth if formats
# do not differ: a few cells cannot rule out one bad format.
CAUTIOUS = 0.2

FORMAT_VARIANCES = np.geomspace(0.0005, 2.0, 16)
ITEM_VARIANCES = np.geomspace(0.02, 2.0, 8)
"""Variances of the effects of formats and items that are tried, in units of that of the rest."""
LEVEL_VARIANCE = 4.0
UNSEEN_SQUARES = 1.0
"""Added to the squares of the rest: answers that are all right leave room for one that is wrong."""

Cell = tuple[int, int]
"""Number of a format and number of an item, both from 0."""


def balanced_cells(num_formats: int, num_items: int, budget: int, seed: int) -> list[Cell]:
    """``budget`` different cells.

    The counts of any two formats differ by at most 1, and so do those of any two items. A seed defines
    one list of all cells, and a budget takes its beginning: a larger budget includes every cell of a
    smaller one.

    The numbers of format and item both count up, each modulo its size. No cell repeats until both are
    back at 0 together; then the items are shifted by one. Formats, items and the order of the shifts
    are permuted at random.
    """
    rng = np.random.default_rng(seed)
    formats, items = rng.permutation(num_formats), rng.permutation(num_items)
    shifts = rng.permutation(math.gcd(num_formats, num_items))
    steps = np.arange(budget)
    shift = shifts[steps // math.lcm(num_formats, num_items)]
    rows = formats[steps % num_formats]
    columns = items[(steps + shift) % num_items]
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Distribution(AsDict):
    """How the formats' scores are distributed, each score over all items."""

    mean: Estimate
    quantiles: dict[int, Estimate]
    """By per cent: 5, 50, 95."""
    spread: Estimate
    """Best minus worst; its value is on the cautious side, as luck makes formats differ, too."""
    per_format: tuple[Estimate, ...]
    """The score of each format, shrunk towards the others; so the spread among these is too small."""
    ordered: tuple[float, ...]
    """The expected worst score, second worst, … best: the distribution itself."""
    seen_mean: float
    """The plain mean of the cells that were asked."""
    cells: int
    num_formats: int
    num_items: int
    warnings: tuple[str, ...]


def estimate_distribution(
    cells: Sequence[Cell],
    outcomes: Sequence[float],
    num_formats: int,
    num_items: int,
    *,
    seed: int = DEFAULT_SEED,
) -> Distribution:
    """The distribution of the formats' scores over all ``num_items`` items.

    ``outcomes`` are scores, one per cell. The same seed gives the same numbers. With every cell seen,
    the scores are the plain means, without uncertainty.
    """
    scores, (formats, items) = np.asarray(outcomes, dtype=float), np.array(cells).T
    if len(cells) == num_formats * num_items:
        sums = np.bincount(formats, scores, minlength=num_formats)
        means = sums[:, None] / num_items
    else:
        grid = _Grid(formats, items, scores, num_formats, num_items)
        means = grid.draw_means(np.random.default_rng(seed))
    is_usual = num_formats >= MIN_FORMATS and len(cells) >= MIN_PER_FORMAT * num_formats
    estimate = _FromDraws(
        method=CALIBRATED if is_usual and is_binary(scores) else APPROXIMATE,
        ends=(0.0, 1.0) if scores.min() >= 0 and scores.max() <= 1 else (-np.inf, np.inf),
    )
    ordered, seen = np.sort(means, axis=0), np.bincount(formats, minlength=num_formats)
    quantiles = np.quantile(ordered, np.array(QUANTILES) / 100, axis=0)
    spread = ordered[-1] - ordered[0]
    return Distribution(
        mean=estimate(means.mean(axis=0), "mean", len(cells)),
        quantiles={
            name: estimate(drawn, "median" if name == 50 else "quantile", len(cells))
            for name, drawn in zip(QUANTILES, quantiles, strict=True)
        },
        spread=replace(
            estimate(spread, "spread", len(cells)), value=float(np.quantile(spread, CAUTIOUS))
        ),
        per_format=tuple(
            estimate(row, "format", int(n)) for row, n in zip(means, seen, strict=True)
        ),
        ordered=tuple(ordered.mean(axis=1).tolist()),
        seen_mean=float(scores.mean()),
        cells=len(cells),
        num_formats=num_formats,
        num_items=num_items,
        warnings=tuple(_warnings(len(cells) / num_formats, num_formats)),
    )


@dataclass(frozen=True, slots=True)
class _FromDraws:
    """Turns draws into an estimate, with an interval widened by the factor for its kind."""

    method: str
    ends: tuple[float, float]

    def __call__(self, draws: Floats, kind: str, n: int) -> Estimate:
        value = float(draws.mean())
        if len(draws) == 1:
            return Estimate(value, 0.0, value, value, n, EXACT)
        tail, wider = (1 - CONFIDENCE) / 2, WIDER[kind]
        low, high = value + wider * (np.quantile(draws, [tail, 1 - tail]) - value)
        low, high = max(self.ends[0], float(low)), min(self.ends[1], float(high))
        return Estimate(value, float(draws.std(ddof=1)), low, high, n, self.method)


def _warnings(per_format: float, num_formats: int) -> list[str]:
    if per_format >= MIN_PER_FORMAT:
        return []
    cells = f"{per_format:.1f}".removesuffix(".0") + (" cell" if per_format == 1 else " cells")
    return [
        f"Only {cells} per format: what formats are usually like decides as much as the answers do. Ask "
        f"at least {MIN_PER_FORMAT * num_formats} cells."
    ]


class _Grid:
    """Formats × items, some cells of which have scores."""

    def __init__(
        self, formats: Ints, items: Ints, scores: Floats, num_formats: int, num_items: int
    ) -> None:
        count = np.arange(len(scores)), np.ones(len(scores))
        self.formats, self.items, self.scores = formats, items, scores
        self.by_format = sparse.csr_array(
            (count[1], (formats, count[0])), (num_formats, len(scores))
        )
        self.by_item = sparse.csr_array((count[1], (items, count[0])), (num_items, len(scores)))
        self.seen = sparse.csr_array((count[1], (formats, items)), (num_formats, num_items))
        self.unseen = num_items - self.seen.sum(axis=1)[:, None]

    def draw_means(self, rng: Generator) -> Floats:
        """Formats × draws: each format's score over all items, with unseen cells drawn."""
        centre = self.scores.mean()
        rest = (self.scores - centre)[:, None]
        sizes = list(product(FORMAT_VARIANCES, ITEM_VARIANCES))
        likely = np.array([_Fit(self, rest, *size).log_likelihood for size in sizes])
        likely = np.exp(likely - likely.max())
        counts = rng.multinomial(DRAWS, likely / likely.sum())
        chosen = [(size, n) for size, n in zip(sizes, counts, strict=True) if n]
        drawn = [_Fit(self, rest, *size).draw(rest, n, rng) for size, n in chosen]
        sums = (self.by_format @ self.scores)[:, None]
        others = np.hstack(drawn) + self.unseen * centre
        if self.scores.min() >= 0 and self.scores.max() <= 1:
            others = np.clip(others, 0.0, self.unseen)
        means: Floats = (sums + others) / self.seen.shape[1]
        return means


class _Fit:
    """The effects of formats and items, given their variances: the mixed-model equations, solved."""

    def __init__(self, grid: _Grid, rest: Floats, of_formats: float, of_items: float) -> None:
        self.grid, self.of_formats, self.of_items = grid, of_formats, of_items
        seen, count = grid.seen, grid.seen.shape[0]
        self.item_weights = seen.sum(axis=0)[:, None] + 1 / of_items
        common = LEVEL_VARIANCE / (of_formats + count * LEVEL_VARIANCE)
        system = np.diag(seen.sum(axis=1)) + (np.eye(count) - common) / of_formats
        system -= (seen @ (seen.T * (1 / self.item_weights))).toarray()
        self.factor = linalg.cho_factor(system, lower=True)
        formats, items = self.effects(rest)
        fitted = formats[grid.formats] + items[grid.items]
        self.squares = float((rest * (rest - fitted)).sum()) + UNSEEN_SQUARES
        log_det = 2 * np.log(np.diag(self.factor[0])).sum() + np.log(self.item_weights).sum()
        log_det += len(self.item_weights) * np.log(of_items) + count * np.log(of_formats)
        log_det += np.log1p(count * LEVEL_VARIANCE / of_formats)
        degrees = len(rest) - 1
        # Deviations of formats are equally likely at first, on a grid that is even in their logarithm.
        self.log_likelihood = 0.5 * (np.log(of_formats) - log_det - degrees * np.log(self.squares))

    def effects(self, rest: Floats) -> tuple[Floats, Floats]:
        """The expected effects of formats and items, for each column of scores."""
        grid = self.grid
        of_items = grid.by_item @ rest
        right = grid.by_format @ rest - grid.seen @ (of_items / self.item_weights)
        formats: Floats = linalg.cho_solve(self.factor, right)
        return formats, (of_items - grid.seen.T @ formats) / self.item_weights

    def draw(self, rest: Floats, draws: int, rng: Generator) -> Floats:
        """Formats × draws: the sum of each format's unseen cells.

        Scores drawn from the model, corrected by what their difference from the real ones tells.
        """
        grid, (num_formats, num_items) = self.grid, self.grid.seen.shape
        size = np.sqrt(self.squares / rng.chisquare(max(1, len(rest) - 1), draws))

        def noise(count: int, variance: float) -> Floats:
            drawn: Floats = size * math.sqrt(variance) * rng.standard_normal((count, draws))
            return drawn

        formats = noise(num_formats, self.of_formats) + noise(1, LEVEL_VARIANCE)
        items = noise(num_items, self.of_items)
        drawn = formats[grid.formats] + items[grid.items] + noise(len(rest), 1.0)
        more = self.effects(rest - drawn)
        formats, items = formats + more[0], items + more[1]
        sums = grid.unseen * formats + items.sum(axis=0) - grid.seen @ items
        total: Floats = sums + np.sqrt(grid.unseen) * noise(num_formats, 1.0)
        return total
