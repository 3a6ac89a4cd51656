"""Draws of the cells that were not asked, given those that were; and checks of the model's fit.

In: a grid with some of its cells seen, and posterior draws of ``crossed``. Out: for every draw, each
format's score over all items.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from lm_eval.stats.clusters import is_binary
from lm_eval.stats.numeric import Floats, Generator, Ints
from lm_eval.stats.partial.sampler import ITEMS, Draws, SeenCells

NODES = 400
"""Beyond this many items, those with nearly the same difficulty are counted together."""
MOST = 4_000_000
"""At most this many cells are drawn again to check the fit; every n-th draw is used beyond that."""
FAR, SOME = 2.5, 0.03
"""A group of formats counts as apart if it lies this many standard deviations of the others away and
makes up this share of all formats."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Formats × items, of which the cells (``formats``, ``items``) have ``outcomes``."""

    num_formats: int
    num_items: int
    formats: Ints
    items: Ints
    outcomes: Floats
    """Sorted by format, then by item."""

    @property
    def is_binary(self) -> bool:
        """Whether every outcome is right or wrong."""
        return is_binary(self.outcomes)


def seen_cells(grid: Grid) -> SeenCells:
    """The grid's cells with formats and items numbered among those that were seen."""
    _, formats = np.unique(grid.formats, return_inverse=True)
    _, items = np.unique(grid.items, return_inverse=True)
    return SeenCells(formats, items, grid.outcomes, 1.0 / dispersion(grid))


def dispersion(grid: Grid) -> float:
    """The variance of graded scores given format and item, relative to that of right-or-wrong scores.

    1 for right-or-wrong scores, and where too few cells were seen to estimate it.
    """
    if grid.is_binary:
        return 1.0
    rows, columns = np.unique(grid.formats), np.unique(grid.items)
    left = len(grid.outcomes) - len(rows) - len(columns) + 1
    if left < 0.1 * len(grid.outcomes):
        return 1.0
    fitted = np.full(len(grid.outcomes), grid.outcomes.mean())
    for _ in range(20):  # the additive fit, by turns: few turns suffice for a share
        for group in (grid.formats, grid.items):
            counts = np.maximum(np.bincount(group), 1)
            fitted += (np.bincount(group, grid.outcomes - fitted) / counts)[group]
    rest = ((grid.outcomes - fitted) ** 2).sum() / left
    inside = np.clip(fitted, 0.02, 0.98)
    return float(np.clip(rest / (inside * (1 - inside)).mean(), 0.02, 1.0))


def row_means(grid: Grid, seen: SeenCells, draws: Draws, seed: int) -> Floats:
    """Formats × draws: each format's score over all items, with unseen cells drawn."""
    rng = np.random.default_rng((seed, 1))
    effects = _all_formats(grid, draws, rng)
    counts = np.bincount(grid.formats, minlength=grid.num_formats)
    sums = _by_format(grid, grid.outcomes)
    unseen = grid.num_items - counts
    means = np.empty_like(effects)
    for draw, (nodes, sizes) in enumerate(_difficulties(grid, draws, rng)):
        t = effects[:, draw]
        chances = expit(t[:, None] + nodes)
        known = expit(t[grid.formats] + draws.items[seen.items, draw])
        right = chances @ sizes - _by_format(grid, known)
        noise = (chances * (1 - chances)) @ sizes - _by_format(grid, known * (1 - known))
        noise = np.sqrt(np.maximum(noise, 0.0) / seen.weight)
        drawn = right + noise * rng.standard_normal(grid.num_formats)
        if grid.is_binary:
            drawn = np.rint(drawn)
        means[:, draw] = (sums + np.clip(drawn, 0.0, unseen)) / grid.num_items
    return means


def _all_formats(grid: Grid, draws: Draws, rng: Generator) -> Floats:
    """Effects of all formats: seen ones from the posterior, others from the fitted population."""
    effects = new_formats(grid.num_formats, draws, rng)
    effects[np.unique(grid.formats)] = draws.formats
    return effects


def new_formats(count: int, draws: Draws, rng: Generator) -> Floats:
    """Effects of ``count`` new formats, sound or broken, drawn from the fitted population."""
    state = draws.parameters
    shape = (count, len(state["level"]))
    is_broken = rng.random(shape) < expit(state["logit_share"])
    size: Floats = np.exp(np.where(is_broken, state["log_broken"], state["log_formats"]))
    centre: Floats = state["level"] + np.where(is_broken, state["shift"], 0.0)
    return centre + size * rng.standard_normal(shape)


def _difficulties(grid: Grid, draws: Draws, rng: Generator) -> Iterator[tuple[Floats, Ints]]:
    """For each draw, the items' effects (similar ones averaged) and how many items share each."""
    seen_count = draws.items.shape[0]
    sizes = np.exp(draws.parameters[ITEMS])
    bounds = np.linspace(0, grid.num_items, min(NODES, grid.num_items) + 1).astype(int)
    for seen_items, size in zip(draws.items.T, sizes, strict=True):
        others = size * rng.standard_normal(grid.num_items - seen_count)
        items = np.sort(np.concatenate([seen_items, others]))
        together = np.diff(bounds)
        yield np.add.reduceat(items, bounds[:-1]) / together, together


def _by_format(grid: Grid, values: Floats) -> Floats:
    return np.bincount(grid.formats, values, minlength=grid.num_formats).astype(float, copy=False)


def fit_checks(seen: SeenCells, draws: Draws, seed: int) -> tuple[float, float]:
    """Posterior predictive checks: how often replicated formats vary less, and have shorter tails.

    A value near 0 or 1 means that formats are not distributed as the model assumes.
    """
    rng = np.random.default_rng((seed, 2))
    starts = np.flatnonzero(np.diff(seen.formats, prepend=-1))
    sizes = np.bincount(seen.formats)
    effects = new_formats(len(sizes), draws, rng)
    every = max(1, draws.items[0].size * len(seen.formats) // MOST)
    effects, items = effects[:, ::every], draws.items[:, ::every]
    chances = expit(effects[seen.formats] + items[seen.items])
    if seen.weight == 1.0:
        again = (rng.random(chances.shape) < chances).astype(float)
    else:
        noise = np.sqrt(chances * (1 - chances) / seen.weight)
        again = chances + noise * rng.standard_normal(chances.shape)
    observed = _moments(np.add.reduceat(seen.outcomes, starts) / sizes)
    drawn = _moments(np.add.reduceat(again, starts, axis=0) / sizes[:, None])
    variance, tails = (_share_below(new, old) for new, old in zip(drawn, observed, strict=True))
    return variance, tails


def _moments(rows: Floats) -> tuple[Floats, Floats]:
    """Variance and kurtosis; the kurtosis is 0 where nothing varies."""
    away = rows - rows.mean(axis=0)
    variance = (away**2).mean(axis=0)
    return variance, (away**4).mean(axis=0) / np.maximum(variance**2, 1e-12)


def _share_below(drawn: Floats, observed: Floats) -> float:
    """The share of draws below the observed value; ties count half."""
    return float(((drawn < observed).mean() + (drawn <= observed).mean()) / 2)


def broken_share(draws: Draws) -> tuple[float, float]:
    """The probability that some formats score far from the others, and the share of such formats."""
    state = draws.parameters
    share = expit(state["logit_share"])
    is_apart = np.abs(state["shift"]) > FAR * np.exp(state["log_formats"])
    is_apart &= share > SOME
    if not is_apart.any():
        return 0.0, 0.0
    return float(is_apart.mean()), float(share[is_apart].mean())
