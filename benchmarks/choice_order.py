"""How often the intervals of ``--permute`` hold the truth, and what debiasing gives back.

    python benchmarks/choice_order.py [--tasks 2000] [--docs 100 300]

Simulated docs have four choices. The log-probability of a position is its prior, plus what the model
thinks of the choice that stands there (the gold is ahead by a normal amount), plus noise of that order.
The truth of a score is its mean over many docs, with the prior known. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from lm_eval.orders.permutation import orders
from lm_eval.stats.estimates import Estimate, mean_estimate
from lm_eval.stats.positions import best, content, mean_prior, position_prior, without_prior

PRIOR = (0.4, 0.25, 0.2, 0.15)
AHEAD, SPREAD, NOISE = 0.6, 1.0, 0.4
ORDERS = orders(4, "cyclic")
TRUTH_DOCS = 400_000

Rows = list[list[float]]
"""One doc: the log-probabilities of the positions in each order. Its gold is choice 0."""


def draw(rng: random.Random) -> Rows:
    """A doc, asked in every cyclic order."""
    beliefs = [rng.gauss(0, 0.7) for _ in range(4)]
    beliefs[0] += rng.gauss(AHEAD, SPREAD)
    return [
        [math.log(PRIOR[at]) + beliefs[choice] + rng.gauss(0, NOISE) for at, choice in enumerate(o)]
        for o in ORDERS
    ]


def raw(doc: Rows, start: int) -> float:
    """Whether the doc is right in one order; in ``ORDERS[0]`` its gold stands first."""
    row, order = doc[start], ORDERS[start]
    return float(order[row.index(max(row))] == 0)


def cyclic(doc: Rows) -> float:
    found = best(content(list(zip(ORDERS, doc, strict=True))))
    return (0 in found) / len(found)


def over_orders(doc: Rows) -> float:
    return sum(raw(doc, start) for start in range(4)) / 4


def changed(doc: Rows) -> float:
    picks = {order[row.index(max(row))] for order, row in zip(ORDERS, doc, strict=True)}
    return float(len(picks) > 1)


def once(doc: Rows, start: int, prior: Sequence[float]) -> float:
    found = [ORDERS[start][at] for at in best(without_prior(doc[start], prior))]
    return (0 in found) / len(found)


def pride(docs: Sequence[Rows], share: float = 0.05) -> list[float]:
    """The values of a task under ``pride``: the first docs are those that it learns from."""
    few = max(5, math.ceil(share * len(docs)))
    prior = mean_prior([position_prior(doc) for doc in docs[:few]])
    return [cyclic(doc) for doc in docs[:few]] + [
        once(doc, place % 4, prior) for place, doc in enumerate(docs[few:])
    ]


def truths(rng: random.Random) -> dict[str, float]:
    docs = [draw(rng) for _ in range(TRUTH_DOCS)]
    known = [once(doc, place % 4, PRIOR) for place, doc in enumerate(docs)]
    return {name: mean(measure(docs)) for name, measure in MEASURES.items()} | {
        "acc_debiased, pride": 0.05 * mean([cyclic(doc) for doc in docs]) + 0.95 * mean(known)
    }


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


MEASURES: dict[str, Callable[[Sequence[Rows]], list[float]]] = {
    "acc": lambda docs: [raw(doc, place % 4) for place, doc in enumerate(docs)],
    "acc_debiased, cyclic": lambda docs: [cyclic(doc) for doc in docs],
    "acc_debiased, pride": pride,
    "acc_over_orders": lambda docs: [over_orders(doc) for doc in docs],
    "acc, gold at A": lambda docs: [raw(doc, 0) for doc in docs],
    "answer changes": lambda docs: [changed(doc) for doc in docs],
}


def covers(estimate: Estimate, truth: float) -> bool:
    return estimate.low is not None and estimate.high is not None and (
        estimate.low <= truth <= estimate.high
    )  # fmt: skip


def simulated(tasks: int, size: int, truth: dict[str, float]) -> Iterator[tuple[str, str, int]]:
    """Each measure with how its interval was made, and how many tasks it covered the truth in."""
    rng = random.Random(f"{size} docs")
    hits = dict.fromkeys(MEASURES, 0)
    methods = dict.fromkeys(MEASURES, "")
    for _ in range(tasks):
        docs = [draw(rng) for _ in range(size)]
        for name, measure in MEASURES.items():
            estimate = mean_estimate(measure(docs))
            hits[name] += covers(estimate, truth[name])
            methods[name] = estimate.method
    for name in MEASURES:
        yield name, methods[name], hits[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--docs", type=int, nargs="+", default=[100, 300])
    args = parser.parse_args()
    truth = truths(random.Random(0))
    print(
        "| Score | True | Docs | Interval | Holds the truth |\n| --- | ---: | ---: | --- | ---: |"
    )
    for size in args.docs:
        for name, method, hits in simulated(args.tasks, size, truth):
            share = 100 * hits / args.tasks
            print(f"| {name} | {truth[name]:.3f} | {size} | {method} | {share:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
