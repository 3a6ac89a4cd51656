"""``lm-eval power``: the items or repeats that a difference needs, or the smallest difference.

Flags become a ``Question`` and ``Assumptions``; the rows that answer it are shown as a table, and then
in sentences.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lm_eval.cli.lab.options import choice_of
from lm_eval.errors import UsageError, listing
from lm_eval.lab.power import (
    DIFFERENCES,
    Assumptions,
    Exact,
    PowerRow,
    Question,
    items_row,
    pairs_in_runs,
    power_rows,
)
from lm_eval.stats.clusters import FEW_CLUSTERS
from lm_eval.stats.power import factor, total_variance, variance_of_difference
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.files import write_output
from lm_eval.support.numbers import counted, number
from lm_eval.support.terminal import Paragraph, console, print_written, visible

EXAMPLE = "`lm-eval power --difference 0.03 --discordant 0.2`"
MOST_COMPARISONS = 1_000_000
FEW_ITEMS = 30
_COLUMNS = (
    Column("name", "What is compared", wraps=True),
    Column("varies", "Variance", is_number=True),
    Column("difference", "Difference", is_number=True, stays=True),
    Column("repeats", "Replies per item", is_number=True),
    Column("items", "Items", is_number=True, stays=True),
    Column("chance", "Found in", is_number=True, stays=True),
    Column("exact", "Exact test", is_number=True),
    Column("needs", "Needs", is_number=True),
)


@dataclass(frozen=True)
class PowerPlan:
    """The rows of a table, and what they mean in words."""

    question: Question
    assumptions: tuple[Assumptions, ...]
    rows: tuple[PowerRow, ...]
    words: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """Notes on the choice of results."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        data = asdict(self)
        for assumed in data["assumptions"]:
            assumed["limit"] = None if math.isinf(assumed["limit"]) else assumed["limit"]
        return data


def plan(
    assumptions: Sequence[Assumptions], question: Question, notes: Sequence[str] = ()
) -> PowerPlan:
    """The answers for each of the assumptions; ValueError for an impossible question."""
    rows = [row for assumed in assumptions for row in power_rows(assumed, question)]
    words = power_words(assumptions, rows, question)
    return PowerPlan(question, tuple(assumptions), tuple(rows), tuple(words), tuple(notes))


def power(args: argparse.Namespace) -> int:
    """Print the table and what it says."""
    try:
        question, (assumptions, notes) = _question(args), _assumptions(args)
        _check_repeats(question, assumptions)
        result = plan(assumptions, question, notes)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if args.output_path:
        write_output(args.output_path, json.dumps(result.to_dict(), indent=2) + "\n")
    out = console()
    out.print(_table(result))
    out.print()
    for sentence in result.words:
        out.print(Paragraph("", visible(sentence)))
    for note in result.notes:
        out.print(Paragraph("Note: ", visible(note)))
    if args.output_path:
        print_written(args.output_path)
    return 0


def _check_repeats(question: Question, assumptions: Sequence[Assumptions]) -> None:
    if question.repeats is not None and not any(assumed.within for assumed in assumptions):
        raise UsageError(
            "--repeats has no effect unless the replies to an item vary. Give their variance, such as "
            "--within 0.1, or a run with several replies to each item (`repeats` in its task)."
        )


def _question(args: argparse.Namespace) -> Question:
    question = Question(
        args.difference, args.items, args.repeats, args.alpha, args.power, args.comparisons
    )
    if not 1 <= question.comparisons <= MOST_COMPARISONS:
        raise UsageError(
            f"--comparisons is a number from 1 to {MOST_COMPARISONS:,}; got {args.comparisons}."
        )
    if question.difference is not None and question.difference <= 0:
        raise UsageError(
            f"--difference is a number above 0, such as 0.03; got {args.difference:g}."
        )
    return question


def _assumptions(args: argparse.Namespace) -> tuple[list[Assumptions], list[str]]:
    named = {
        name: getattr(args, name)
        for name in ("variance", "discordant", "accuracy", "correlation")
        if getattr(args, name) is not None
    }
    if args.runs and (named or args.within is not None):
        flags = listing([f"--{name}" for name in named] or ["--within"])
        raise UsageError(
            f"Give runs or assumptions, not both: leave out {flags} or {args.runs[0]!r}."
        )
    if args.runs:
        return pairs_in_runs(args.runs, choice_of(args), intersect=args.intersect)
    within = args.within or 0.0
    total_variance(0.0, within)  # the check of a variance
    return [_assumed(named, within)], []


def _assumed(named: dict[str, float], within: float) -> Assumptions:
    if set(named) == {"variance"}:
        variance = named["variance"]
        if total_variance(variance, within) == 0:
            raise UsageError(
                "With a variance of 0 any difference shows on one item. Give one above 0."
            )
        label = f"an assumed variance of {variance:g}"
        return Assumptions(label, variance, within, limit=math.inf)
    if set(named) == {"discordant"}:
        rate = named["discordant"]
        if not 0 < rate <= 1:
            raise UsageError(
                "--discordant is the share of items that one has right and the other wrong, above 0 and "
                f"up to 1; got {rate:g}."
            )
        exact = None if within else rate
        label = f"{rate:g} of items discordant"
        return Assumptions(label, rate, within, limit=rate, discordant=exact)
    if set(named) == {"accuracy", "correlation"}:
        variance = variance_of_difference(named["accuracy"], named["correlation"])
        label = f"accuracy {named['accuracy']:g}, correlation {named['correlation']:g}"
        exact = None if within else variance
        return Assumptions(label, variance, within, limit=1.0, discordant=exact)
    raise UsageError(_what_to_give(named))


def _what_to_give(named: dict[str, float]) -> str:
    if set(named) == {"accuracy"}:
        return (
            "--accuracy needs --correlation: how much two formats or models agree on which items are "
            "right, such as 0.5 (0 is the conservative choice)."
        )
    if set(named) == {"correlation"}:
        return "--correlation needs --accuracy, such as --accuracy 0.7."
    if named:
        return (
            f"{listing([f'--{name}' for name in named])} say the same thing in different ways. Give one "
            "of --variance, --discordant, or --accuracy with --correlation."
        )
    return (
        "It is not known how much scores vary. Give a stored run (`lm-eval power RUN`) or an "
        "assumption: --variance, --discordant, or --accuracy with --correlation. "
        f"Try {EXAMPLE}."
    )


def _table(result: PowerPlan) -> FittingTable:
    variances = {assumed.label: assumed.variance for assumed in result.assumptions}
    has_repeats = any(row.repeats != 1 for row in result.rows)
    return FittingTable(
        _COLUMNS, [[_row(row, variances[row.label], has_repeats) for row in result.rows]]
    )


def _row(row: PowerRow, variance: float, has_repeats: bool) -> Cells:
    return Cells(
        name=visible(row.label),
        varies=number(variance, 4),
        difference="none" if row.difference is None else number(row.difference, 4),
        repeats=("" if not has_repeats else "none" if row.repeats is None else f"{row.repeats:,}"),
        items=f"{row.items:,}",
        chance=f"{100 * row.power:.0f} %",
        exact="" if row.exact is None else f"{100 * row.exact.power:.0f} %",
        needs="" if row.exact is None else _needs(row.exact),
    )


def _needs(exact: Exact) -> str:
    """The exact test's number in place of the one that was looked for."""
    if exact.items is not None:
        return f"{exact.items:,}"
    return "" if exact.difference is None else number(exact.difference, 4)


# Sentences


def power_words(
    assumptions: Sequence[Assumptions], rows: Sequence[PowerRow], question: Question
) -> Iterator[str]:
    """What the rows say: of several pairs, about the one that varies most."""
    factor(question.level, question.power)  # the same check for every question
    if not rows:
        yield "None of these differences is possible. Give one with --difference."
        return
    hardest = max(assumptions, key=lambda each: each.variance + 2 * each.within / each.repeats)
    of_hardest = [row for row in rows if row.label == hardest.label]
    where = f" ({hardest.label}, the pair that varies most)" if len(assumptions) > 1 else ""
    chance, level = _percent(question.power), _percent(question.level)
    yield from _sentences(hardest, of_hardest, question, chance, level, where)
    yield from _several(assumptions, question, level)
    clusters = [each.num_clusters for each in assumptions if each.num_clusters is not None]
    if clusters and min(clusters) < FEW_CLUSTERS:
        yield (
            f"The items come in {min(clusters)} clusters, and further items are assumed to come in "
            f"further clusters. Below {FEW_CLUSTERS} clusters, their variance and so these numbers are "
            "rough."
        )
    if any(row.items < FEW_ITEMS for row in rows):
        yield f"Below {FEW_ITEMS} items, the normal approximation behind these numbers is rough."


def _sentences(
    assumed: Assumptions,
    rows: Sequence[PowerRow],
    question: Question,
    chance: str,
    level: str,
    where: str,
) -> Iterator[str]:
    if question.items is not None and question.difference is not None:
        yield from _power_sentences(rows, chance, level, where)
        yield from _by_exact_test(assumed, rows[0], chance)
    elif question.items is None and (question.difference is not None or assumed.num_items is None):
        row = _middle(rows, assumed)
        yield (
            f"To find a true difference of {row.difference:g} in {chance} of comparisons at the {level} "
            f"level takes {_counted(row)}{where}."
        )
        yield from _by_exact_test(assumed, row, chance)
        if assumed.num_items is not None:
            yield _compared_with_run(assumed, row)
    else:
        row = next((row for row in rows if row.repeats == assumed.repeats), rows[0])
        if row.difference is None:
            yield (
                f"With {_counted(row)}, not even the largest possible difference is found in {chance} "
                f"of comparisons at the {level} level{where}."
            )
        else:
            yield (
                f"With {_counted(row)}, a true difference below {number(row.difference, 4)} is found in "
                f"less than {chance} of comparisons at the {level} level{where}."
            )
        yield from _by_exact_test(assumed, row, chance)
        if assumed.num_items is not None and question.items is None:
            yield _items_for(assumed, question)


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
            "Each is planned as if it were the only comparison. If several are tested together, give "
            "their number with --comparisons."
        )


def _by_exact_test(assumed: Assumptions, row: PowerRow, chance: str) -> Iterator[str]:
    """The formula's answer, checked against the exact test that will be used."""
    exact = row.exact
    if exact is None or row.difference is None:
        return
    needs = ""
    if exact.items is not None:
        needs = f"; for {chance} it needs {exact.items:,} items"
    elif exact.difference is not None:
        needs = f"; for {chance} it needs a difference of {number(exact.difference, 4)}"
    yield (
        "That is the usual formula. McNemar's exact test, by which `lm-eval compare` judges right or "
        f"wrong, finds it in {_percent(round(exact.power, 3))}{needs}."
    )
    if assumed.discordant is not None and row.difference > assumed.discordant:
        yield (
            f"A difference of {number(row.difference)} needs at least that share of items that one gets "
            f"right and the other wrong, which is more than the {number(assumed.discordant)} here; "
            f"the exact test is computed with {number(row.difference)}."
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


def _compared_with_run(assumed: Assumptions, row: PowerRow) -> str:
    assert assumed.num_items is not None
    needed, has = _needed(row), assumed.num_items
    if needed <= has:
        return f"The run has {has:,}: enough."
    return f"The run has {has:,}, so it takes {needed / has:.1f} times as many."


def _needed(row: PowerRow) -> int:
    """Items by the test that will be used, if that is known."""
    return row.items if row.exact is None or row.exact.items is None else row.exact.items


def _items_for(assumed: Assumptions, question: Question) -> str:
    wanted = [difference for difference in DIFFERENCES if difference <= assumed.limit]
    rows = [
        items_row(assumed, question, difference, question.repeats or assumed.repeats)
        for difference in wanted
    ]
    parts = [f"{_needed(row):,} for a difference of {row.difference:g}" for row in rows]
    how = "" if assumed.discordant is None else " by the exact test"
    return f"Items needed{how}: {'; '.join(parts)}."


def _middle(rows: Sequence[PowerRow], assumed: Assumptions) -> PowerRow:
    """The row that a sentence is about: of several differences 0.03, with as many replies as the run."""
    candidates = [row for row in rows if row.difference == 0.03] or rows
    return next((row for row in candidates if row.repeats == assumed.repeats), candidates[0])


def _percent(share: float) -> str:
    """``80 %``, ``99.5 %``, ``0.83 %``, ``0.0026 %``."""
    if share < 0.01:
        return f"{100 * share:.2g} %"
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + " %"


def _counted(row: PowerRow) -> str:
    repeats = f" with {row.repeats} replies each" if row.repeats and row.repeats > 1 else ""
    return f"{counted(row.items, 'item')}{repeats}"
