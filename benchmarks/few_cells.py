"""How far off the distribution over formats is that few cells give, and what its intervals cover.

    python benchmarks/few_cells.py [--reps 12] [--first 1000] [--jobs 2] [--cases 100x300x800,50x200x400]

Prints Markdown: the error (first Wasserstein distance between estimated and true scores of the
formats) beside that of plain averages and of ridge Rasch (C = 100, needs scikit-learn), the estimated
spread relative to the true one, the share of "95 %" intervals that hold the truth, and how much wider
than the model's they must be for that: the table ``WIDER`` of ``lm_eval.stats.few_cells``. About 0.1
CPU seconds for each data set.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from lm_eval.stats import few_cells
from lm_eval.stats.estimates import Estimate
from lm_eval.stats.few_cells import Distribution, balanced_cells, estimate_distribution

CASES = "100x300x400,100x300x800,100x300x1600,50x200x400,30x100x200,20x500x400"
QUANTITIES = ("mean", "q5", "q50", "q95", "spread", "format")
WIDER = {
    "mean": "mean",
    "q50": "median",
    "spread": "spread",
    "format": "format",
}
"""Kinds of intervals; all others: quantile."""


def normal(size: float) -> Callable[[Any, int], Any]:
    return lambda rng, count: size * rng.standard_normal(count)


def broken(rng: Any, count: int) -> Any:
    return 0.3 * rng.standard_normal(count) - 2.5 * (rng.random(count) < 0.15)


def heavy(rng: Any, count: int) -> Any:
    return 0.3 * rng.standard_t(2.5, count)


GENERATORS = {
    "none": normal(0.0),
    "small, s = 0.15": normal(0.15),
    "medium, s = 0.4": normal(0.4),
    "large, s = 0.9": normal(0.9),
    "15 % broken": broken,
    "medium, clusters of 10": normal(0.4),
    "heavy tails (held out)": heavy,
}
"""Effects of formats, in logits. ``WIDER`` is learned without the last one, but for the spread."""
HELD_OUT = 1


def data(name: str, formats: int, items: int, seed: int) -> Any:
    """Right and wrong: formats differ, items differ, and so do single cells.

    In clusters of ten items, half of the variance of items and of cells is the cluster's.
    """
    rng = np.random.default_rng((seed, 11))
    of = np.arange(items) // 10

    def noise(*shape: int) -> Any:
        own = rng.standard_normal(shape)
        if "clusters" not in name:
            return own
        return (own + rng.standard_normal((*shape[:-1], of[-1] + 1))[..., of]) / np.sqrt(2)

    logits = 0.5 + GENERATORS[name](rng, formats)[:, None] + 1.3 * noise(items)
    logits = logits + 0.5 * noise(formats, items)
    return (rng.random((formats, items)) < expit(logits)).astype(float)


def seen_average(cells: Any, outcomes: Any, formats: int) -> Any:
    """The plain mean of each format's cells."""
    return np.bincount(cells[:, 0], outcomes, formats) / np.bincount(cells[:, 0], minlength=formats)


def ridge_rasch(cells: Any, outcomes: Any, formats: int, items: int) -> Any:
    """Scores with unseen cells filled by a logistic regression on formats and items."""
    place = np.arange(len(cells))
    ones = np.ones(len(cells))
    rows = sparse.csr_array((ones, (place, cells[:, 0])), shape=(len(cells), formats))
    columns = sparse.csr_array((ones, (place, cells[:, 1])), shape=(len(cells), items))
    model = LogisticRegression(C=100.0, max_iter=2000)
    model.fit(sparse.hstack([rows, columns]).tocsr(), outcomes)
    weights = model.coef_[0]
    filled = expit(model.intercept_[0] + weights[:formats, None] + weights[formats:])
    filled[cells[:, 0], cells[:, 1]] = outcomes
    return filled.mean(axis=1)


def distance(estimated: Any, true: Any) -> float:
    return float(np.abs(np.sort(estimated) - np.sort(true)).mean())


def needed(estimate: Estimate, true: float) -> float:
    """How many times wider the interval must be to hold the truth; at most 1: it holds it."""
    assert estimate.low is not None
    assert estimate.high is not None
    width = (
        estimate.high - estimate.value if true > estimate.value else estimate.value - estimate.low
    )
    away = abs(true - estimate.value)
    return 0.0 if away == 0.0 else away / width if width else np.inf


def widths(found: Distribution, true: Any) -> list[list[float]]:
    """For each of ``QUANTITIES`` the factors that its intervals need."""
    truth = [true.mean(), *np.quantile(true, [0.05, 0.5, 0.95]), np.ptp(true)]
    estimates = [found.mean, *found.quantiles.values(), found.spread]
    single = [[needed(e, t)] for e, t in zip(estimates, truth, strict=True)]
    return [*single, [needed(e, t) for e, t in zip(found.per_format, true, strict=True)]]


class Case:
    """What one generator gave at one size and budget."""

    def __init__(self, formats: int, items: int, budget: int, name: str, seeds: range) -> None:
        self.name, self.size = name, f"{formats} × {items}, {budget}"
        self.errors: list[list[float]] = []
        self.spreads: list[tuple[float, float, float]] = []
        self.widths: list[list[float]] = [[] for _ in QUANTITIES]
        self.seconds = 0.0
        for seed in seeds:
            self._add(data(name, formats, items, seed), budget, seed)

    def _add(self, scores: Any, budget: int, seed: int) -> None:
        formats, items = scores.shape
        cells = balanced_cells(formats, items, budget, seed)
        places, true = np.array(cells), scores.mean(axis=1)
        outcomes = scores[places[:, 0], places[:, 1]]
        start = time.process_time()
        found = estimate_distribution(cells, outcomes, formats, items, seed=seed)
        self.seconds += time.process_time() - start
        rivals = (
            seen_average(places, outcomes, formats),
            ridge_rasch(places, outcomes, formats, items),
        )
        self.errors.append([distance(each, true) for each in (*rivals, found.ordered)])
        mean_of_draws = found.ordered[-1] - found.ordered[0]
        self.spreads.append((float(np.ptp(true)), mean_of_draws, found.spread.value))
        for kept, new in zip(self.widths, widths(found, true), strict=True):
            kept.extend(new)

    def covered(self, factors: Sequence[float]) -> list[float]:
        return [
            float((np.array(kept) <= factor).mean())
            for kept, factor in zip(self.widths, factors, strict=True)
        ]


def row(*fields: object) -> str:
    return "| " + " | ".join(str(field) for field in fields) + " |"


def show(cases: Sequence[Case], reps: int) -> None:
    print(f"\nMean error over {reps} data sets (first Wasserstein distance)\n")
    print(
        row(
            "formats × items, cells",
            "formats",
            "seen average",
            "ridge Rasch",
            "ours",
            "ours / Rasch",
        )
    )
    print(row(*["---"] * 6))
    for case in cases:
        average, rasch, ours = np.mean(case.errors, axis=0)
        print(
            row(
                case.size,
                case.name,
                *(f"{e:.3f}" for e in (average, rasch, ours)),
                f"{ours / rasch:.2f}",
            )
        )
    show_spreads(cases, reps)
    print('\nShare of "95 %" intervals that hold the truth\n')
    print(row("formats × items, cells", "formats", *QUANTITIES, "CPU s"))
    print(row(*["---"] * (len(QUANTITIES) + 3)))
    for case in cases:
        held = (f"{c:.2f}" for c in case.covered([1.0] * len(QUANTITIES)))
        print(row(case.size, case.name, *held, f"{case.seconds / reps:.2f}"))
    summarise(cases)


def show_spreads(cases: Sequence[Case], reps: int) -> None:
    """The estimated spread over the true one: the mean of the draws, and the cautious value given."""
    print(f"\nBest minus worst, relative to the truth; means over {reps} data sets\n")
    names = (
        "true spread",
        "mean of draws",
        "value given",
        "error of the mean",
        "error of the value",
    )
    print(row("formats × items, cells", "formats", *names))
    print(row(*["---"] * 7))
    for case in cases:
        true, mean, value = np.array(case.spreads).T
        ratios = (f"{each.mean() / true.mean():.2f}" for each in (mean, value))
        errors = (f"{np.abs(each - true).mean():.3f}" for each in (mean, value))
        print(row(case.size, case.name, f"{true.mean():.3f}", *ratios, *errors))


def summarise(cases: Sequence[Case]) -> None:
    """Coverage of each generator over all sizes, and the factors that would bring it to 0.95."""
    print("\nOver all sizes and budgets\n")
    print(row("formats", *QUANTITIES))
    print(row(*["---"] * (len(QUANTITIES) + 1)))
    pooled = {}
    for name in GENERATORS:
        mine = [case for case in cases if case.name == name]
        pooled[name] = [
            np.concatenate(kept) for kept in zip(*(c.widths for c in mine), strict=True)
        ]
        print(row(name, *(f"{(kept <= 1.0).mean():.3f}" for kept in pooled[name])))
    learned = list(pooled.values())[:-HELD_OUT]
    print("\nTimes wider than now for 0.95 in each of these but the last\n")
    for place, quantity in enumerate(QUANTITIES):
        factors = [float(np.quantile(kept[place], 0.95)) for kept in learned]
        now = few_cells.WIDER[WIDER.get(quantity, "quantile")]
        print(
            f"- {quantity}: {max(factors):.2f} ({', '.join(f'{f:.2f}' for f in factors)}), now {now}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reps", type=int, default=12)
    parser.add_argument(
        "--first",
        type=int,
        default=0,
        help="first seed; lm_eval.stats.few_cells names those that chose WIDER",
    )
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    sizes = [[int(part) for part in case.split("x")] for case in arguments.cases.split(",")]
    seeds = range(arguments.first, arguments.first + arguments.reps)
    todo = [(*size, name, seeds) for size in sizes for name in GENERATORS]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        cases = list(pool.map(Case, *zip(*todo, strict=True)))
    show(cases, arguments.reps)


if __name__ == "__main__":
    main()
