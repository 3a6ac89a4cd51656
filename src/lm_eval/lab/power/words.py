"""Rows about power → sentences, and both together as a ``PowerPlan``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lm_eval.lab.power.rows import (
    DIFFERENCES,
    Assumptions,
    PowerRow,
    Question,
    items_row,
    power_rows,
)
from lm_eval.stats.clusters import FEW_CLUSTERS
from lm_eval.stats.power import factor

FEW_ITEMS = 30


def power_words(
    assumptions: Sequence[Assumptions], rows: Sequence[PowerRow], question: Question
) -> Iterator[str]:
    """What the rows say: of several pairs, about the one that varies most."""
    factor(question.level, question.power)  # the same check for every question
    if not rows:
        yield "None of the differences looked for can be. Give one with --difference."
        return
    hardest = max(assumptions, key=lambda one: one.variance + 2 * one.within / one.repeats)
    own = [row for row in rows if row.label == hardest.label]
    where = f" ({hardest.label}, the pair that varies most)" if len(assumptions) > 1 else ""
    chance, level = _percent(question.power), _percent(question.level)
    yield from _sentences(hardest, own, question, chance, level, where)
    yield from _several(assumptions, question, level)
    clusters = [one.num_clusters for one in assumptions if one.num_clusters is not None]
    if clusters and min(clusters) < FEW_CLUSTERS:
        yield (
            f"The items come in {min(clusters)} clusters, and further ones are taken to come in more of "
            f"them. Below {FEW_CLUSTERS} clusters their variance, and with it these numbers, is rough."
        )
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
        yield from _by_exact_test(one, rows[0], chance)
    elif question.items is None and (question.difference is not None or one.num_items is None):
        row = _middle(rows, one)
        yield (
            f"To find a true difference of {row.difference:g} in {chance} of comparisons at the {level} "
            f"level takes {_counted(row)}{where}."
        )
        yield from _by_exact_test(one, row, chance)
        if one.num_items is not None:
            yield _compared_with_run(one, row)
    else:
        row = next((row for row in rows if row.repeats == one.repeats), rows[0])
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
        yield from _by_exact_test(one, row, chance)
        if one.num_items is not None and question.items is None:
            yield _items_for(one, question)


def _several(assumptions: Sequence[Assumptions], question: Question, level: str) -> Iterator[str]:
    """What being one of several comparisons means for these numbers."""
    if question.comparisons > 1:
        yield (
            f"The {level} level is {_percent(question.alpha)} shared among {question.comparisons:,} "
            "comparisons: Holm's first and strictest step. Later steps are milder, so each comparison "
            "finds its difference at least as often as said here."
        )
    elif len(assumptions) > 1:
        yield (
            "Each is planned as if it were the only comparison. Where several are tested together, give "
            "their number with --comparisons."
        )


def _by_exact_test(one: Assumptions, row: PowerRow, chance: str) -> Iterator[str]:
    """The formula's answer, checked against the exact test that will be used."""
    exact = row.exact
    if exact is None or row.difference is None:
        return
    needs = ""
    if exact.items is not None:
        needs = f"; for {chance} it needs {exact.items:,} items"
    elif exact.difference is not None:
        needs = f"; for {chance} it needs a difference of {exact.difference:.4f}"
    yield (
        "That is the usual formula. McNemar's exact test, by which `lm-eval compare` judges right or "
        f"wrong, finds it in {_percent(round(exact.power, 3))}{needs}."
    )
    if one.discordant is not None and row.difference > one.discordant:
        yield (
            f"A difference of {row.difference:.4g} takes at least that share of items that one has "
            f"right and the other wrong, which is more than the {one.discordant:.2g} here; the exact "
            f"test is worked out with {row.difference:.4g}."
        )


def _power_sentences(
    rows: Sequence[PowerRow], chance: str, level: str, where: str
) -> Iterator[str]:
    first, *more = rows
    yield (
        f"With {_counted(first)}, a true difference of {first.difference:g} is found in "
        f"{_percent(round(first.power, 2))} of comparisons at the {level} level{where}."
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
    needed = _needed(row)
    if needed <= one.num_items:
        return f"The run has {one.num_items:,}: enough."
    return f"The run has {one.num_items:,}, so it takes {needed / one.num_items:.1f} times as many."


def _needed(row: PowerRow) -> int:
    """Items by the test that will be used, where that is known."""
    return row.items if row.exact is None or row.exact.items is None else row.exact.items


def _items_for(one: Assumptions, question: Question) -> str:
    wanted = [difference for difference in DIFFERENCES if difference <= one.limit]
    rows = [
        items_row(one, question, difference, question.repeats or one.repeats)
        for difference in wanted
    ]
    parts = [f"{_needed(row):,} for a difference of {row.difference:g}" for row in rows]
    how = "" if one.discordant is None else " by the exact test"
    return f"Items needed{how}: {'; '.join(parts)}."


def _middle(rows: Sequence[PowerRow], one: Assumptions) -> PowerRow:
    """The row that a sentence is about: of several differences 0.03, with the run's own replies."""
    some = [row for row in rows if row.difference == 0.03] or rows
    return next((row for row in some if row.repeats == one.repeats), some[0])


def _percent(share: float) -> str:
    """``80 %``, ``99.5 %``, ``0.83 %``, ``0.0026 %``."""
    if share < 0.01:
        return f"{100 * share:.2g} %"
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + " %"


def _counted(row: PowerRow) -> str:
    repeats = f" with {row.repeats} replies each" if row.repeats and row.repeats > 1 else ""
    return f"{row.items:,} item{'' if row.items == 1 else 's'}{repeats}"


@dataclass(frozen=True)
class PowerPlan:
    """The rows of a table, and what they say."""

    question: Question
    assumptions: tuple[Assumptions, ...]
    rows: tuple[PowerRow, ...]
    words: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What should be known about the choice of results."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        found = asdict(self)
        for one in found["assumptions"]:
            one["limit"] = None if math.isinf(one["limit"]) else one["limit"]
        return found


def plan(
    assumptions: Sequence[Assumptions], question: Question, notes: Sequence[str] = ()
) -> PowerPlan:
    """The answers for each of the assumptions; ValueError for what cannot be asked."""
    rows = [row for one in assumptions for row in power_rows(one, question)]
    words = power_words(assumptions, rows, question)
    return PowerPlan(question, tuple(assumptions), tuple(rows), tuple(words), tuple(notes))
