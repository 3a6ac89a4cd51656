"""What ``lm-eval sweep`` prints at its end: one line for each format and for each finding.

In: a ``Sweep``. Out: its screen; with ``--table full``, without limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lm_eval.lab.compare.details import facts
from lm_eval.lab.compare.findings import print_findings
from lm_eval.lab.compare.values import ALPHA
from lm_eval.lab.show.phrases import clipped
from lm_eval.lab.sweep.sweep import FullSweep, PartialSweep, Sweep
from lm_eval.lab.sweep.tables import COLUMNS, MOVABLE, table
from lm_eval.lab.sweep.words import OTHER_AXES, name_of, paid, slot_words, unread_words
from lm_eval.stats.estimates import Estimate
from lm_eval.stats.few_cells import CALIBRATED
from lm_eval.support.columns import FittingTable
from lm_eval.support.numbers import counted, interval, number, percent
from lm_eval.support.terminal import Paragraph, visible

if TYPE_CHECKING:
    from rich.console import Console

_ANSWERS = "Answers: "
LABEL = 14
"""The width of the words before findings."""


def print_sweep(sweep: Sweep, console: Console, *, is_full: bool = False) -> None:
    """Print a sweep on one screen; all formats, and how each differs, if it ``is_full``."""
    console.print(Paragraph("", sweep_heading(sweep), "bold"))
    console.print()
    console.print(table(sweep, is_full=True) if is_full else _scores(sweep))
    result = sweep.result
    if isinstance(result, FullSweep):
        print_findings([result.comparison], console)
    lines: list[tuple[str, str]] = []
    if isinstance(result, FullSweep) and is_full:
        lines += facts(result.comparison)
    lines += _lines(sweep)
    if lines:
        console.print()
    for label, text in lines:
        console.print(Paragraph(f"{label:{LABEL}}", text))
    remarks = [line for line in _remarks(sweep) if line]
    if remarks:
        console.print()
    for line in remarks:
        console.print(Paragraph("! ", line, "yellow"))
    console.print()


def sweep_heading(sweep: Sweep) -> str:
    """``demo_mcq@mcqa · 8 formats (layout) · 40 items · all 320 cells``."""
    plan = sweep.plan
    cells = f"{sweep.cells:,} of {plan.all_cells:,} cells ({percent(sweep.cells, plan.all_cells)})"
    return " · ".join(
        [
            visible(plan.name),
            f"{counted(plan.num_formats, 'format')} ({plan.formats.axis})",
            counted(plan.num_items, "item"),
            f"all {plan.all_cells:,} cells" if sweep.cells >= plan.all_cells else cells,
        ]
    )


def _scores(sweep: Sweep) -> FittingTable:
    """The table of scores; only the first and the last row say how their formats differ."""
    full = table(sweep)
    rows = [row for row in full.rows if row.what != "base"]
    kept = () if not rows else (rows[0], rows[-1])
    sections = [
        [row if row in kept else row.replace(differs="") for row in section]
        for section in full.sections
    ]
    return FittingTable(COLUMNS, sections, MOVABLE)


def _with_ends(estimate: Estimate) -> str:
    return f"{number(estimate.value, 2)} {interval(estimate)}".rstrip()


def _lines(sweep: Sweep) -> Iterator[tuple[str, str]]:
    """What is known beside the comparison: a word, and what comes after it."""
    result = sweep.result
    if isinstance(result, PartialSweep):
        estimated, q = result.distribution, result.distribution.quantiles
        low, high = (number(end, 2) for end in (estimated.spread.low, estimated.spread.high))
        yield "Best − worst", f"{low} to {high} over all items, estimated"
        yield (
            "Formats",
            f"median {_with_ends(q[50])}; 5 % below {_with_ends(q[5])}, 5 % above "
            f"{_with_ends(q[95])}; mean {_with_ends(estimated.mean)}",
        )
    elif result.spread.value:
        yield from _of_full(sweep, result)
    for text in paid(sweep):
        if text.startswith(_ANSWERS):
            yield "Answers", text.removeprefix(_ANSWERS)


def _of_full(sweep: Sweep, result: FullSweep) -> Iterator[tuple[str, str]]:
    if result.components is not None:
        mean = result.components.over_formats()
        mean = clipped(mean) if result.comparison.is_share else mean
        yield "Mean", f"{_with_ends(mean)} over these formats"
    best, worst = result.best, result.worst
    if sweep.plan.num_formats > 2:
        yield (
            "Extremes",
            f"{name_of(sweep.plan, best)} best in {percent(result.p_best[best], 1)} of resamples, "
            f"{name_of(sweep.plan, worst)} worst in {percent(result.p_worst[worst], 1)}",
        )
    clear = slot_words(result) if result.spread.p < ALPHA else ""
    if clear:
        yield "Slots", clear.removeprefix("What goes with the differences: ")


def _remarks(sweep: Sweep) -> Iterator[str]:
    result = sweep.result
    if isinstance(result, PartialSweep):
        yield "Only the full sweep tests whether formats differ: leave --budget out."
        if result.distribution.mean.method != CALIBRATED:
            yield "The intervals are approximate: so few formats or cells were not tried in simulations."
        yield from result.distribution.warnings
    yield unread_words(sweep, "the differences")
    yield OTHER_AXES.get(sweep.plan.formats.axis, "")
    yield from sweep.notes
    yield from (text for text in paid(sweep) if not text.startswith(_ANSWERS))
