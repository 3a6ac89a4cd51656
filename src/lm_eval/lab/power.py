"""How many items or repeats a difference needs: assumptions or stored runs → rows and sentences.

The variance of the difference on an item is what all depends on. It is assumed, or that of two formats
(or two models) in stored runs, where items that share a cluster count as what they are worth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import median
from typing import Any

from lm_eval.errors import ComparisonError, did_you_mean, listing
from lm_eval.lab.measured import Measurement, align, formats_twice, measurements_of
from lm_eval.lab.stored import open_runs
from lm_eval.stats.paired import Paired, paired
from lm_eval.stats.power import (
    ALPHA,
    POWER,
    detectable,
    factor,
    items_needed,
    power_of,
    repeats_needed,
    total_variance,
)

DIFFERENCES = (0.01, 0.02, 0.03, 0.05, 0.1)
"""What is looked for where no difference is given."""
REPEATS = (1, 2, 5, 10)
"""Replies per item that are shown where replies vary and no number is given."""
MANY_PAIRS = 10
FEW_ITEMS = 30


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
    seen: float | None = None
    """The difference in the stored run."""
    limit: float = math.inf
    """The largest difference that there can be."""


@dataclass(frozen=True)
class Question:
    """What is asked; None is looked for."""

    difference: float | None = None
    items: int | None = None
    repeats: int | None = None
    alpha: float = ALPHA
    power: float = POWER


@dataclass(frozen=True)
class PowerRow:
    """One answer: with so many items and repeats, this difference is found with this chance."""

    label: str
    difference: float | None
    """None: no difference that there can be."""
    items: int
    repeats: int | None
    """None: no number of repeats would do."""
    power: float


@dataclass(frozen=True)
class Plan:
    """The rows of a table, and what they say."""

    question: Question
    assumptions: tuple[Assumptions, ...]
    rows: tuple[PowerRow, ...]
    words: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        found = asdict(self)
        for one in found["assumptions"]:
            one["limit"] = None if math.isinf(one["limit"]) else one["limit"]
        return found


def plan(assumptions: Sequence[Assumptions], question: Question) -> Plan:
    """The answers for each of the assumptions; ValueError for what cannot be asked."""
    rows = [row for one in assumptions for row in _rows(one, question)]
    words = _words(assumptions, rows, question)
    return Plan(question, tuple(assumptions), tuple(rows), tuple(words))


def pairs_in_runs(paths: Sequence[str], tasks: Sequence[str] | None = None) -> list[Assumptions]:
    """Every two formats of one model, and every two models under one format, on the same items.

    Of more than ten pairs, those with the smallest, the middle and the largest variance.
    """
    found = [one for run in open_runs(paths) for one in measurements_of(run)]
    found = _of_tasks(found, tasks)
    if twice := formats_twice(found):
        raise ComparisonError(
            f"These results are there more than once: {listing(twice, 3)}. Give the results files to "
            "use, not their folder."
        )
    pairs = [(a, b) for a, b in combinations(found, 2) if _is_pair(a, b)]
    if not pairs:
        raise ComparisonError(_nothing_to_pair(found))
    made = [_assumptions(*pair) for pair in pairs]
    known = [one for one in made if one.variance > 0]
    if not known:
        raise ComparisonError(
            f"{made[0].label}: both scored the same on all {made[0].num_items} items, so there is no "
            "variance to plan with. Run more items, or assume one: --discordant 0.1."
        )
    return known if len(known) <= MANY_PAIRS else _three(known)


def _rows(one: Assumptions, question: Question) -> Iterator[PowerRow]:
    items = question.items
    if items is None and question.difference is None:
        items = one.num_items
    if items is None:
        wanted = DIFFERENCES if question.difference is None else (question.difference,)
        for difference in wanted:
            _check_possible(difference, one, question)
            if difference <= one.limit:
                for repeats in _repeats(one, question):
                    yield _items_row(one, question, difference, repeats)
    elif question.difference is None:
        for repeats in _repeats(one, question):
            yield _difference_row(one, question, items, repeats)
    else:
        _check_possible(question.difference, one, question)
        yield from _power_rows(one, question, items, question.difference)


def _items_row(one: Assumptions, question: Question, difference: float, repeats: int) -> PowerRow:
    exact = items_needed(
        difference,
        variance=_total(one, repeats),
        alpha=question.alpha,
        power=question.power,
    )
    return PowerRow(one.label, difference, max(1, math.ceil(exact)), repeats, question.power)


def _difference_row(one: Assumptions, question: Question, items: int, repeats: int) -> PowerRow:
    found = detectable(
        items, variance=_total(one, repeats), alpha=question.alpha, power=question.power
    )
    possible = found if found <= one.limit else None
    return PowerRow(one.label, possible, items, repeats, question.power)


def _power_rows(
    one: Assumptions, question: Question, items: int, difference: float
) -> Iterator[PowerRow]:
    for repeats in [question.repeats or 1]:
        chance = power_of(difference, items, variance=_total(one, repeats), alpha=question.alpha)
        yield PowerRow(one.label, difference, items, repeats, chance)
    if one.within and question.repeats is None:
        found = repeats_needed(
            *(difference, items),
            variance=one.variance,
            within_a=one.within,
            within_b=one.within,
            alpha=question.alpha,
            power=question.power,
        )
        needed = None if found is None else math.ceil(found)
        if needed != 1:
            yield PowerRow(one.label, difference, items, needed, question.power)


def _repeats(one: Assumptions, question: Question) -> Sequence[int]:
    if question.repeats is not None:
        return [question.repeats]
    return REPEATS if one.within else [1]


def _total(one: Assumptions, repeats: int) -> float:
    return total_variance(one.variance, one.within, one.within, repeats, repeats)


def _check_possible(difference: float, one: Assumptions, question: Question) -> None:
    if question.difference is not None and abs(difference) > one.limit:
        raise ValueError(
            f"A difference of {difference:g} cannot be: {one.label} allows {one.limit:g} at most."
        )


# Words


def _words(
    assumptions: Sequence[Assumptions], rows: Sequence[PowerRow], question: Question
) -> Iterator[str]:
    factor(question.alpha, question.power)  # the same check for every question
    if not rows:
        yield "None of the differences looked for can be. Give one with --difference."
        return
    # The pair that asks for most speaks for all.
    hardest = max(assumptions, key=lambda one: one.variance)
    own = [row for row in rows if row.label == hardest.label]
    where = f" ({hardest.label}, the pair that varies most)" if len(assumptions) > 1 else ""
    chance, level = f"{question.power:.0%}".replace("%", " %"), f"{question.alpha:.2%}"
    level = level.rstrip("%").rstrip("0").rstrip(".") + " %"
    yield from _sentences(hardest, own, question, chance, level, where)
    if any(row.items < FEW_ITEMS for row in rows):
        yield f"Below {FEW_ITEMS} items the normal theory behind these numbers is rough."


def _sentences(
    one: Assumptions,
    rows: Sequence[PowerRow],
    question: Question,
    chance: str,
    level: str,
    where: str,
) -> Iterator[str]:
    if question.items is not None and question.difference is not None:
        yield from _power_sentences(rows, chance, level, where)
    elif question.items is None and (question.difference is not None or one.num_items is None):
        row = _middle(rows)
        yield (
            f"To find a true difference of {row.difference:g} in {chance} of comparisons at the {level} "
            f"level takes {_counted(row)}{where}."
        )
        if one.num_items is not None:
            yield _compared_with_run(one, row)
    else:
        row = rows[0]
        if row.difference is None:
            yield (
                f"With {_counted(row)}, no difference that there can be is found in {chance} of "
                f"comparisons at the {level} level{where}."
            )
        else:
            yield (
                f"With {_counted(row)}, a true difference below {row.difference:.4f} is found in less "
                f"than {chance} of comparisons at the {level} level{where}."
            )
        if one.num_items is not None and question.items is None:
            yield _items_for(one, question)


def _power_sentences(
    rows: Sequence[PowerRow], chance: str, level: str, where: str
) -> Iterator[str]:
    first, *more = rows
    yield (
        f"With {_counted(first)}, a true difference of {first.difference:g} is found in "
        f"{first.power:.0%} of comparisons at the {level} level{where}.".replace("% of", " % of")
    )
    for row in more:
        if row.repeats is None:
            yield (
                f"No number of replies per item makes that {chance}: the items themselves vary too "
                "much. More items are needed."
            )
        else:
            yield f"{row.repeats} replies per item make that {chance}."


def _compared_with_run(one: Assumptions, row: PowerRow) -> str:
    assert one.num_items is not None
    if row.items <= one.num_items:
        return f"The run has {one.num_items:,}: enough."
    return f"The run has {one.num_items:,}, so {row.items / one.num_items:.1f} times as many."


def _items_for(one: Assumptions, question: Question) -> str:
    wanted = [difference for difference in DIFFERENCES if difference <= one.limit]
    rows = [_items_row(one, question, difference, question.repeats or 1) for difference in wanted]
    parts = [f"{row.difference:g} takes {row.items:,}" for row in rows]
    return f"A difference of {listing(parts)} items."


def _middle(rows: Sequence[PowerRow]) -> PowerRow:
    """The row that a sentence is about: that of 0.03 where several differences are shown."""
    return next((row for row in rows if row.difference == 0.03), rows[0])


def _counted(row: PowerRow) -> str:
    repeats = f" with {row.repeats} replies each" if row.repeats and row.repeats > 1 else ""
    return f"{row.items:,} item{'' if row.items == 1 else 's'}{repeats}"


# Stored runs


def _of_tasks(found: Sequence[Measurement], tasks: Sequence[str] | None) -> list[Measurement]:
    if not tasks:
        return list(found)
    known = sorted({one.task for one in found} | {one.name for one in found})
    for task in tasks:
        if task not in known:
            raise ComparisonError(
                f"There is no {task!r} in these runs.{did_you_mean(task, known)} They have: "
                f"{listing(known)}."
            )
    return [one for one in found if one.task in tasks or one.name in tasks]


def _is_pair(a: Measurement, b: Measurement) -> bool:
    return a.task == b.task and (a.model == b.model) != (a.format == b.format)


def _nothing_to_pair(found: Sequence[Measurement]) -> str:
    names = listing([f"{one.name} ({one.model})" for one in found], 6)
    return (
        f"There is nothing to compare: two formats of one model are needed, or two models under one "
        f"format; here is {names}. Run the task under several formats (--tasks 'TASK@*'), give a second "
        "run, or assume a variance: --discordant 0.2."
    )


def _assumptions(a: Measurement, b: Measurement) -> Assumptions:
    aligned = align([a, b])
    found = paired(*aligned.scores, clusters=aligned.clusters)
    by_model = a.model != b.model
    first, second = (f"{one.name} ({one.model})" if by_model else one.name for one in (a, b))
    is_share = bool(((aligned.scores >= 0) & (aligned.scores <= 1)).all())
    return Assumptions(
        f"{first} − {second}",
        _variance(found, is_binary=aligned.is_binary),
        num_items=found.n,
        seen=found.difference.value,
        limit=1.0 if is_share else math.inf,
    )


def _variance(found: Paired, *, is_binary: bool) -> float:
    """Of an item's difference, if there is none on average; with clusters, what n items amount to."""
    if is_binary and found.test == "exact McNemar":
        return (found.wins + found.losses) / found.n
    return found.n * (found.difference.stderr or 0.0) ** 2


def _three(known: Sequence[Assumptions]) -> list[Assumptions]:
    ordered = sorted(known, key=lambda one: one.variance)
    middle = median([one.variance for one in ordered])
    nearest = min(ordered, key=lambda one: abs(one.variance - middle))
    return list(dict.fromkeys([ordered[0], nearest, ordered[-1]]))
