"""Answers to a question about power: how often n items and replies find a given difference.

In: how much scores vary (``Assumptions``, from flags or from the pairs of stored runs), and a
``Question``. Out: ``PowerRow``s, one for each difference or number of replies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median, variance

from lm_eval.errors import ComparisonError, listing
from lm_eval.lab.stored.measurement import Aligned, Measurement, align
from lm_eval.lab.stored.run import StoredRun, open_runs
from lm_eval.lab.stored.select import Choice, chosen
from lm_eval.stats.mcnemar import MOST_DISCORDANT, exact_detectable, exact_items, exact_power
from lm_eval.stats.paired import MCNEMAR, paired
from lm_eval.stats.power import (
    ALPHA,
    POWER,
    can_find,
    detectable,
    items_needed,
    power_of,
    repeats_needed,
    total_variance,
)

DIFFERENCES = (0.01, 0.02, 0.03, 0.05, 0.1)
"""The differences to look for if none is given."""
NORMAL = "normal approximation"
REPEATS = (1, 2, 5, 10)
"""The numbers of replies per item to show if replies vary and no number is given."""


@dataclass(frozen=True)
class Assumptions:
    """How much the difference of two scores varies."""

    label: str
    """Where this comes from, such as ``t@mcqa − t@cloze``."""
    variance: float
    """The variance of the difference between an item's two scores."""
    within: float = 0.0
    """The variance of single replies around the mean of their item, the same for both."""
    num_items: int | None = None
    """Items of the stored run."""
    num_clusters: int | None = None
    """Clusters of its items; None if there are none."""
    repeats: int = 1
    """Replies to each item in the stored run."""
    seen: float | None = None
    """The difference in the stored run."""
    limit: float = math.inf
    """The largest possible difference."""
    discordant: float | None = None
    """The share of items that are right under one of the two only, if McNemar's exact test will be used;
    otherwise None."""


@dataclass(frozen=True)
class Question:
    """What is asked; the fields that are None are looked for."""

    difference: float | None = None
    items: int | None = None
    repeats: int | None = None
    alpha: float = ALPHA
    power: float = POWER
    comparisons: int = 1
    """How many comparisons are tested together, with p-values adjusted by Holm."""

    @property
    def level(self) -> float:
        """The level of one comparison: that of Holm's first and strictest step."""
        return self.alpha / self.comparisons

    @property
    def aims(self) -> dict[str, float]:
        """The level and the power, as the functions of ``lm_eval.stats`` take them."""
        return {"alpha": self.level, "power": self.power}


@dataclass(frozen=True)
class PowerRow:
    """One answer: with this many items and repeats, this difference is found with this chance."""

    label: str
    difference: float | None
    """None: no possible difference."""
    items: int
    repeats: int | None
    """None: no number of repeats is enough."""
    power: float
    test: str = NORMAL
    """``exact McNemar`` for right or wrong, without clusters and repeats, unless items are very many."""


def power_rows(assumed: Assumptions, question: Question) -> Iterator[PowerRow]:
    """The answers for one of the assumptions."""
    items = question.items
    if items is None and question.difference is None:
        items = assumed.num_items
    if items is None:
        wanted = DIFFERENCES if question.difference is None else (question.difference,)
        for difference in wanted:
            if difference <= assumed.limit:
                for repeats in _repeats(assumed, question):
                    yield items_row(assumed, question, difference, repeats)
    elif question.difference is None:
        for repeats in _repeats(assumed, question):
            yield _difference_row(assumed, question, items, repeats)
    else:
        yield from _chance_rows(assumed, question, items, question.difference)


def items_row(
    assumed: Assumptions, question: Question, difference: float, repeats: int
) -> PowerRow:
    """How many items a difference needs."""
    if assumed.discordant is not None:
        share = discordant_share(assumed.discordant, difference)
        by_test = exact_items(difference, discordant=share, **question.aims)
        if by_test is not None:
            return PowerRow(assumed.label, difference, by_test, repeats, question.power, MCNEMAR)
    needed = items_needed(difference, variance=_total(assumed, repeats), **question.aims)
    return PowerRow(assumed.label, difference, max(1, math.ceil(needed)), repeats, question.power)


def _difference_row(assumed: Assumptions, question: Question, items: int, repeats: int) -> PowerRow:
    smallest: float | None
    is_exact = assumed.discordant is not None and items * assumed.discordant <= MOST_DISCORDANT
    if assumed.discordant is not None and is_exact:
        smallest = exact_detectable(
            items, discordant=assumed.discordant, largest=assumed.limit, **question.aims
        )
    else:
        smallest = detectable(items, variance=_total(assumed, repeats), **question.aims)
        units = assumed.num_clusters if items == assumed.num_items else None
        if smallest > assumed.limit or not can_find(units or items, question.level):
            smallest = None
    test = MCNEMAR if is_exact else NORMAL
    return PowerRow(assumed.label, smallest, items, repeats, question.power, test)


def discordant_share(assumed: float, difference: float) -> float:
    """The share of discordant items: as assumed, but at least as large as the difference."""
    return min(1.0, max(assumed, abs(difference)))


def _chance_rows(
    assumed: Assumptions, question: Question, items: int, difference: float
) -> Iterator[PowerRow]:
    repeats = question.repeats or assumed.repeats
    exact = None
    if assumed.discordant is not None:
        share = discordant_share(assumed.discordant, difference)
        exact = exact_power(difference, items, discordant=share, alpha=question.level)
    if exact is not None:
        yield PowerRow(assumed.label, difference, items, repeats, exact, MCNEMAR)
        return
    chance = power_of(difference, items, variance=_total(assumed, repeats), alpha=question.level)
    yield PowerRow(assumed.label, difference, items, repeats, chance)
    if assumed.within and question.repeats is None:
        by_formula = repeats_needed(
            difference, items, variance=assumed.variance, within=assumed.within, **question.aims
        )
        needed = None if by_formula is None else math.ceil(by_formula - 1e-9)
        if needed is None or needed > repeats:
            yield PowerRow(assumed.label, difference, items, needed, question.power)


def _repeats(assumed: Assumptions, question: Question) -> Sequence[int]:
    if question.repeats is not None:
        return [question.repeats]
    return sorted({*REPEATS, assumed.repeats}) if assumed.within else [1]


def _total(assumed: Assumptions, repeats: int) -> float:
    return total_variance(assumed.variance, assumed.within, repeats)


MANY_PAIRS = 10


def pairs_in_runs(
    paths: Sequence[str], choice: Choice | None = None, *, intersect: bool = False
) -> tuple[list[Assumptions], list[str]]:
    """Every two formats of one model, every two models under one format, and notes on the choice.

    Results are chosen as for a comparison. Different items are an error, unless ``intersect`` asks for
    those that both of a pair have. Of more than ten pairs, only those with the smallest, the median and
    the largest variance.
    """
    runs = open_runs(paths)
    measurements, notes = chosen(runs, choice)
    pairs = [(a, b) for a, b in combinations(measurements, 2) if _is_pair(a, b)]
    if not pairs:
        raise ComparisonError(" ".join([_nothing_to_pair(measurements), *notes]))
    run_of = {str(run.path): run for run in runs}
    has_models = len({measured.model for measured in measurements}) > 1
    of_pairs = [
        _assumptions(
            align([a, b], intersect=intersect),
            [_ReplyVariance.of(run_of[measured.run], measured) for measured in (a, b)],
            _label(a, b, has_models=has_models),
        )
        for a, b in pairs
    ]
    varying = [pair for pair in of_pairs if pair.variance + pair.within > 0]
    if not varying:
        raise ComparisonError(
            f"{of_pairs[0].label}: both scored the same on all {of_pairs[0].num_items} items, so there "
            "is no variance to plan with. Run more items, or assume one: --discordant 0.1."
        )
    return (varying if len(varying) <= MANY_PAIRS else _three(varying)), notes


_ALL_FORMATS = "--tasks 'TASK@*'"


def _is_pair(a: Measurement, b: Measurement) -> bool:
    return a.task == b.task and (a.model == b.model) != (a.format == b.format)


def _nothing_to_pair(measurements: Sequence[Measurement]) -> str:
    names = listing([f"{measured.name} ({measured.model})" for measured in measurements], 6)
    command = next((f"`{m.more_formats}`" for m in measurements if m.more_formats), None)
    return (
        f"There is nothing to compare: two formats of one model are needed, or two models under one "
        f"format; here is {names}. Run the task under several formats "
        f"({command or _ALL_FORMATS}), give a second run, or assume a "
        "variance: --discordant 0.2."
    )


@dataclass(frozen=True)
class _ReplyVariance:
    """How the replies to one item vary, over the items of a measurement."""

    count: int = 1
    variance: float = 0.0
    """The mean over items of the variance of whether a reply is right."""

    @classmethod
    def of(cls, run: StoredRun, measured: Measurement) -> _ReplyVariance:
        """From the samples, if the task was asked several times and its score is the share right."""
        asked = run.results["configs"].get(measured.name, {}).get("repeats") or 1
        if asked < 2 or measured.metric != "acc":
            return cls()
        rows = [sample["readings"] for sample in run.samples(measured.name) if "readings" in sample]
        if not rows:
            return cls()
        try:
            variances = [variance([float(reply["right"]) for reply in row]) for row in rows]
        except (LookupError, TypeError, ValueError):
            raise ComparisonError(
                f"{run.samples_path(measured.name)} is damaged: it does not say which replies are "
                "right. Run again, or delete the run."
            ) from None
        return cls(len(rows[0]), fmean(variances))


def _label(a: Measurement, b: Measurement, *, has_models: bool) -> str:
    """``t@mcqa − t@cloze``, with the models if there are several: each label names one pair."""
    if a.model != b.model:
        return f"{a.name} ({a.model}) − {b.name} ({b.model})"
    return f"{a.name} − {b.name}{f' ({a.model})' if has_models else ''}"


def _assumptions(aligned: Aligned, replies: Sequence[_ReplyVariance], label: str) -> Assumptions:
    test = paired(*aligned.scores, clusters=aligned.clusters)
    is_mcnemar = test.test == MCNEMAR
    discordant = (test.wins + test.losses) / test.n
    # The variance of an item's difference if the mean is 0; with clusters, n times that of the mean.
    total = discordant if is_mcnemar else test.n * (test.difference.stderr or 0.0) ** 2
    within = fmean(reply.variance for reply in replies)
    of_replies = sum(reply.variance / reply.count for reply in replies)
    return Assumptions(
        label,
        # The variance that replies add is kept apart, so that other numbers of replies can be planned.
        max(0.0, total - of_replies),
        within=within,
        num_items=test.n,
        num_clusters=None if aligned.clusters is None else len(set(aligned.clusters)),
        repeats=max(reply.count for reply in replies),
        seen=test.difference.value,
        limit=1.0 if aligned.is_share else math.inf,
        discordant=discordant if is_mcnemar and not within else None,
    )


def _three(pairs: Sequence[Assumptions]) -> list[Assumptions]:
    ordered = sorted(pairs, key=lambda pair: pair.variance)
    middle = median([pair.variance for pair in ordered])
    nearest = min(ordered, key=lambda pair: abs(pair.variance - middle))
    return list(dict.fromkeys([ordered[0], nearest, ordered[-1]]))
