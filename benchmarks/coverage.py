"""How often the 95 % intervals that are printed hold the truth: simulated, or computed exactly.

    python benchmarks/coverage.py                 all of them, 2,000 data sets each
    python benchmarks/coverage.py --sets 400 --only paired

Prints a Markdown table. Each printed interval has a function below that yields rows; a new interval
needs one more function with ``@measured``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from lm_eval.harness.aggregation import perplexity
from lm_eval.harness.stderr import value_and_stderr
from lm_eval.scoring.functions import majority_score, pass_chance
from lm_eval.stats.clusters import clustered_estimate
from lm_eval.stats.estimates import (
    Estimate,
    macro_f1,
    macro_f1_estimate,
    mean_estimate,
    pooled_estimate,
    share_estimate,
)
from lm_eval.stats.paired import mcnemar, paired, paired_share_interval
from lm_eval.stats.power import items_needed

SEED = 20_261_116


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    interval: str
    data: str
    coverage: float
    width: float | None
    sets: int | None
    """Simulated data sets; None where every outcome was counted with its chance."""


Measure = Callable[[int, np.random.Generator], Iterator[Row]]
MEASURES: dict[str, Measure] = {}


def measured(function: Measure) -> Measure:
    """Put a function into the table under its name."""
    MEASURES[function.__name__] = function
    return function


def simulated(interval: str, data: str, truth: float, found: Iterable[Estimate], sets: int) -> Row:
    """The share of ``found`` that hold ``truth``; one without an interval does not."""
    hits, width, count = 0, 0.0, 0
    for one in found:
        if one.low is not None and one.high is not None:
            hits += one.low - 1e-12 <= truth <= one.high + 1e-12
            width += one.high - one.low
            count += 1
    return Row(interval, data, hits / sets, width / count if count else None, sets)


# Scores


@measured
def share(_sets: int, _rng: np.random.Generator) -> Iterator[Row]:
    """Wilson's interval of a share, exactly."""
    for n in (10, 30, 100, 300):
        for p in (0.1, 0.5, 0.9):
            found = [share_estimate(k, n) for k in range(n + 1)]
            chances = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
            covered = sum(
                c for c, one in zip(chances, found, strict=True) if one.low <= p <= one.high
            )
            width = sum(c * (one.high - one.low) for c, one in zip(chances, found, strict=True))
            yield Row("`wilson`, share of right items", f"n = {n}, true {p}", covered, width, None)


@measured
def mean(sets: int, rng: np.random.Generator) -> Iterator[Row]:
    """The interval of Student's t of a mean of graded scores."""
    for n in (5, 10, 30, 100, 300):
        draws = rng.binomial(4, rng.beta(1.4, 0.6, (sets, n))) / 4
        found = (mean_estimate(row) for row in draws.tolist())
        yield simulated(
            "`t over items`, graded scores", f"n = {n}, skewed, true 0.7", 0.7, found, sets
        )


@measured
def clustered(sets: int, rng: np.random.Generator) -> Iterator[Row]:
    """The t interval over clusters of 10 items whose chances differ."""
    for num in (5, 10, 20, 30, 60):
        chance = rng.beta(1.4, 0.6, (sets, num))
        values = (rng.random((sets, num, 10)) < chance[:, :, None]).reshape(sets, -1).astype(float)
        names = [place // 10 for place in range(num * 10)]
        data = f"{num} clusters of 10, true 0.7"
        found = (clustered_estimate(row, names) for row in values)
        yield simulated("`t over … clusters`", data, 0.7, found, sets)
        plain = (mean_estimate(row) for row in values.tolist())
        yield simulated("(`wilson` if clusters are left out)", data, 0.7, plain, sets)


@measured
def repeats(sets: int, rng: np.random.Generator) -> Iterator[Row]:
    """Means, pass@k and maj@k over items with five replies each."""
    for n in (30, 100):
        chance = rng.beta(1, 1, (sets, n))
        counts = rng.binomial(5, chance).tolist()
        data = f"n = {n}, 5 replies each"
        found: Iterable[Estimate] = (mean_estimate([c / 5 for c in row]) for row in counts)
        yield simulated("score as the mean of replies", data, 0.5, found, sets)
        for k in (3, 5):
            chances = [pass_chance(c, 5, k) for c in range(6)]
            found = (mean_estimate([chances[c] for c in row]) for row in counts)
            yield simulated(f"`pass@{k}`", data, 1 - 1 / (k + 1), found, sets)
        # With wrong replies all alike, the majority of 5 is right with the chance of 3 or more.
        few = counts[: sets // 4]
        votes = [[("r", 1.0)] * c + [("w", 0.0)] * (5 - c) for c in range(6)]
        scores = [majority_score(replies, 5) for replies in votes]
        found = (mean_estimate([scores[c] for c in row]) for row in few)
        yield simulated("`maj@5`", data, 0.5, found, len(few))


@measured
def groups(sets: int, rng: np.random.Generator) -> Iterator[Row]:
    """Groups of tasks whose true scores differ, weighed by size and as a plain mean."""
    for sizes in ((5, 5), (10, 10, 10), (30, 30, 30), (20, 50, 300)):
        true = np.linspace(0.4, 0.8, len(sizes))
        for kind, trials in (("right or wrong", 1), ("graded", 4)):
            tables = [
                rng.binomial(trials, rng.beta(2 * p, 2 * (1 - p), (sets, n))) / trials
                for p, n in zip(true, sizes, strict=True)
            ]
            members = [[mean_estimate(row) for row in table.tolist()] for table in tables]
            for is_weighted in (True, False):
                found = (
                    pooled_estimate(some, weight_by_size=is_weighted)
                    for some in zip(*members, strict=True)
                )
                truth = float(np.average(true, weights=sizes if is_weighted else None))
                name = "`wilson` or `pooled`, " + (
                    "weighed by size" if is_weighted else "plain mean"
                )
                data = f"{kind}, tasks of {', '.join(map(str, sizes))} items"
                yield simulated(f"group, {name}", data, truth, found, sets)


@measured
def classes(sets: int, rng: np.random.Generator) -> Iterator[Row]:
    """The bootstrap interval of macro F1, a quarter as many data sets."""
    few = max(1, sets // 4)
    for num, weight in ((2, 1.0), (4, 1.0), (4, 0.6)):
        gold = weight ** np.arange(num)
        gold = gold / gold.sum()
        table = gold[:, None] * np.where(np.eye(num) > 0, 0.75, 0.25 / (num - 1))
        cells = [(i, j) for i in range(num) for j in range(num)]
        truth = macro_f1(dict(zip(cells, table.ravel().tolist(), strict=True)))
        for n in (30, 100, 300):
            drawn = rng.choice(len(cells), (few, n), p=table.ravel()).tolist()
            found = (macro_f1_estimate([cells[k] for k in row], iters=400) for row in drawn)
            kind = "even" if weight == 1 else "uneven"
            yield simulated(
                "`bootstrap`, f1_macro", f"n = {n}, {num} {kind} classes", truth, found, few
            )


@measured
def corpus_scores(sets: int, rng: np.random.Generator) -> Iterator[Row]:
    """Perplexity, with the standard error that EleutherAI's harness makes by resampling."""
    few = max(1, sets // 4)
    for n in (30, 100, 300):
        values = -rng.gamma(2.0, 0.5, (few, n))
        found = []
        for row in values.tolist():
            value, error = value_and_stderr("perplexity", row, perplexity, 1000)
            found.append(Estimate(value, error, value - 1.96 * error, value + 1.96 * error, n, ""))
        data = f"n = {n}, skewed log-likelihoods"
        yield simulated("`normal`, perplexity", data, math.exp(1.0), found, few)


# Differences


@measured
def paired_shares(_sets: int, _rng: np.random.Generator) -> Iterator[Row]:
    """Tango's interval of a paired difference, exactly, beside Wald's."""
    for n in (10, 20, 50, 100):
        ends = {
            (b, c): (paired_share_interval(b, c, n), _wald(b, c, n))
            for b in range(n + 1)
            for c in range(n - b + 1)
        }
        for win, lose in ((0.02, 0.05), (0.1, 0.1), (0.05, 0.2), (0.3, 0.3)):
            chances = {table: _trinomial(*table, n, win, lose) for table in ends}
            for place, name in enumerate(("`tango`, paired difference", "(Wald's, not printed)")):
                covered = width = 0.0
                for table, chance in chances.items():
                    low, high = ends[table][place]
                    covered += chance * (low - 1e-12 <= win - lose <= high + 1e-12)
                    width += chance * (high - low)
                data = f"n = {n}, wins {win:.0%}, losses {lose:.0%}".replace("%", " %")
                yield Row(name, data, covered, width, None)


def _wald(wins: int, losses: int, n: int) -> tuple[float, float]:
    centre = (wins - losses) / n
    half = 1.959964 * math.sqrt(max(0.0, wins + losses - (wins - losses) ** 2 / n)) / n
    return centre - half, centre + half


def _trinomial(b: int, c: int, n: int, win: float, lose: float) -> float:
    ways = math.lgamma(n + 1) - math.lgamma(b + 1) - math.lgamma(c + 1) - math.lgamma(n - b - c + 1)
    logs = b * math.log(win) + c * math.log(lose) + (n - b - c) * math.log(1 - win - lose)
    return math.exp(ways + logs)


@measured
def paired_graded(sets: int, rng: np.random.Generator) -> Iterator[Row]:
    """The t interval of the difference of graded scores (five replies to each item)."""
    for n in (5, 10, 14):
        chance = rng.beta(1.4, 0.6, (sets, n))
        first = rng.binomial(5, chance) / 5
        second = rng.binomial(5, 0.9 * chance) / 5
        found = (paired(a, b).difference for a, b in zip(first, second, strict=True))
        data = f"n = {n}, 5 replies each, true 0.07"
        yield simulated("`t over items`, paired difference", data, 0.07, found, sets)


@measured
def paired_clustered(sets: int, rng: np.random.Generator) -> Iterator[Row]:
    """The t interval of a paired difference over clusters of 5 items."""
    for num in (5, 10, 14):
        shift = rng.choice([0.0, 0.3], (sets, num))[:, :, None]
        base = rng.random((sets, num, 5))
        first = (base < 0.4 + shift).reshape(sets, -1).astype(float)
        second = (rng.random((sets, num, 5)) < 0.4).reshape(sets, -1).astype(float)
        names = [place // 5 for place in range(num * 5)]
        found = (
            paired(a, b, clusters=names).difference for a, b in zip(first, second, strict=True)
        )
        data = f"{num} clusters of 5, true 0.15"
        yield simulated("`t over … clusters`, paired difference", data, 0.15, found, sets)


# Tests and plans: what is counted is how often they reject


@measured
def tests_under_no_effect(sets: int, rng: np.random.Generator) -> Iterator[Row]:
    """How often p ≤ 0.05 where there is no difference; at most 5 % is what a test promises."""
    for n, rate in ((20, 0.2), (100, 0.1), (300, 0.2)):
        exact = mid = 0.0
        for num in range(n + 1):
            chance = math.comb(n, num) * rate**num * (1 - rate) ** (n - num)
            for wins in range(num + 1):
                p, p_mid = mcnemar(wins, num - wins)
                share_ = chance * math.comb(num, wins) / 2**num
                exact += share_ * (p <= 0.05)
                mid += share_ * (p_mid <= 0.05)
        data = f"n = {n}, {rate:.0%} discordant".replace("%", " %")
        yield Row("rejections of exact McNemar at 5 %", data, exact, None, None)
        yield Row("rejections of its mid-p at 5 %", data, mid, None, None)
    for num in (8, 14):
        scores = rng.normal(0.5, 0.1, (sets, 2, num))
        rejected = sum(paired(*pair).p <= 0.05 for pair in scores)
        data = f"{num} items, graded scores"
        yield Row("rejections of exact sign flips at 5 %", data, rejected / sets, None, sets)


@measured
def planned(sets: int, rng: np.random.Generator) -> Iterator[Row]:
    """How often a true difference shows on as many items as `lm-eval power` names for 80 %."""
    for win, lose in ((0.20, 0.08), (0.12, 0.08), (0.3, 0.2)):
        n = math.ceil(items_needed(win - lose, variance=win + lose))
        tables = rng.multinomial(n, [win, lose, 1 - win - lose], sets).tolist()
        for name, place in (("exact McNemar", 0), ("mid-p", 1)):
            found = sum(mcnemar(b, c)[place] <= 0.05 for b, c, _ in tables) / sets
            data = f"true {win - lose:.2f}, {win + lose:.0%} discordant, n = {n}".replace("%", " %")
            yield Row(f"differences found by {name}, planned for 80 %", data, found, None, sets)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=2000, help="data sets for each row")
    parser.add_argument("--only", default="", help="functions whose name holds this")
    args = parser.parse_args()
    print("| What is printed | Data | Holds the truth | Mean width | How measured |")
    print("|---|---|---:|---:|---|")
    for name, function in MEASURES.items():
        if args.only in name:
            for row in function(args.sets, np.random.default_rng(SEED)):
                width = "" if row.width is None else f"{row.width:.3f}"
                how = "exactly" if row.sets is None else f"{row.sets:,} data sets"
                print(
                    f"| {row.interval} | {row.data} | {100 * row.coverage:.1f} % | {width} | {how} |"
                )
                sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
