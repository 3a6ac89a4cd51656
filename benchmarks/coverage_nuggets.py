"""How often the intervals that ``nugget-eval`` prints hold the truth, on simulated labels.

    python benchmarks/coverage_nuggets.py [--sets 500] [--only agreement]

Prints a Markdown table: the share of data sets whose 95 % interval holds the value that the simulation
was built with, on which side the others miss, and the mean width. Topics differ in how much of them a
text supports and in how well the judge does, so that topics are what was drawn, with 5 to 20
nuggets each.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from lm_eval.stats.ranks import tau_b
from lm_eval.stats.resampling import Measured
from nugget_eval.data.records import Assignment, Nugget
from nugget_eval.reading import LABELS
from nugget_eval.scores import agreement as of_sums
from nugget_eval.scores.agreement import agreement, rater_agreement
from nugget_eval.scores.compare import compare_runs, run_agreement, tau_ap
from nugget_eval.scores.scores import RunScores, TopicScore, TopicScores, score_run

SEED = 20_261_116
TOPIC_SD = 1.0
GAINS = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}
ORDER = ("not_support", "partial_support", "support")
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()

Found = dict[str, tuple[Measured, float]]
"""What is printed → the interval, and the truth."""


def label_chances(support: np.ndarray) -> np.ndarray:
    """The chances of the three labels, by how much a topic is supported (logits)."""
    above = 1 / (1 + np.exp(-support))
    full = 1 / (1 + np.exp(-(support - 1.0)))
    return np.stack([1 - above, above - full, full], axis=-1)


def drawn(chances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A label number for each row of chances."""
    return (rng.random(len(chances))[:, None] > chances.cumsum(axis=1)[:, :2]).sum(axis=1)


def topics_of(num_topics: int, rng: np.random.Generator) -> np.ndarray:
    """The topic of each nugget."""
    return np.repeat(np.arange(num_topics), rng.integers(5, 21, num_topics))


# Scores of runs, and their differences


def scores_case(num_topics: int) -> Callable:
    """A run, and another that is worse by half a logit on the same topics."""
    gains = np.array([GAINS[label] for label in ORDER])
    strict = np.array([0.0, 0.0, 1.0])
    truth = {
        (name, shift): float(WEIGHTS @ (label_chances(TOPIC_SD * NODES + shift) @ values))
        for name, values in (("all_score", gains), ("strict_vital_score", strict))
        for shift in (0.0, -0.5)
    }

    def run(rng: np.random.Generator) -> Found:
        names = topics_of(num_topics, rng)
        hard = rng.normal(0, TOPIC_SD, num_topics)
        is_vital = rng.random(len(names)) < 0.6
        runs = []
        for shift, own in ((0.0, 0.0), (-0.5, 0.5)):
            # Runs suit topics differently, without a change of the spread over topics.
            mine = np.sqrt(1 - own**2) * hard + own * rng.normal(0, TOPIC_SD, num_topics)
            labels = drawn(label_chances(mine[names] + shift), rng)
            runs.append(score_run(_items(names, labels, is_vital)))
        found: Found = {}
        for name in ("all_score", "strict_vital_score"):
            first, second = truth[name, 0.0], truth[name, -0.5]
            found[f"score of a run, {name}"] = (runs[0].means[name].mean, first)
            difference = compare_runs(*runs, name).difference
            found[f"difference of two runs, {name}"] = (difference, first - second)
        return found

    run.__doc__ = f"scores, {num_topics} topics"
    return run


def _items(names: np.ndarray, labels: np.ndarray, is_vital: np.ndarray) -> list[Assignment]:
    by_topic: dict[int, list[Nugget]] = {}
    for topic, label, vital in zip(names.tolist(), labels.tolist(), is_vital.tolist(), strict=True):
        of = by_topic.setdefault(topic, [])
        of.append(Nugget(f"nugget {len(of)}", "vital" if vital else "okay", ORDER[label]))
    return [
        Assignment("query", f"t{topic}", "a text", 2, "run", tuple(nuggets))
        for topic, nuggets in by_topic.items()
    ]


# Agreement


def judged(gold: np.ndarray, skill: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A judge's labels: right with a chance by topic, else one step off, more often too high."""
    is_right = rng.random(len(gold)) < 1 / (1 + np.exp(-skill))
    step = np.where(rng.random(len(gold)) < 0.65, 1, -1)
    off = np.where(gold == 1, gold + step, 1)
    return np.where(is_right, gold, off)


def true_table(skill: float, skill_sd: float) -> np.ndarray:
    """The chance of each gold and judged label."""
    right = float(WEIGHTS @ (1 / (1 + np.exp(-(skill + skill_sd * NODES)))))
    gold = WEIGHTS @ label_chances(TOPIC_SD * NODES)
    off = np.array([[0.0, 1.0, 0.0], [0.35, 0.0, 0.65], [0.0, 1.0, 0.0]])
    return gold[:, None] * (right * np.eye(3) + (1 - right) * off)


def agreement_case(num_topics: int, skill: float) -> Callable:
    """A judge against gold, with topics and, for the same labels, without."""
    skill_sd = 0.7
    table = true_table(skill, skill_sd)
    sums = table.reshape(1, -1)
    mirrored = (table + table.T).reshape(1, -1) * 1e9  # so many items that none is a few
    statistics = {
        "accuracy": of_sums.accuracy(sums),
        "macro_f1": of_sums.macro_f1(sums),
        "kappa": of_sums.kappa(0)(sums),
        "kappa_linear": of_sums.kappa(1)(sums),
        "kappa_quadratic": of_sums.kappa(2)(sums),
        "mae": of_sums.mean_absolute_error(sums),
        "bias": of_sums.bias(sums),
        "alpha_nominal": of_sums.krippendorff(is_ordinal=False)(mirrored),
        "alpha_ordinal": of_sums.krippendorff(is_ordinal=True)(mirrored),
        "precision[partial_support]": of_sums.precision(1)(sums),
        "recall[support]": of_sums.recall(2)(sums),
        "f1[partial_support]": of_sums.f1(1)(sums),
    }

    def run(rng: np.random.Generator) -> Found:
        names = topics_of(num_topics, rng)
        gold = drawn(label_chances(rng.normal(0, TOPIC_SD, num_topics)[names]), rng)
        able = rng.normal(skill, skill_sd, num_topics)[names]
        labels = [[ORDER[k] for k in some.tolist()] for some in (gold, judged(gold, able, rng))]
        found = agreement(*labels, topics=names.tolist()).measures
        shown = {f"agreement, {name}": (found[name], float(t[0])) for name, t in statistics.items()}
        raters = {"gold": labels[0], "judge": labels[1]}
        both = rater_agreement(raters, topics=names.tolist()).measures
        shown["agreement of raters, fleiss"] = (both["fleiss"], _fleiss(table))
        return shown

    run.__doc__ = f"agreement, {num_topics} topics, a judge right in {np.trace(table):.0%}".replace(
        "%", " %"
    )
    return run


def _fleiss(table: np.ndarray) -> float:
    """Fleiss' kappa of two raters (Scott's pi)."""
    shares = (table.sum(axis=0) + table.sum(axis=1)) / 2
    chance = float(shares @ shares)
    return (float(np.trace(table)) - chance) / (1 - chance)


# Rankings of runs


def rankings_case(num_runs: int, num_topics: int, mixed: float) -> Callable:
    """People and a judge score runs; the judge favours runs by ``mixed`` (SD of a run's score)."""

    def run(rng: np.random.Generator) -> Found:
        quality = np.linspace(0.35, 0.65, num_runs)
        seen = quality + mixed * rng.standard_normal(num_runs)
        hard = rng.normal(0, 0.15, (num_topics, 1))
        shared = rng.normal(0, 0.15, (num_topics, num_runs))
        sides = [
            level + hard + shared + rng.normal(0, 0.1, (num_topics, num_runs))
            for level in (quality, seen)
        ]
        found = run_agreement(*(_scored(side) for side in sides), "all_score").measures
        pair = quality[None], seen[None]
        return {
            "order of runs, tau_b": (found["tau_b"], float(tau_b(*pair)[0])),
            "order of runs, tau_ap": (found["tau_ap"], float(tau_ap(*pair)[0])),
        }

    run.__doc__ = f"rankings, {num_runs} runs, {num_topics} topics, mixed by {mixed}"
    return run


def _scored(scores: np.ndarray) -> list[RunScores]:
    """Runs with these scores: topics × runs."""
    return [
        RunScores(
            f"run {place}",
            tuple(
                TopicScores(f"t{k}", {"all_score": TopicScore(value, value, value, 1, 1)})
                for k, value in enumerate(column.tolist())
            ),
            {},
        )
        for place, column in enumerate(scores.T)
    ]


def cases() -> Iterator[Callable]:
    """All settings, in the order of the table."""
    for num_topics in (5, 10, 20, 30, 60, 100):
        yield scores_case(num_topics)
    for num_topics in (5, 10, 20, 30, 60, 100):
        for skill in (0.7, 2.5):
            yield agreement_case(num_topics, skill)
    for num_runs, num_topics in ((4, 30), (10, 30), (10, 100), (20, 60)):
        for mixed in (0.0, 0.03, 0.1):
            yield rankings_case(num_runs, num_topics, mixed)


def row(label: str, setting: str, intervals: list[tuple[Measured, float]]) -> str:
    """One line: the share that holds the truth, the sides missed, the width, those without."""
    ends = [
        (one.estimate.low, one.estimate.high, truth)
        for one, truth in intervals
        if one.estimate is not None and one.estimate.low is not None
    ]
    low, high, truth = (np.array(column) for column in zip(*ends, strict=True))
    above, below = (low > truth + 1e-9).mean(), (high < truth - 1e-9).mean()
    cells = f"{1 - above - below:.3f} | {above:.3f} | {below:.3f} | {(high - low).mean():.3f}"
    return f"| {label} | {setting} | {cells} | {len(intervals) - len(ends)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=500, help="simulated data sets per setting")
    parser.add_argument("--only", default="", help="only settings with this word in them")
    chosen = parser.parse_args()
    assert set(ORDER) == set(LABELS)
    print("| Interval | Setting | Holds | Too high | Too low | Mean width | None |")
    print("|---|---|---|---|---|---|---|")
    for case in cases():
        if chosen.only not in (case.__doc__ or ""):
            continue
        rng = np.random.default_rng(SEED)
        found: dict[str, list[tuple[Measured, float]]] = {}
        for _ in range(chosen.sets):
            for label, pair in case(rng).items():
                found.setdefault(label, []).append(pair)
        for label, intervals in found.items():
            print(row(label, case.__doc__ or "", intervals), flush=True)


if __name__ == "__main__":
    main()
