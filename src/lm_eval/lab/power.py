"""Answers to a question about power: how often n items and replies find a given difference.

In: how much scores vary (``Assumptions``, from flags or from the pairs of stored runs), and a
``Question``. Out: ``PowerRow``s, one for each difference or number of replies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean, median, variance

from lm_eval.errors import ComparisonError, listing
from lm_eval.lab.stored.measurement import Aligned, Measurement, align
from lm_eval.lab.stored.run import StoredRun, open_runs
from lm_eval.lab.stored.select import Choice, chosen
from lm_eval.stats.mcnemar import exact_detectable, exact_items, exact_power
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
"""What is looked for where no difference is given."""
REPEATS = (1, 2, 5, 10)
"""Replies per item that are shown where replies vary and no number is given."""


@dataclass(frozen=True)
class Assumptions:
    """How much the difference of two scores varies."""

    label: str
    """Where this is from, such as ``t@mcqa − t@cloze``."""
    variance: float
    """Of the difference of an item's two scores."""
    within: float = 0.0
    """Of the score of one reply around its item's mean, the same for both."""
    num_items: int | None = None
    """What the stored run has."""
    num_clusters: int | None = None
    """What its items come in."""
    repeats: int = 1
    """How many replies to each item it has."""
    seen: float | None = None
    """The difference in the stored run."""
    limit: float = math.inf
    """The largest difference that there can be."""
    discordant: float | None = None
    """The share of items right under one alone, where McNemar's exact test will compare; else None."""


@dataclass(frozen=True)
class Question:
    """What is asked; None is looked for."""

    difference: float | None = None
    items: int | None = None
    repeats: int | None = None
    alpha: float = ALPHA
    power: float = POWER
    comparisons: int = 1
    """How many are tested together, with p-values adjusted by Holm."""

    @property
    def level(self) -> float:
        """Of one comparison: Holm's first step, at which it finds no more than at its later ones."""
        return self.alpha / self.comparisons


@dataclass(frozen=True)
class Exact:
    """The same row by McNemar's exact test; the row's own numbers come from the usual formula."""

    power: float
    """The chance that it finds the row's difference with the row's items."""
    items: int | None = None
    """How many items it takes, where that was asked."""
    difference: float | None = None
    """The smallest difference that it finds as often as asked, where that was asked."""


@dataclass(frozen=True)
class PowerRow:
    """One answer: with this many items and repeats, this difference is found with this chance."""

    label: str
    difference: float | None
    """None: no difference that there can be."""
    items: int
    repeats: int | None
    """None: no number of repeats would do."""
    power: float
    exact: Exact | None = None
    """None where scores are not right or wrong, or come in clusters or several replies."""


def power_rows(one: Assumptions, question: Question) -> Iterator[PowerRow]:
    """The answers for one of the assumptions; ValueError for what cannot be asked."""
    items = question.items
    if items is None and question.difference is None:
        items = one.num_items
    if items is None:
        wanted = DIFFERENCES if question.difference is None else (question.difference,)
        for difference in wanted:
            _check_possible(difference, one, question)
            if difference <= one.limit:
                for repeats in _repeats(one, question):
                    yield items_row(one, question, difference, repeats)
    elif question.difference is None:
        for repeats in _repeats(one, question):
            yield _difference_row(one, question, items, repeats)
    else:
        _check_possible(question.difference, one, question)
        yield from _chance_rows(one, question, items, question.difference)


def items_row(one: Assumptions, question: Question, difference: float, repeats: int) -> PowerRow:
    """How many items a difference takes."""
    exact = items_needed(
        difference,
        variance=_total(one, repeats),
        alpha=question.level,
        power=question.power,
    )
    items = max(1, math.ceil(exact))
    found = _exact(one, difference, items, question)
    if found is not None:
        needed = exact_items(
            difference,
            discordant=_discordant(one, difference),
            alpha=question.level,
            power=question.power,
        )
        found = replace(found, items=needed)
    return PowerRow(one.label, difference, items, repeats, question.power, found)


def _difference_row(one: Assumptions, question: Question, items: int, repeats: int) -> PowerRow:
    found = detectable(
        items, variance=_total(one, repeats), alpha=question.level, power=question.power
    )
    is_own = items == one.num_items
    if found > one.limit or (is_own and not can_find(one.num_clusters or items, question.level)):
        return PowerRow(one.label, None, items, repeats, question.power)
    exact = _exact(one, found, items, question)
    if exact is not None and one.discordant is not None:
        smallest = exact_detectable(
            items,
            discordant=one.discordant,
            largest=one.limit,
            alpha=question.level,
            power=question.power,
        )
        exact = replace(exact, difference=smallest)
    return PowerRow(one.label, found, items, repeats, question.power, exact)


def _exact(one: Assumptions, difference: float, items: int, question: Question) -> Exact | None:
    if one.discordant is None:
        return None
    rate = _discordant(one, difference)
    found = exact_power(difference, items, discordant=rate, alpha=question.level)
    return None if found is None else Exact(found)


def _discordant(one: Assumptions, difference: float) -> float:
    """The share of discordant items: as assumed, and at least what the difference is made of."""
    assert one.discordant is not None
    return min(1.0, max(one.discordant, abs(difference)))


def _chance_rows(
    one: Assumptions, question: Question, items: int, difference: float
) -> Iterator[PowerRow]:
    repeats = question.repeats or one.repeats
    chance = power_of(difference, items, variance=_total(one, repeats), alpha=question.level)
    yield PowerRow(
        one.label, difference, items, repeats, chance, _exact(one, difference, items, question)
    )
    if one.within and question.repeats is None:
        found = repeats_needed(
            *(difference, items),
            variance=one.variance,
            within=one.within,
            alpha=question.level,
            power=question.power,
        )
        needed = None if found is None else math.ceil(found - 1e-9)
        if needed is None or needed > repeats:
            yield PowerRow(one.label, difference, items, needed, question.power)


def _repeats(one: Assumptions, question: Question) -> Sequence[int]:
    if question.repeats is not None:
        return [question.repeats]
    return sorted({*REPEATS, one.repeats}) if one.within else [1]


def _total(one: Assumptions, repeats: int) -> float:
    return total_variance(one.variance, one.within, repeats)


def _check_possible(difference: float, one: Assumptions, question: Question) -> None:
    if question.difference is not None and abs(difference) > one.limit:
        raise ValueError(
            f"A difference of {difference:g} cannot be: {one.label} allows {one.limit:g} at most."
        )


MANY_PAIRS = 10


def pairs_in_runs(
    paths: Sequence[str], choice: Choice | None = None, *, intersect: bool = False
) -> tuple[list[Assumptions], list[str]]:
    """Every two formats of one model, every two models under one format, and notes on the choice.

    Results are chosen as for a comparison. Other items are an error, unless ``intersect`` asks for those
    that both of a pair have. Of more than ten pairs, those with the smallest, the middle and the largest
    variance.
    """
    runs = open_runs(paths)
    found, notes = chosen(runs, choice)
    pairs = [(a, b) for a, b in combinations(found, 2) if _is_pair(a, b)]
    if not pairs:
        raise ComparisonError(" ".join([_nothing_to_pair(found), *notes]))
    replies = {str(run.path): run for run in runs}
    has_models = len({one.model for one in found}) > 1
    made = [
        _assumptions(
            align([a, b], intersect=intersect),
            [_ReplyVariance.of(replies[one.run], one) for one in (a, b)],
            _label(a, b, has_models=has_models),
        )
        for a, b in pairs
    ]
    known = [one for one in made if one.variance + one.within > 0]
    if not known:
        raise ComparisonError(
            f"{made[0].label}: both scored the same on all {made[0].num_items} items, so there is no "
            "variance to plan with. Run more items, or assume one: --discordant 0.1."
        )
    return (known if len(known) <= MANY_PAIRS else _three(known)), notes


_ALL_FORMATS = "--tasks 'TASK@*'"


def _is_pair(a: Measurement, b: Measurement) -> bool:
    return a.task == b.task and (a.model == b.model) != (a.format == b.format)


def _nothing_to_pair(found: Sequence[Measurement]) -> str:
    names = listing([f"{one.name} ({one.model})" for one in found], 6)
    command = next((f"`{one.more_formats}`" for one in found if one.more_formats), None)
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
    def of(cls, run: StoredRun, one: Measurement) -> _ReplyVariance:
        """From the samples, where the task was asked several times and its score is the share right."""
        asked = run.results["configs"].get(one.name, {}).get("repeats") or 1
        if asked < 2 or one.metric != "acc":
            return cls()
        rows = [sample["readings"] for sample in run.samples(one.name) if "readings" in sample]
        if not rows:
            return cls()
        try:
            found = [variance([float(reply["right"]) for reply in row]) for row in rows]
        except (LookupError, TypeError, ValueError):
            raise ComparisonError(
                f"{run.samples_path(one.name)} is damaged: it does not say which replies are right. Run "
                "again, or delete the run."
            ) from None
        return cls(len(rows[0]), fmean(found))


def _label(a: Measurement, b: Measurement, *, has_models: bool) -> str:
    """``t@mcqa − t@cloze``, with the models where there are several: each label names one pair."""
    if a.model != b.model:
        return f"{a.name} ({a.model}) − {b.name} ({b.model})"
    return f"{a.name} − {b.name}{f' ({a.model})' if has_models else ''}"


def _assumptions(aligned: Aligned, replies: Sequence[_ReplyVariance], label: str) -> Assumptions:
    found = paired(*aligned.scores, clusters=aligned.clusters)
    is_mcnemar = found.test == MCNEMAR
    discordant = (found.wins + found.losses) / found.n
    # Of an item's difference, if there is none on average; with clusters, what n items amount to.
    total = discordant if is_mcnemar else found.n * (found.difference.stderr or 0.0) ** 2
    within = fmean(one.variance for one in replies)
    of_replies = sum(one.variance / one.count for one in replies)
    return Assumptions(
        label,
        # What the replies add is told apart, so that other numbers of them can be planned with.
        max(0.0, total - of_replies),
        within=within,
        num_items=found.n,
        num_clusters=None if aligned.clusters is None else len(set(aligned.clusters)),
        repeats=max(one.count for one in replies),
        seen=found.difference.value,
        limit=1.0 if aligned.is_share else math.inf,
        discordant=discordant if is_mcnemar and not within else None,
    )


def _three(known: Sequence[Assumptions]) -> list[Assumptions]:
    ordered = sorted(known, key=lambda one: one.variance)
    middle = median([one.variance for one in ordered])
    nearest = min(ordered, key=lambda one: abs(one.variance - middle))
    return list(dict.fromkeys([ordered[0], nearest, ordered[-1]]))
