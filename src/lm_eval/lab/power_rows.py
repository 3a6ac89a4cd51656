"""Answers to a question about power: with so many items and replies, this difference is found so often.

In: how much scores vary, and what is asked. Out: rows, one for each difference or number of replies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lm_eval.stats.power import (
    ALPHA,
    POWER,
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
    repeats: int = 1
    """How many replies to each item it has."""
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


def _chance_rows(
    one: Assumptions, question: Question, items: int, difference: float
) -> Iterator[PowerRow]:
    repeats = question.repeats or one.repeats
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
        needed = None if found is None else math.ceil(found - 1e-9)
        if needed is None or needed > repeats:
            yield PowerRow(one.label, difference, items, needed, question.power)


def _repeats(one: Assumptions, question: Question) -> Sequence[int]:
    if question.repeats is not None:
        return [question.repeats]
    return sorted({*REPEATS, one.repeats}) if one.within else [1]


def _total(one: Assumptions, repeats: int) -> float:
    return total_variance(one.variance, one.within, one.within, repeats, repeats)


def _check_possible(difference: float, one: Assumptions, question: Question) -> None:
    if question.difference is not None and abs(difference) > one.limit:
        raise ValueError(
            f"A difference of {difference:g} cannot be: {one.label} allows {one.limit:g} at most."
        )
