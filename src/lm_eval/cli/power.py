"""``lm-eval power``: the items or repeats that a difference needs, or the smallest difference."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence

from lm_eval.errors import UsageError, listing
from lm_eval.lab.power.rows import Assumptions, Exact, PowerRow, Question
from lm_eval.lab.power.words import PowerPlan, plan
from lm_eval.stats.numeric import require
from lm_eval.stats.power import total_variance, variance_of_difference
from lm_eval.text.columns import Cells, Column, FittingTable, Paragraph
from lm_eval.text.files import write_output
from lm_eval.text.terminal import console, print_written, visible

EXAMPLE = "`lm-eval power --difference 0.03 --discordant 0.2`"
MOST_COMPARISONS = 1_000_000
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
        require("numpy")
        from lm_eval.cli.compare import choice_of
        from lm_eval.lab.power.rows import pairs_in_runs

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
        varies=f"{variance:.4f}",
        difference="none" if row.difference is None else f"{row.difference:.4f}",
        repeats=("" if not has_repeats else "none" if row.repeats is None else f"{row.repeats:,}"),
        items=f"{row.items:,}",
        chance=f"{100 * row.power:.0f} %",
        exact="" if row.exact is None else f"{100 * row.exact.power:.0f} %",
        needs="" if row.exact is None else _needs(row.exact),
    )


def _needs(exact: Exact) -> str:
    """What the exact test takes instead of the number that was looked for."""
    if exact.items is not None:
        return f"{exact.items:,}"
    return "" if exact.difference is None else f"{exact.difference:.4f}"
