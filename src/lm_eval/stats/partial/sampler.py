"""What a few right and wrong answers tell about every format and every item.

In: seen cells and their outcomes. Out: draws from the posterior of a logistic model with crossed
effects, ``logit P = t_format + b_item``. The effects of items are normal. Those of formats are normal
too, but for a share of broken formats with a separate mean and width. The values of a format's
slots are not part of the model: as features they improved none of the estimates tried, and made
intervals of the spread too narrow.

A Metropolis sampler with several chains as the last axis of every array. A grid of Laplace
approximations is the usual alternative; with three outcomes per item it underestimates how much
items differ, and a mixture of formats does not fit into it.

Noise of single (format, item) cells needs no separate term: with one outcome per cell it only
pulls all logits towards 0, which the effects' sizes take up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lm_eval.stats.numeric import Bools, Floats, Ints

CHAINS = 8
WARM_UP = 300
SWEEPS = 500


@dataclass(frozen=True, slots=True)
class SeenCells:
    """Seen cells, sorted by format; formats and items are numbered among those that were seen."""

    formats: Ints
    items: Ints
    outcomes: Floats
    weight: float
    """1 for right or wrong; more for graded scores, which vary less than right and wrong would."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Posterior draws; the last axis runs over draws, the chains one after the other."""

    formats: Floats
    items: Floats
    parameters: dict[str, Floats]
    chains: int


class PosteriorSampler:
    """Metropolis chains over the posterior; ``run`` returns the draws."""

    def __init__(self, cells: SeenCells, seed: int, chains: int = CHAINS) -> None:
        self.cells = cells
        self.chains = chains
        self.rng = np.random.default_rng(seed)
        self.num_formats = int(cells.formats[-1]) + 1
        self.num_items = int(cells.items.max()) + 1
        self.format_starts = np.searchsorted(cells.formats, np.arange(self.num_formats))
        self.by_item = np.argsort(cells.items, kind="stable")
        self.item_starts = np.searchsorted(cells.items[self.by_item], np.arange(self.num_items))
        self.format_counts = np.bincount(cells.formats)[:, None]
        self.item_counts = np.bincount(cells.items)[:, None]
        self.outcomes = cells.outcomes[:, None]
        self._start()

    def _start(self) -> None:
        """Start the chains far apart from each other, with small to large effects."""
        rng, chains = self.rng, self.chains
        rate = (self.cells.outcomes.sum() + 0.5) / (len(self.cells.outcomes) + 1)
        level = np.log(rate / (1 - rate)) + 0.3 * rng.standard_normal(chains)
        self.state: State = {
            "level": level,
            "log_formats": np.log(rng.uniform(0.1, 1.0, chains)),
            "logit_share": rng.uniform(-5.0, -1.5, chains),
            "shift": rng.uniform(-3.0, -1.0, chains),
            "log_broken": np.log(rng.uniform(0.2, 1.0, chains)),
            ITEMS: np.log(rng.uniform(0.5, 2.0, chains)),
        }
        size = np.exp(self.state["log_formats"])
        self.t = level + size * rng.standard_normal((self.num_formats, chains))
        self.b = np.exp(self.state[ITEMS]) * rng.standard_normal((self.num_items, chains))
        self.steps = {name: np.full(chains, 0.4) for name in (*NAMES, ITEMS)}
        self.steps |= {
            name: np.full(chains, 0.3) for name in ("all", "scale_t", "shift_t", "scale_b")
        }
        self.likelihood = self._likelihood(self.t, self.b)
        self.gain = 0.0

    def run(self, warm_up: int = WARM_UP, sweeps: int = SWEEPS, keep: int = 50) -> Draws:
        """``keep`` draws per chain, evenly spaced over ``sweeps`` after the warm-up."""
        for sweep in range(warm_up):
            self.gain = 1.0 / (1.0 + sweep) ** 0.6
            self._sweep()
        self.gain = 0.0
        wanted = set(np.linspace(1, sweeps, keep).round().astype(int).tolist())
        kept = []
        for sweep in range(1, sweeps + 1):
            self._sweep()
            if sweep in wanted:
                kept.append((self.t, self.b, dict(self.state)))
        return Draws(
            formats=_stacked([t for t, *_ in kept]),
            items=_stacked([b for _, b, *_ in kept]),
            parameters={name: _stacked([state[name] for *_, state in kept]) for name in self.state},
            chains=self.chains,
        )

    def _sweep(self) -> None:
        self._move_formats()
        self._move_items()
        self._move_between()
        self._move_level()
        self._scale_items()
        is_broken = self._draw_broken()
        self._scale_sound(is_broken)
        self._shift_broken(is_broken)
        self._move_parameters(NAMES, self._formats_density)
        self._move_parameters((ITEMS,), self._items_density)

    # --- densities -------------------------------------------------------------------------------

    def _likelihood(self, t: Floats, b: Floats) -> Floats:
        """The log likelihood of every cell."""
        cells = self.cells
        eta = t[cells.formats] + b[cells.items]
        softplus = np.log1p(np.exp(-np.abs(eta))) + np.maximum(eta, 0.0)
        log_chances: Floats = self.outcomes * eta - softplus
        return cells.weight * log_chances

    def _formats_density(self, state: State) -> Floats:
        residual = self.t - state["level"]
        by_chain: Floats = of_formats(residual, state).sum(axis=0)
        return of_parameters(state) + by_chain

    def _items_density(self, state: State) -> Floats:
        by_chain: Floats = normal(self.b, state[ITEMS]).sum(axis=0)
        return half_normal(state[ITEMS], SIZE_ITEMS) + by_chain

    # --- moves -----------------------------------------------------------------------------------

    def _move_formats(self) -> None:
        size = np.exp(self.state["log_formats"])
        step = self._stride() / np.sqrt(0.2 * self.cells.weight * self.format_counts + size**-2)
        t = self.t + step * self.rng.standard_normal(self.t.shape)
        likelihood = self._likelihood(t, self.b)
        gained = np.add.reduceat(likelihood - self.likelihood, self.format_starts, axis=0)
        level = self.state["level"]
        gained += of_formats(t - level, self.state)
        gained -= of_formats(self.t - level, self.state)
        is_taken = self._accepts(gained)
        self.t = np.where(is_taken, t, self.t)
        self.likelihood = np.where(is_taken[self.cells.formats], likelihood, self.likelihood)

    def _move_items(self) -> None:
        log_size = self.state[ITEMS]
        tightness = 0.2 * self.cells.weight * self.item_counts + np.exp(-2.0 * log_size)
        b = self.b + self._stride() / np.sqrt(tightness) * self.rng.standard_normal(self.b.shape)
        likelihood = self._likelihood(self.t, b)
        change = (likelihood - self.likelihood)[self.by_item]
        gained = np.add.reduceat(change, self.item_starts, axis=0)
        gained += normal(b, log_size) - normal(self.b, log_size)
        is_taken = self._accepts(gained)
        self.b = np.where(is_taken, b, self.b)
        self.likelihood = np.where(is_taken[self.cells.items], likelihood, self.likelihood)

    def _move_between(self) -> None:
        """Shift all formats one way and all items the other, which leaves the likelihood unchanged."""
        tight_items, tight_level = np.exp(-2.0 * self.state[ITEMS]), LEVEL_SD**-2
        tightness = self.num_items * tight_items + tight_level
        mean = (self.b.sum(axis=0) * tight_items - self.state["level"] * tight_level) / tightness
        shift = mean + self.rng.standard_normal(self.chains) / np.sqrt(tightness)
        self.t, self.b = self.t + shift, self.b - shift
        self.state["level"] = self.state["level"] + shift

    def _move_level(self) -> None:
        """Shift the level and all formats with it."""
        shift = self.steps["all"] * self.rng.standard_normal(self.chains)
        level = self.state["level"]
        prior = ((level**2) - (level + shift) ** 2) / (2 * LEVEL_SD**2)
        self._try("all", self.t + shift, self.b, {"level": level + shift}, prior)

    def _scale_sound(self, is_broken: Bools) -> None:
        """Stretch the effects of sound formats together with their size, which keeps their density."""
        log_scale = self.steps["scale_t"] * self.rng.standard_normal(self.chains)
        centre = self.state["level"]
        stretched = centre + (self.t - centre) * np.exp(log_scale)
        before = self.state["log_formats"]
        after = before + log_scale
        prior = half_normal(after, SIZE_FORMATS) - half_normal(before, SIZE_FORMATS)
        t = np.where(is_broken, self.t, stretched)
        self._try("scale_t", t, self.b, {"log_formats": after}, prior)

    def _shift_broken(self, is_broken: Bools) -> None:
        """Move all broken formats and their mean."""
        step = self.steps["shift_t"] * self.rng.standard_normal(self.chains)
        before = self.state["shift"] - SHIFT_MEAN
        prior = (before**2 - (before + step) ** 2) / (2 * SHIFT_SD**2)
        changed = {"shift": self.state["shift"] + step}
        self._try("shift_t", self.t + step * is_broken, self.b, changed, prior)

    def _draw_broken(self) -> Bools:
        """Draw which formats are broken, given their effects."""
        residual = self.t - self.state["level"]
        odds = broken_odds(residual, self.state)
        is_broken: Bools = self.rng.random(residual.shape) * (1.0 + np.exp(-odds)) < 1.0
        return is_broken

    def _scale_items(self) -> None:
        """Stretch the items' effects together with their size, which keeps their density."""
        log_scale = self.steps["scale_b"] * self.rng.standard_normal(self.chains)
        changed = {ITEMS: self.state[ITEMS] + log_scale}
        prior = half_normal(changed[ITEMS], SIZE_ITEMS)
        prior -= half_normal(self.state[ITEMS], SIZE_ITEMS)
        self._try("scale_b", self.t, self.b * np.exp(log_scale), changed, prior)

    def _try(self, name: str, t: Floats, b: Floats, changed: State, prior: Floats) -> None:
        """Accept or reject proposed effects in each chain; ``prior`` is the change of the log prior."""
        likelihood = self._likelihood(t, b)
        is_taken = self._accepts((likelihood - self.likelihood).sum(axis=0) + prior)
        self._adapt(name, is_taken)
        self.t, self.b = np.where(is_taken, t, self.t), np.where(is_taken, b, self.b)
        self.likelihood = np.where(is_taken, likelihood, self.likelihood)
        for key, value in changed.items():
            self.state[key] = np.where(is_taken, value, self.state[key])

    def _move_parameters(self, names: tuple[str, ...], density: Callable[[State], Floats]) -> None:
        current = density(self.state)
        for name in names:
            step = self.steps[name] * self.rng.standard_normal(self.chains)
            after = {**self.state, name: self.state[name] + step}
            proposed = density(after)
            is_taken = self._accepts(proposed - current)
            self._adapt(name, is_taken)
            self.state[name] = np.where(is_taken, after[name], self.state[name])
            current = np.where(is_taken, proposed, current)

    # --- steps -----------------------------------------------------------------------------------

    def _stride(self) -> float:
        """A scale of proposals: mostly the usual size, some small, some large to cross between modes."""
        return float(self.rng.choice([0.7, 1.7, 1.7, 4.0]))

    def _accepts(self, gained: Floats) -> Bools:
        return np.log(self.rng.random(gained.shape)) < gained

    def _adapt(self, name: str, is_taken: Bools) -> None:
        """During warm-up, adapt the step sizes so that about four proposals in ten are accepted."""
        if self.gain:
            self.steps[name] = self.steps[name] * np.exp(2.0 * self.gain * (is_taken - 0.4))


def _stacked(kept: list[Floats]) -> Floats:
    """Chain after chain: (…, chains) of each draw → (…, chains · draws)."""
    stacked = np.stack(kept, axis=-1)
    return stacked.reshape(*stacked.shape[:-2], -1)


State = dict[str, Floats]
"""Parameters by name, one number per chain."""

# Half-normal priors of the effects' sizes; the level's and the broken formats' shift's normal ones;
# the share of broken formats is Beta(SHARE_A, SHARE_B).
SIZE_FORMATS, SIZE_ITEMS, SIZE_BROKEN = 0.8, 2.0, 0.5
LEVEL_SD = 2.0
SHIFT_MEAN, SHIFT_SD = -2.5, 1.0
SHARE_A, SHARE_B = 0.5, 4.0
NAMES = ("level", "log_formats", "logit_share", "shift", "log_broken")
ITEMS = "log_items"


def normal(value: Floats, log_size: Floats) -> Floats:
    """The log density of N(0, size²)."""
    density: Floats = -0.5 * (value * np.exp(-log_size)) ** 2 - log_size
    return density


def half_normal(log_size: Floats, scale: float) -> Floats:
    """The log density of a half-normal size, in terms of its logarithm."""
    return log_size - 0.5 * (np.exp(log_size) / scale) ** 2


def of_formats(residual: Floats, state: State) -> Floats:
    """The log density of each format's effect beyond the level: sound and broken formats mixed."""
    share = state["logit_share"]
    log_share = -np.logaddexp(0.0, -share)
    sound = log_share - share + normal(residual, state["log_formats"])
    broken = log_share + normal(residual - state["shift"], state["log_broken"])
    return np.logaddexp(sound, broken)


def broken_odds(residual: Floats, state: State) -> Floats:
    """The log odds that a format with this effect is broken."""
    sound = normal(residual, state["log_formats"])
    broken = normal(residual - state["shift"], state["log_broken"])
    return np.clip(state["logit_share"] + broken - sound, -500.0, 500.0)


def of_parameters(state: State) -> Floats:
    """The log density of the parameters of the formats' effects."""
    share = state["logit_share"]
    log_share = -np.logaddexp(0.0, -share)
    return (
        -0.5 * (state["level"] / LEVEL_SD) ** 2
        - 0.5 * ((state["shift"] - SHIFT_MEAN) / SHIFT_SD) ** 2
        + half_normal(state["log_formats"], SIZE_FORMATS)
        + half_normal(state["log_broken"], SIZE_BROKEN)
        + SHARE_A * log_share
        + SHARE_B * (log_share - share)
    )
