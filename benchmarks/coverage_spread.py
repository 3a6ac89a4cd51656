"""How often the intervals about formats hold the truth, on simulated scores.

    python benchmarks/coverage_spread.py [--tables 1000] [--seed 1] [--only models]

Prints a Markdown table: the share of tables whose 95 % interval holds the value that the simulation was
built with, and the mean width. Items are right with a chance that depends on the item and on the format
(logistic), so that the truth is the same question on endless items of the same kind.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from lm_eval.stats.components import components
from lm_eval.stats.paired import paired
from lm_eval.stats.ranks import rank_stability
from lm_eval.stats.spread import spread

Interval = tuple[float | None, float | None, float]
"""Low, high and the truth."""
ITEM_SD = 1.5


def right(effects: np.ndarray, num_items: int, rng: np.random.Generator) -> np.ndarray:
    """Scores of 0 and 1 for each effect (on the logit scale) and item."""
    items = rng.normal(0.3, ITEM_SD, num_items)
    chances = 1 / (1 + np.exp(-(effects[..., None] + items)))
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


def components_case(num_formats: int, num_items: int, sd: float) -> Callable:
    """Formats drawn at random with a standard deviation of ``sd`` logits."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    truth = float(true_scores(sd * nodes) @ weights / weights.sum())

    def run(rng: np.random.Generator) -> dict[str, Interval]:
        table = right(sd * rng.standard_normal(num_formats), num_items, rng)
        found = components(table)
        whole, single = found.over_formats(), found.one_format(float(table[0].mean()))
        return {
            "mean over formats": (whole.low, whole.high, truth),
            "one format, its choice included": (single.low, single.high, truth),
        }

    run.__doc__ = f"{num_formats} formats × {num_items} items, formats differ by {sd} logits (SD)"
    return run


def ranks_case(num_models: int, num_items: int, step: float, mixed: float) -> Callable:
    """Models ``step`` logits apart; formats favour models by ``mixed`` logits (SD)."""
    rng = np.random.default_rng(5)
    effects = step * np.arange(num_models)[:, None] + mixed * rng.standard_normal((num_models, 6))
    truth = rank_stability(true_scores(effects)[:, :, None], resamples=0)

    def run(rng: np.random.Generator) -> dict[str, Interval]:
        table = right(effects, num_items, rng)
        found = rank_stability(table, resamples=300, splits=1, seed=int(rng.integers(1e9)))
        names = {"w": "Kendall's W", "tau": "mean tau-b", "flip_rate": "flip rate"}
        shown = {}
        for name, label in {**names, "reversal": "reversal by 2 points"}.items():
            estimate = getattr(found, name).estimate
            ends = (None, None) if estimate is None else (estimate.low, estimate.high)
            shown[label] = (*ends, getattr(truth, name).value)
        return shown

    run.__doc__ = (
        f"{num_models} models × 6 formats × {num_items} items, {step} logits apart, "
        f"mixed by {mixed} (true W {truth.w.value:.2f})"
    )
    return run


def cases() -> Iterator[Callable]:
    """All settings, in the order of the table."""
    for num_formats, num_items in ((2, 100), (4, 100), (4, 300), (10, 300), (20, 1000)):
        for gap in (0.0, 0.4, 1.2):
            yield spread_case(num_formats, num_items, gap)
    for gap in (0.0, 0.8):
        yield chosen_case(10, 300, gap)
    for num_formats, num_items in ((3, 100), (4, 300), (10, 300), (20, 1000)):
        for sd in (0.1, 0.5):
            yield components_case(num_formats, num_items, sd)
    for num_models, num_items in ((3, 100), (4, 200), (4, 1000), (5, 100), (5, 1000), (6, 1000)):
        for mixed in (0.0, 0.1, 0.3, 0.8):
            yield ranks_case(num_models, num_items, 0.3, mixed)


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
