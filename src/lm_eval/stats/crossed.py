"""What a few right and wrong answers say about every format and every item.

In: seen cells and their outcomes. Out: draws from the posterior of a logistic model with crossed
effects, ``logit P = t_format + b_item``. The effects of items are normal. Those of formats are
normal too, but for a share of broken formats with a mean and a width of their own, and they may
start from features: ``t = X g + u``.

A Metropolis sampler with several chains as the last axis of every array. A grid of Laplace
approximations is the usual alternative; with three outcomes per item it underestimates how much
items differ, and a mixture of formats does not fit into it.

Noise of single (format, item) cells needs no term of its own: with one outcome per cell it only
pulls all logits towards 0, which the effects' sizes take up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lm_eval.stats.numeric import Array, numpy

CHAINS = 8
WARM_UP = 300
SWEEPS = 400

# Half-normal priors of the effects' sizes, in logits; the level's and the broken formats' shift's
# normal ones; the share of broken formats is Beta(1, SHARE_B).
SIZE_FORMATS, SIZE_ITEMS, SIZE_BROKEN, SIZE_FEATURES = 0.7, 2.0, 1.0, 0.5
LEVEL_SD = 2.0
SHIFT_MEAN, SHIFT_SD = -2.0, 1.5
SHARE_B = 8.0
NAMES = ("level", "log_formats", "logit_share", "shift", "log_broken")
ITEMS, FEATURES = "log_items", "log_features"


@dataclass(frozen=True, slots=True)
class Cells:
    """Seen cells, sorted by format; formats and items are numbered among those that were seen."""

    formats: Array
    items: Array
    outcomes: Array
    weight: float
    """1 for right or wrong; more for graded scores, which vary less than right and wrong would."""
    features: Array | None
    """One row per seen format; None without features."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Posterior draws; the last axis runs over draws, the chains one after the other."""

    formats: Array
    items: Array
    parameters: dict[str, Array]
    gains: Array | None
    """Effects of the features."""
    chains: int


class Sampler:
    """Chains that walk through the posterior; ``run`` gives the draws."""

    def __init__(self, cells: Cells, seed: int, chains: int = CHAINS) -> None:
        np = numpy()
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
        """Chains far apart from each other: sizes of effects between small and large."""
        np, rng, chains = numpy(), self.rng, self.chains
        rate = (self.cells.outcomes.sum() + 0.5) / (len(self.cells.outcomes) + 1)
        level = np.log(rate / (1 - rate)) + 0.3 * rng.standard_normal(chains)
        self.state: dict[str, Array] = {
            "level": level,
            "log_formats": np.log(rng.uniform(0.1, 1.0, chains)),
            "logit_share": rng.uniform(-5.0, -1.5, chains),
            "shift": rng.uniform(-3.0, -1.0, chains),
            "log_broken": np.log(rng.uniform(0.2, 1.0, chains)),
            ITEMS: np.log(rng.uniform(0.5, 2.0, chains)),
            FEATURES: np.log(rng.uniform(0.1, 0.6, chains)),
        }
        size = np.exp(self.state["log_formats"])
        self.t = level + size * rng.standard_normal((self.num_formats, chains))
        self.b = np.exp(self.state[ITEMS]) * rng.standard_normal((self.num_items, chains))
        columns = 0 if self.cells.features is None else self.cells.features.shape[1]
        self.gains = np.zeros((columns, chains))
        self.steps = {name: np.full(chains, 0.4) for name in (*NAMES, ITEMS, FEATURES)}
        self.steps |= {name: np.full(chains, 0.3) for name in ("all", "scale_t", "scale_b")}
        self.likelihood = self._likelihood(self.t, self.b)
        self.gain = 0.0

    def run(self, warm_up: int = WARM_UP, sweeps: int = SWEEPS, keep: int = 50) -> Draws:
        """``keep`` draws per chain, evenly spaced over ``sweeps`` after the warm-up."""
        np = numpy()
        for sweep in range(warm_up):
            self.gain = 1.0 / (1.0 + sweep) ** 0.6
            self._sweep()
        self.gain = 0.0
        wanted = set(np.linspace(1, sweeps, keep).round().astype(int).tolist())
        kept = []
        for sweep in range(1, sweeps + 1):
            self._sweep()
            if sweep in wanted:
                kept.append((self.t, self.b, self.gains, dict(self.state)))
        return Draws(
            formats=_stacked([t for t, *_ in kept]),
            items=_stacked([b for _, b, *_ in kept]),
            gains=None if self.cells.features is None else _stacked([k[2] for k in kept]),
            parameters={name: _stacked([k[3][name] for k in kept]) for name in self.state},
            chains=self.chains,
        )

    def _sweep(self) -> None:
        self._move_formats()
        self._move_items()
        self._move_between()
        self._move_level()
        self._scale_formats()
        self._scale_items()
        for name in NAMES:
            self._move_parameter(name, self._formats_density)
        self._move_parameter(ITEMS, self._items_density)
        if self.cells.features is not None:
            self._move_gains()
            self._move_parameter(FEATURES, self._gains_density)

    # --- densities -------------------------------------------------------------------------------

    def _likelihood(self, t: Array, b: Array) -> Array:
        """The log likelihood of every cell."""
        np, cells = numpy(), self.cells
        eta = t[cells.formats] + b[cells.items]
        softplus = np.log1p(np.exp(-np.abs(eta))) + np.maximum(eta, 0.0)
        return cells.weight * (self.outcomes * eta - softplus)

    def _offset(self) -> Array:
        """What the features say about each format."""
        features = self.cells.features
        return 0.0 if features is None else features @ self.gains

    def _prior_formats(self, t: Array, state: dict[str, Array]) -> Array:
        """The log density of every format's effect, broken or not."""
        np = numpy()
        residual = t - self._offset() - state["level"]
        share = state["logit_share"]
        log_share = -np.logaddexp(0.0, -share)
        sound = log_share - share + _normal(residual, state["log_formats"])
        return np.logaddexp(
            sound, log_share + _normal(residual - state["shift"], state["log_broken"])
        )

    def _formats_density(self, state: dict[str, Array]) -> Array:
        np = numpy()
        share = state["logit_share"]
        log_share = -np.logaddexp(0.0, -share)
        prior = (
            -0.5 * (state["level"] / LEVEL_SD) ** 2
            - 0.5 * ((state["shift"] - SHIFT_MEAN) / SHIFT_SD) ** 2
            + _half_normal(state["log_formats"], SIZE_FORMATS)
            + _half_normal(state["log_broken"], SIZE_BROKEN)
            + log_share
            + SHARE_B * (log_share - share)
        )
        return prior + self._prior_formats(self.t, state).sum(axis=0)

    def _items_density(self, state: dict[str, Array]) -> Array:
        return _half_normal(state[ITEMS], SIZE_ITEMS) + _normal(self.b, state[ITEMS]).sum(axis=0)

    def _gains_density(self, state: dict[str, Array]) -> Array:
        prior = _half_normal(state[FEATURES], SIZE_FEATURES)
        return prior + _normal(self.gains, state[FEATURES]).sum(axis=0)

    # --- moves -----------------------------------------------------------------------------------

    def _move_formats(self) -> None:
        np = numpy()
        size = np.exp(self.state["log_formats"])
        step = self._stride() / np.sqrt(0.2 * self.cells.weight * self.format_counts + size**-2)
        t = self.t + step * self.rng.standard_normal(self.t.shape)
        likelihood = self._likelihood(t, self.b)
        gained = np.add.reduceat(likelihood - self.likelihood, self.format_starts, axis=0)
        gained += self._prior_formats(t, self.state) - self._prior_formats(self.t, self.state)
        is_taken = self._accepts(gained)
        self.t = np.where(is_taken, t, self.t)
        self.likelihood = np.where(is_taken[self.cells.formats], likelihood, self.likelihood)

    def _move_items(self) -> None:
        np = numpy()
        log_size = self.state[ITEMS]
        tightness = 0.2 * self.cells.weight * self.item_counts + np.exp(-2.0 * log_size)
        b = self.b + self._stride() / np.sqrt(tightness) * self.rng.standard_normal(self.b.shape)
        likelihood = self._likelihood(self.t, b)
        change = (likelihood - self.likelihood)[self.by_item]
        gained = np.add.reduceat(change, self.item_starts, axis=0)
        gained += _normal(b, log_size) - _normal(self.b, log_size)
        is_taken = self._accepts(gained)
        self.b = np.where(is_taken, b, self.b)
        self.likelihood = np.where(is_taken[self.cells.items], likelihood, self.likelihood)

    def _move_between(self) -> None:
        """Shift all formats one way and all items the other: the outcomes cannot tell."""
        np = numpy()
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

    def _scale_formats(self) -> None:
        """Stretch the formats' effects with the parameters that describe their sizes."""
        np = numpy()
        log_scale = self.steps["scale_t"] * self.rng.standard_normal(self.chains)
        centre = self.state["level"] + self._offset()
        t = centre + (self.t - centre) * np.exp(log_scale)
        changed = {"log_formats": self.state["log_formats"] + log_scale}
        after = {**self.state, **changed}
        prior = _half_normal(after["log_formats"], SIZE_FORMATS)
        prior -= _half_normal(self.state["log_formats"], SIZE_FORMATS)
        prior += self._prior_formats(t, after).sum(axis=0)
        prior -= self._prior_formats(self.t, self.state).sum(axis=0)
        self._try("scale_t", t, self.b, changed, prior + self.num_formats * log_scale)

    def _scale_items(self) -> None:
        """Stretch the items' effects with their size: their own density stays as it is."""
        np = numpy()
        log_scale = self.steps["scale_b"] * self.rng.standard_normal(self.chains)
        changed = {ITEMS: self.state[ITEMS] + log_scale}
        prior = _half_normal(changed[ITEMS], SIZE_ITEMS)
        prior -= _half_normal(self.state[ITEMS], SIZE_ITEMS)
        self._try("scale_b", self.t, self.b * np.exp(log_scale), changed, prior)

    def _try(self, name: str, t: Array, b: Array, changed: dict[str, Array], prior: Array) -> None:
        """Take the proposed effects where the posterior allows; ``prior`` is what the prior gains."""
        np = numpy()
        likelihood = self._likelihood(t, b)
        is_taken = self._accepts((likelihood - self.likelihood).sum(axis=0) + prior)
        self._adapt(name, is_taken)
        self.t, self.b = np.where(is_taken, t, self.t), np.where(is_taken, b, self.b)
        self.likelihood = np.where(is_taken, likelihood, self.likelihood)
        for key, value in changed.items():
            self.state[key] = np.where(is_taken, value, self.state[key])

    def _move_parameter(self, name: str, density: Callable[[dict[str, Array]], Array]) -> None:
        np = numpy()
        step = self.steps[name] * self.rng.standard_normal(self.chains)
        after = {**self.state, name: self.state[name] + step}
        is_taken = self._accepts(density(after) - density(self.state))
        self._adapt(name, is_taken)
        self.state[name] = np.where(is_taken, after[name], self.state[name])

    def _move_gains(self) -> None:
        """Draw the features' effects given the formats' ones, the broken formats set aside."""
        np, rng = numpy(), self.rng
        features = self.cells.features
        state = self.state
        residual = self.t - self._offset() - state["level"]
        sound = _normal(residual, state["log_formats"])
        broken = state["logit_share"] + _normal(residual - state["shift"], state["log_broken"])
        is_broken = np.log(rng.random(residual.shape)) < broken - np.logaddexp(sound, broken)
        tight = np.exp(-2.0 * np.where(is_broken, state["log_broken"], state["log_formats"]))
        target = self.t - state["level"] - np.where(is_broken, state["shift"], 0.0)
        columns = self.gains.shape[0]
        precision = np.einsum("fk,fc,fl->ckl", features, tight, features)
        precision += np.exp(-2.0 * state[FEATURES])[:, None, None] * np.eye(columns)
        root = np.linalg.cholesky(precision)
        right = np.einsum("fk,fc->ck", features, tight * target)[:, :, None]
        mean = np.linalg.solve(precision, right)
        noise = np.linalg.solve(
            root.transpose(0, 2, 1), rng.standard_normal((self.chains, columns, 1))
        )
        self.gains = (mean + noise)[:, :, 0].T

    # --- steps -----------------------------------------------------------------------------------

    def _stride(self) -> Array:
        """Steps mostly of the usual size, some small and some far, to cross between modes."""
        return self.rng.choice([0.7, 1.7, 1.7, 4.0])

    def _accepts(self, gained: Array) -> Array:
        np = numpy()
        return np.log(self.rng.random(gained.shape)) < gained

    def _adapt(self, name: str, is_taken: Array) -> None:
        """While warming up, steer each step's size to accept about four proposals in ten."""
        if self.gain:
            np = numpy()
            self.steps[name] = self.steps[name] * np.exp(2.0 * self.gain * (is_taken - 0.4))


def _normal(value: Array, log_size: Array) -> Array:
    """The log density of N(0, size²), but for its constant."""
    return -log_size - 0.5 * (value * numpy().exp(-log_size)) ** 2


def _half_normal(log_size: Array, scale: float) -> Array:
    """The log density of a half-normal size, as a density of its logarithm."""
    return log_size - 0.5 * (numpy().exp(log_size) / scale) ** 2


def _stacked(kept: list[Array]) -> Array:
    """Chain after chain: (…, chains) of each draw → (…, chains · draws)."""
    stacked = numpy().stack(kept, axis=-1)
    return stacked.reshape(*stacked.shape[:-2], -1)
