"""Two runs on one screen: scores with the paired test, what differs by topic, and what explains it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lm_eval.errors import listing
from lm_eval.lab.diff.facts import in_order
from lm_eval.lab.diff.runs import ResultDiff, RunDiff
from lm_eval.lab.diff.words import Line, conclusion, fact_lines, item_lines, read_line, verdict_line
from lm_eval.lab.reread.report import difference_words
from lm_eval.lab.show.phrases import counted
from lm_eval.stats.estimates import Estimate
from lm_eval.text.columns import Cells, Column, FittingTable, Paragraph
from lm_eval.text.numbers import p_value, signed, value_of, with_interval
from lm_eval.text.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console

_COLUMNS = (
    Column("name", "Result", wraps=True, stays=True),
    Column("first", "A", is_number=True, stays=True),
    Column("second", "B", is_number=True, stays=True),
    Column("difference", "A − B", is_number=True, stays=True),
    Column("p", "p", is_number=True),
    Column("items", "items", is_number=True),
    Column("prompts", "prompts", is_number=True),
    Column("answers", "answers", is_number=True),
    Column("readings", "readings", is_number=True),
    Column("scoring", "scoring", is_number=True),
)
MOST_ROWS = 12


def print_diff(found: RunDiff, console: Console, *, show: int) -> None:
    """Print two runs; of several results, the one with the largest difference is shown in full."""
    for side, run in zip("AB", found.runs, strict=True):
        console.print(Paragraph(f"{side}  ", f"{visible(run.model)}  {visible(str(run.path))}"))
    chosen = found.results
    if len(chosen) > 1:
        _print_table(chosen, console)
        chosen = (max(chosen, key=_size),)
        why = "the largest" if _size(chosen[0]) else "the first"
        console.print(Paragraph("  ", f"In full: {_title(chosen[0])}, {why}. Choose with --tasks."))
    for result in chosen:
        _print_result(result, found, console, show)
    _print_left_out(found, console)


def _print_result(result: ResultDiff, found: RunDiff, console: Console, show: int) -> None:
    console.print()
    console.print(Paragraph("", _scores(result)))
    shared = [] if result.items is None else result.items.paired[0]
    if result.paired is not None:
        words = difference_words(result.paired, "A − B", "higher in A", "higher in B")
        console.print(Paragraph("  ", f"On the {_items(shared)} of both: {words}"))
    elif result.no_test:
        text = f"On the {_items(shared)} of both, luck cannot be told apart. {result.no_test}"
        console.print(Paragraph("  ", text))
    console.print()
    lines: list[Line] = list(fact_lines(in_order([*found.findings, *result.findings]), show))
    if result.items is not None:
        lines += [*item_lines(result.items), *read_line(result.items)]
    if result.items is not None and shared:
        lines.append(("verdicts", verdict_line(result.items)))
    _print_lines(lines, console)
    console.print()
    for sentence in conclusion(result, found.findings):
        console.print(Paragraph("", sentence))


def _items(shared: Sequence[float]) -> str:
    """``7 items``; one goes without a number."""
    return "item" if len(shared) == 1 else counted(len(shared), "item")


def _print_lines(lines: Iterable[Line], console: Console) -> None:
    for topic, text in lines:
        console.print(Paragraph(f"  {topic:<13}", text))


def _print_table(results: Sequence[ResultDiff], console: Console) -> None:
    ordered = sorted(results, key=_size, reverse=True)
    console.print()
    console.print(FittingTable(_COLUMNS, [[_row(one) for one in ordered[:MOST_ROWS]]]))
    if len(ordered) > MOST_ROWS:
        console.print(Paragraph("  ", f"… and {len(ordered) - MOST_ROWS} more with less."))
    if not any(one.parts for one in results):
        return
    console.print(
        Paragraph(
            "  ",
            "items … scoring: what of the difference comes from items that one run lacks, from other "
            "prompts, other answers to the same prompt, other readings of the same answer, other "
            "scores of the same reading. p is about the items of both.",
        )
    )


def _row(result: ResultDiff) -> Cells:
    first, second = result.scores
    return Cells(
        name=_title(result),
        first=value_of(first),
        second=value_of(second),
        difference=signed(result.difference),
        p="" if result.paired is None else p_value(result.paired.p),
        **{name: signed(value) for name, value in result.parts.items()},
    )


def _size(result: ResultDiff) -> float:
    return abs(result.difference or 0.0)


def _title(result: ResultDiff) -> str:
    first, second = map(visible, result.names)
    return first if first == second else f"{first} and {second}"


def _scores(result: ResultDiff) -> str:
    first, second = result.metrics
    metric = first if first == second else f"{first} and {second}"
    shown = [_score(side, one) for side, one in zip("AB", result.scores, strict=True)]
    total = "" if result.difference is None else f"; A − B {signed(result.difference)}"
    return f"{_title(result)}, {visible(metric)}: {', '.join(shown)}{total}"


def _score(side: str, one: Estimate | None) -> str:
    if one is None:
        return f"{side} has none"
    count = f" on {counted(one.n, 'item')}" if one.n else ""
    return f"{side} {with_interval(one)}{count}"


def _print_left_out(found: RunDiff, console: Console) -> None:
    for side, names in zip("AB", found.left_out, strict=True):
        if names:
            console.print(Paragraph("", f"Only in {side}: {visible(listing(names, 6))}."))
