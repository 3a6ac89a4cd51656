"""``lm-eval power``: the items or repeats that a difference needs, or the smallest difference.

Flags become a ``Question`` and ``Assumptions``; the rows that answer it are shown as a table, and then
in sentences.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from lm_eval.cli.lab.options import choice_of
from lm_eval.errors import UsageError, listing
from lm_eval.lab.power import (
    DIFFERENCES,
    NORMAL,
    Assumptions,
    PowerRow,
    Question,
    discordant_share,
    items_row,
    pairs_in_runs,
    power_rows,
)
from lm_eval.lab.report import ReportLine, Section, print_report, write_report
from lm_eval.stats.clusters import FEW_CLUSTERS
from lm_eval.stats.paired import MCNEMAR
from lm_eval.stats.power import total_variance, variance_of_difference
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.numbers import counted, number
from lm_eval.support.terminal import console, print_written, visible

EXAMPLE = "`lm-eval power --difference 0.03 --discordant 0.2`"
FEW_ITEMS = 30
_COLUMNS = (
    Column("name", "What is compared", wraps=True),
    Column("varies", "Variance", is_number=True),
    Column("difference", "Difference", is_number=True, stays=True),
    Column("repeats", "Replies per item", is_number=True),
    Column("items", "Items", is_number=True, stays=True),
    Column("chance", "Found in", is_number=True, stays=True),
)


def power(args: argparse.Namespace) -> int:
    """Print the table and what it says."""
    question = Question(
        args.difference, args.items, args.repeats, args.alpha, args.power, args.comparisons
    )
    if question.power <= question.level / 2:
        raise UsageError(f"A power of {question.power:g} is no more than chance gives. Give more.")
    assumptions, notes = _assumptions(args)
    for assumed in assumptions:
        if question.difference is not None and question.difference > assumed.limit:
            raise UsageError(
                f"A difference of {question.difference:g} is impossible: {assumed.label} allows at most "
                f"{assumed.limit:g}."
            )
    if question.repeats is not None and not any(assumed.within for assumed in assumptions):
        raise UsageError(
            "--repeats has no effect unless the replies to an item vary. Give their variance, such as "
            "--within 0.1, or a run with several replies to each item (`repeats` in its task)."
        )
    rows = [row for assumed in assumptions for row in power_rows(assumed, question)]
    words = list(power_words(assumptions, rows, question))
    lines = [ReportLine(None, visible(text)) for text in words]
    report = [Section(table=_table(rows, assumptions), lines=lines, notes=notes)]
    data = {
        "question": asdict(question),
        "assumptions": [
            {**asdict(each), "limit": None if math.isinf(each.limit) else each.limit}
            for each in assumptions
        ],
        "rows": [asdict(row) for row in rows],
        "words": words,
        "notes": notes,
    }
    written = args.output_path and write_report(args.output_path, report, data)
    print_report(report, console())
    if written:
        print_written(written)
    return 0


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
    return [_assumed(named, args.within or 0.0)], []


def _assumed(named: dict[str, float], within: float) -> Assumptions:
    if set(named) == {"variance"}:
        variance = named["variance"]
        if total_variance(variance, within) == 0:
            raise UsageError(
                "With a variance of 0 any difference shows on one item. Give one above 0."
            )
        return Assumptions(f"an assumed variance of {variance:g}", variance, within)
    if set(named) == {"discordant"}:
        variance = limit = named["discordant"]
        label = f"{variance:g} of items discordant"
    elif set(named) == {"accuracy", "correlation"}:
        variance, limit = variance_of_difference(named["accuracy"], named["correlation"]), 1.0
        label = f"accuracy {named['accuracy']:g}, correlation {named['correlation']:g}"
    else:
        raise UsageError(_what_to_give(named))
    exact = None if within else variance
    return Assumptions(label, variance, within, limit=limit, discordant=exact)


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


def _table(rows: Sequence[PowerRow], assumptions: Sequence[Assumptions]) -> FittingTable:
    variances = {assumed.label: assumed.variance for assumed in assumptions}
    has_repeats = any(row.repeats != 1 for row in rows)
    cells = [
        Cells(
            name=visible(row.label),
            varies=number(variances[row.label], 4),
            difference="none" if row.difference is None else number(row.difference, 4),
            repeats=""
            if not has_repeats
            else "none"
            if row.repeats is None
            else f"{row.repeats:,}",
            items=f"{row.items:,}",
            chance=f"{100 * row.power:.0f} %",
        )
        for row in rows
    ]
    return FittingTable(_COLUMNS, [cells])


# Sentences


def power_words(
    assumptions: Sequence[Assumptions], rows: Sequence[PowerRow], question: Question
) -> Iterator[str]:
    """What the rows say: of several pairs, about the one that varies most."""
    if not rows:
        yield "None of these differences is possible. Give one with --difference."
        return
    hardest = max(assumptions, key=lambda each: each.variance + 2 * each.within / each.repeats)
    of_hardest = [row for row in rows if row.label == hardest.label]
    where = f" ({hardest.label}, the pair that varies most)" if len(assumptions) > 1 else ""
    yield from _answer(hardest, of_hardest, question, where)
    yield from _about_test(hardest, of_hardest[0])
    if question.comparisons > 1:
        yield (
            f"The {_percent(question.level)} level is {_percent(question.alpha)} shared among "
            f"{question.comparisons:,} comparisons: Holm's first and strictest step, so each finds its "
            "difference at least as often as said here."
        )
    elif len(assumptions) > 1:
        yield (
            "Each is planned as if it were the only comparison. If several are tested together, give "
            "their number with --comparisons."
        )
    clusters = [each.num_clusters for each in assumptions if each.num_clusters is not None]
    if clusters and min(clusters) < FEW_CLUSTERS:
        yield (
            f"The items come in {min(clusters)} clusters, and further items are assumed to come in "
            f"further clusters. Below {FEW_CLUSTERS} clusters these numbers are rough."
        )
    if any(row.items < FEW_ITEMS and row.test == NORMAL for row in rows):
        yield f"Below {FEW_ITEMS} items, the normal approximation behind these numbers is rough."


def _answer(
    assumed: Assumptions, rows: Sequence[PowerRow], question: Question, where: str
) -> Iterator[str]:
    chance, level = _percent(question.power), _percent(question.level)
    like_run = (row for row in rows if row.repeats == assumed.repeats)
    has_both = question.items is not None and question.difference is not None
    row = rows[0] if has_both else next(like_run, rows[0])
    of_level = f"of comparisons at the {level} level{where}"
    with_items = f"With {_counted(row)}, "
    if has_both:
        found = _percent(round(row.power, 3))
        yield f"{with_items}a true difference of {row.difference:g} is found in {found} {of_level}."
        for other in rows[1:]:
            yield (
                f"No number of replies per item makes that {chance}: the items themselves vary too much."
                if other.repeats is None
                else f"{other.repeats} replies per item make that {chance}."
            )
    elif question.items is None and (question.difference is not None or assumed.num_items is None):
        row = next((one for one in rows if one.difference == 0.03), row)
        yield (
            f"To find a true difference of {row.difference:g} in {chance} of comparisons at the {level} "
            f"level takes {_counted(row)}{where}."
        )
        if assumed.num_items is not None:
            times = row.items / assumed.num_items
            enough = ": enough." if times <= 1 else f", so it takes {times:.1f} times as many."
            yield f"The run has {assumed.num_items:,}{enough}"
    elif row.difference is None:
        yield f"{with_items}not even the largest possible difference is found in {chance} {of_level}."
    else:
        smallest = number(row.difference, 4)
        most = f"is found in less than {chance} {of_level}"
        yield f"{with_items}a true difference below {smallest} {most}."
    if assumed.num_items is not None and question.items is None and question.difference is None:
        yield _items_for(assumed, question)


def _about_test(assumed: Assumptions, row: PowerRow) -> Iterator[str]:
    """Which test finds it, if that is known, and what had to be assumed for it."""
    if row.test != MCNEMAR or assumed.discordant is None or row.difference is None:
        return
    yield "By McNemar's exact test, as `lm-eval compare` judges right or wrong."
    if row.difference > assumed.discordant:
        share = number(discordant_share(assumed.discordant, row.difference))
        yield (
            f"A difference of {share} needs that share of items with one right and the other wrong: "
            f"more than the {number(assumed.discordant)} assumed."
        )


def _items_for(assumed: Assumptions, question: Question) -> str:
    repeats = question.repeats or assumed.repeats
    wanted = [difference for difference in DIFFERENCES if difference <= assumed.limit]
    rows = [items_row(assumed, question, difference, repeats) for difference in wanted]
    parts = [f"{row.items:,} for a difference of {row.difference:g}" for row in rows]
    return f"Items needed: {'; '.join(parts)}."


def _percent(share: float) -> str:
    """``80 %``, ``99.5 %``, ``0.83 %``, ``0.0026 %``."""
    if share < 0.01:
        return f"{100 * share:.2g} %"
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + " %"


def _counted(row: PowerRow) -> str:
    repeats = f" with {row.repeats} replies each" if row.repeats and row.repeats > 1 else ""
    return f"{counted(row.items, 'item')}{repeats}"
