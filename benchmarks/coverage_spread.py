"""How often the intervals about formats hold the truth, on simulated scores.

    python benchmarks/coverage_spread.py [--tables 1000] [--seed 1] [--only models]

Prints a Markdown table: the share of tables whose 95 % interval holds the value that the simulation was
built with, and the mean width. Items are right with a chance that depends on the item and on the format
(logistic), so that the truth is the same question on endless items of the same kind.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from lm_eval.stats.components import components
from lm_eval.stats.paired import paired
from lm_eval.stats.ranks import rank_stability
from lm_eval.stats.spread import spread

Interval = tuple[float | None, float | None, float]
"""Low, high and the truth."""
ITEM_SD = 1.5
CLUSTER_SD, ITEM_IN_CLUSTER_SD, FORMAT_IN_CLUSTER_SD = 1.0, 1.0, 0.5
"""Items with clusters: what a cluster has in common, what is an item's own, and how much better or worse
a format suits a whole cluster. Together they vary as items without clusters do."""


@dataclass(frozen=True)
class Clusters:
    """``count`` clusters of ``size`` items; uneven ones have from 1 to twice that many less 1."""

    count: int
    size: int
    is_uneven: bool = False

    def drawn(self, rng: np.random.Generator) -> np.ndarray:
        """The cluster of each item."""
        even = np.full(self.count, self.size)
        sizes = rng.integers(1, 2 * self.size, self.count) if self.is_uneven else even
        return np.repeat(np.arange(self.count), sizes)

    def __str__(self) -> str:
        return f"{self.count} {'uneven ' if self.is_uneven else ''}clusters of {self.size} items"


def right(effects: np.ndarray, num_items: int, rng: np.random.Generator) -> np.ndarray:
    """Scores of 0 and 1 for each effect (on the logit scale) and item."""
    items = rng.normal(0.3, ITEM_SD, num_items)
    chances = 1 / (1 + np.exp(-(effects[..., None] + items)))
    return (rng.random(chances.shape) < chances).astype(float)


def right_in_clusters(
    effects: np.ndarray, names: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """As ``right``, for items in clusters."""
    num = int(names.max()) + 1
    items = rng.normal(0.3, ITEM_IN_CLUSTER_SD, len(names)) + rng.normal(0, CLUSTER_SD, num)[names]
    suits = rng.normal(0, FORMAT_IN_CLUSTER_SD, (*effects.shape, num))[..., names]
    chances = 1 / (1 + np.exp(-(effects[..., None] + items + suits)))
    return (rng.random(chances.shape) < chances).astype(float)


def true_scores(effects: np.ndarray) -> np.ndarray:
    """The mean score of each effect over all items there could be."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    chances = 1 / (1 + np.exp(-(effects[..., None] + 0.3 + ITEM_SD * nodes)))
    return chances @ weights / weights.sum()


def spread_case(num_formats: int, num_items: int, gap: float) -> Callable:
    """Formats evenly ``gap`` logits apart from first to last."""
    effects = np.linspace(0, gap, num_formats)
    truth = float(np.ptp(true_scores(effects)))

    def run(rng: np.random.Generator) -> dict[str, Interval]:
        found = spread(right(effects, num_items, rng), resamples=1000, seed=int(rng.integers(1e9)))
        return {
            "spread, percentile": (found.low, found.high, truth),
            "spread, safe": (found.safe_low, found.safe_high, truth),
        }

    run.__doc__ = f"{num_formats} formats × {num_items} items, true spread {truth:.3f}"
    return run


def clustered_spread_case(num_formats: int, clusters: Clusters, gap: float) -> Callable:
    """The same for items in clusters; where formats do not differ, also how often the test says so."""
    effects = np.linspace(0, gap, num_formats)
    truth = float(np.ptp(true_scores(effects)))

    def run(rng: np.random.Generator) -> dict[str, Interval]:
        names = clusters.drawn(rng)
        table = right_in_clusters(effects, names, rng)
        seed = int(rng.integers(1e9))
        found = spread(table, clusters=names.tolist(), resamples=1000, seed=seed)
        shown = {
            "spread in clusters, percentile": (found.low, found.high, truth),
            "spread in clusters, safe": (found.safe_low, found.safe_high, truth),
        }
        if gap:
            return shown
        plain = spread(table, resamples=1000, seed=seed)
        return {
            **shown,
            "p > 0.05, noise floor over clusters": _is_above(found.p),
            "p > 0.05, clusters left out": _is_above(plain.p),
        }

    run.__doc__ = f"{num_formats} formats, {clusters}, true spread {truth:.3f}"
    return run


def _is_above(p: float) -> Interval:
    """An interval from 0 to p, which holds 0.05 unless the test finds something."""
    return (0.0, p, 0.05 + 1e-8)


def chosen_case(num_formats: int, num_items: int, gap: float) -> Callable:
    """Best and worst chosen on one half of the items, compared on the other."""
    effects = np.linspace(0, gap, num_formats)
    truths = true_scores(effects)

    def run(rng: np.random.Generator) -> dict[str, Interval]:
        table = right(effects, num_items, rng)
        means, fresh = table[:, : num_items // 2].mean(axis=1), table[:, num_items // 2 :].tolist()
        best, worst = int(means.argmax()), int(means.argmin())
        found = paired(fresh[best], fresh[worst]).difference
        truth = float(truths[best] - truths[worst])
        return {"chosen formats on fresh items": (found.low, found.high, truth)}

    run.__doc__ = f"{num_formats} formats × {num_items} items, half of them fresh"
    return run


def components_case(num_formats: int, items: int | Clusters, sd: float) -> Callable:
    """Formats drawn at random with a standard deviation of ``sd`` logits."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    truth = float(true_scores(sd * nodes) @ weights / weights.sum())

    def run(rng: np.random.Generator) -> dict[str, Interval]:
        effects = sd * rng.standard_normal(num_formats)
        if isinstance(items, Clusters):
            names = items.drawn(rng)
            table = right_in_clusters(effects, names, rng)
            found = components(table, names.tolist())
        else:
            table = right(effects, items, rng)
            found = components(table)
        whole, single = found.over_formats(), found.one_format(float(table[0].mean()))
        return {
            "mean over formats": (whole.low, whole.high, truth),
            "one format, its choice included": (single.low, single.high, truth),
        }

    of = f", {items}" if isinstance(items, Clusters) else f" × {items} items"
    run.__doc__ = f"{num_formats} formats{of}, formats differ by {sd} logits (SD)"
    return run


RANKS = {
    "w": "Kendall's W",
    "tau": "mean tau-b",
    "flip_rate": "flip rate",
    "reversal": "reversal by 2 points",
}


def ranks_case(
    num_models: int, num_formats: int, items: int | Clusters, mixed: float, *, is_fixed: bool
) -> Callable:
    """Models 0.3 logits apart; formats favour models by ``mixed`` logits (SD).

    What formats do to models is drawn anew for each table, or once for all tables.
    """

    def drawn(rng: np.random.Generator) -> np.ndarray:
        apart = 0.3 * np.arange(num_models)[:, None]
        return apart + mixed * rng.standard_normal((num_models, num_formats))

    fixed = drawn(np.random.default_rng(5))

    def run(rng: np.random.Generator) -> dict[str, Interval]:
        effects = fixed if is_fixed else drawn(rng)
        names = items.drawn(rng) if isinstance(items, Clusters) else None
        table = (
            right(effects, items, rng) if names is None else right_in_clusters(effects, names, rng)
        )
        truth = rank_stability(true_scores(effects)[:, :, None], resamples=0)
        found = rank_stability(
            table,
            clusters=None if names is None else names.tolist(),
            resamples=400,
            splits=1,
            seed=int(rng.integers(1e9)),
        )
        pairs = {label: (getattr(found, n), getattr(truth, n)) for n, label in RANKS.items()}
        pairs["tau-b of one format"] = (found.tau_by_format[0], truth.tau_by_format[0])
        # A reversal may be undefined: no two models lie 2 points apart under any format.
        known = {k: (f.estimate, t.value) for k, (f, t) in pairs.items() if t.value is not None}
        return {
            label: ((None, None, true) if one is None else (one.low, one.high, true))
            for label, (one, true) in known.items()
        }

    of = f", {items}" if isinstance(items, Clusters) else f" × {items} items"
    once = "once" if is_fixed else "anew"
    run.__doc__ = (
        f"{num_models} models × {num_formats} formats{of}, mixed by {mixed} logits, drawn {once}"
    )
    return run


GAPS = (0.0, 0.4, 1.2)
CLUSTERED = (
    Clusters(5, 20),
    Clusters(10, 10),
    Clusters(20, 10),
    Clusters(30, 10),
    Clusters(100, 3),
    Clusters(30, 10, is_uneven=True),
)


def cases() -> Iterator[Callable]:
    """All settings, in the order of the table."""
    yield from spread_cases()
    for gap in (0.0, 0.8):
        yield chosen_case(10, 300, gap)
    yield from components_cases()
    yield from ranks_cases()


def spread_cases() -> Iterator[Callable]:
    """Spreads, without and with clusters."""
    sizes = ((2, 100), (4, 100), (4, 300), (10, 300), (20, 1000))
    for (num_formats, num_items), gap in product(sizes, GAPS):
        yield spread_case(num_formats, num_items, gap)
    for clusters, num_formats, gap in product(CLUSTERED, (2, 4, 10), GAPS):
        yield clustered_spread_case(num_formats, clusters, gap)


def components_cases() -> Iterator[Callable]:
    """Scores that include the choice of format, without and with clusters."""
    sizes = ((3, 100), (4, 300), (10, 300), (20, 1000))
    for (num_formats, num_items), sd in product(sizes, (0.1, 0.5)):
        yield components_case(num_formats, num_items, sd)
    for clusters, num_formats, sd in product(CLUSTERED, (4, 10), (0.1, 0.5)):
        yield components_case(num_formats, clusters, sd)


def ranks_cases() -> Iterator[Callable]:
    """Rank stability: effects drawn anew, clusters, and one set of effects for all tables."""
    sizes = (
        *((2, 6, 300), (3, 6, 100), (3, 3, 300), (5, 6, 100), (5, 20, 100)),
        *((5, 4, 300), (5, 6, 1000), (8, 6, 300)),
    )
    for size, mixed in product(sizes, (0.0, 0.1, 0.3, 0.8)):
        yield ranks_case(*size, mixed, is_fixed=False)
    for clusters, mixed in product((Clusters(10, 10), Clusters(30, 10)), (0.0, 0.3, 0.8)):
        yield ranks_case(5, 6, clusters, mixed, is_fixed=False)
    fixed = ((3, 6, 100), (4, 6, 200), (5, 6, 100), (5, 6, 1000), (6, 6, 1000))
    for size, mixed in product(fixed, (0.3, 0.8)):
        yield ranks_case(*size, mixed, is_fixed=True)


def row(label: str, setting: str, intervals: list[Interval]) -> str:
    """One line of the table: coverage, sides missed, width, tables without an interval."""
    known = [(low, high, truth) for low, high, truth in intervals if low is not None]
    missing = len(intervals) - len(known)
    if not known:
        return f"| {label} | {setting} | – | – | – | – | {missing} |"
    low, high, truth = (np.array(column, dtype=float) for column in zip(*known, strict=True))
    above, below = (low > truth + 1e-9).mean(), (high < truth - 1e-9).mean()
    cells = f"{1 - above - below:.3f} | {above:.3f} | {below:.3f} | {(high - low).mean():.3f}"
    return f"| {label} | {setting} | {cells} | {missing} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=1000, help="simulated tables per setting")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only settings with this word in them")
    chosen = parser.parse_args()
    print("| Interval | Setting | Holds | Too high | Too low | Mean width | None |")
    print("|---|---|---|---|---|---|---|")
    for case in cases():
        if chosen.only not in (case.__doc__ or ""):
            continue
        rng = np.random.default_rng(chosen.seed)
        found: dict[str, list[Interval]] = {}
        for _ in range(chosen.tables):
            for label, interval in case(rng).items():
                found.setdefault(label, []).append(interval)
        for label, intervals in found.items():
            print(row(label, case.__doc__ or "", intervals), flush=True)


if __name__ == "__main__":
    main()
