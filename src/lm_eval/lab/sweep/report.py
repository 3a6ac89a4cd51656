"""A sweep as it is printed and drawn: a line for each format and for each finding, and plots.

In: a ``Sweep``. Out: ``Section``s and ``Plot``s. The table has the best and the worst formats and the
base; all of them if it is to be full. Names and slot values are data and go through ``visible``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lm_eval.errors import UsageError
from lm_eval.lab.compare.details import facts
from lm_eval.lab.compare.findings import finding_sections
from lm_eval.lab.compare.values import ALPHA
from lm_eval.lab.report import ReportLine, Section
from lm_eval.lab.show.phrases import chance, clipped
from lm_eval.lab.show.plots import Plot, SpreadPlot, load_matplotlib, save_all
from lm_eval.lab.show.score_plot import ScoresPlot, scores_plot
from lm_eval.lab.sweep.sweep import FullSweep, PartialSweep, Sweep
from lm_eval.stats.components import SlotEffect
from lm_eval.stats.estimates import Estimate
from lm_eval.stats.few_cells import CALIBRATED
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.files import safe_task_name
from lm_eval.support.numbers import counted, interval, number, p_equals, p_value, percent, signed
from lm_eval.support.terminal import visible

SHOWN = 5
"""How many formats a table shows from each end; the JSON file has all of them."""
FEW_FORMATS = 10
"""Up to this many formats, the table shows all; they are too few to find a slot with."""
_MOVABLE = ("differs", "chance", "read", "p", "against")
_COLUMNS = (
    Column("what", ""),
    Column("name", "Format", wraps=True, stays=True),
    Column("score", "Score", is_number=True, stays=True),
    Column("interval", "95 % CI", stays=True),
    Column("n", "Items", is_number=True, stays=True),
    Column("against", "Against base", is_number=True),
    Column("p", "p", is_number=True),
    Column("chance", "Best / worst", is_number=True),
    Column("read", "Parsed", is_number=True),
    Column("differs", "Differs in", wraps=True),
)
_OTHER_AXES = {
    "wording": "These formats ask in different words, so this is not the effect of layout.",
    "shots": "What varies here is the few-shot examples, not the layout.",
    "reasoning": "What varies here is whether the model reasons first, not the layout.",
}


def sweep_report(sweep: Sweep, *, is_full: bool = False) -> list[Section]:
    """A sweep for one screen; all formats, and how each differs, if it ``is_full``."""
    result = sweep.result
    lines, notes = list(_lines(sweep)), tuple(filter(None, _remarks(sweep)))
    found: list[Section] = []
    if isinstance(result, FullSweep):
        found = finding_sections(result.comparison)
        lines = [*(facts(result.comparison) if is_full else ()), *lines]
    table = _table(sweep, is_full=is_full)
    return [Section(_heading(sweep), table), *found, Section(lines=lines, notes=notes)]


def _heading(sweep: Sweep) -> str:
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


# The table


def _table(sweep: Sweep, *, is_full: bool) -> FittingTable:
    """Unless it is full, only the first and the last row say how their formats differ."""
    order = _best_first(sweep)
    if is_full or len(order) <= FEW_FORMATS:
        sections = [order]
    else:
        ends = order[:SHOWN], order[-SHOWN:]
        sections = [*ends, [] if any(0 in rows for rows in ends) else [0]]
    others = [row for rows in sections for row in rows if row]
    told = others if is_full else [*others[:1], *others[-1:]]
    rows = [[_row(sweep, row, tells=row in told) for row in section] for section in sections]
    return FittingTable(_COLUMNS, rows, _MOVABLE)


def _best_first(sweep: Sweep) -> list[int]:
    """Row numbers, best first."""
    sign, scores = -1 if sweep.higher_is_better else 1, sweep.result.scores
    return sorted(range(len(scores)), key=lambda row: (sign * scores[row].value, row))


def _row(sweep: Sweep, row: int, *, tells: bool) -> Cells:
    result, share = sweep.result, sweep.shares_read[row]
    score, base, slots = (
        result.scores[row],
        sweep.plan.formats[0].slots,
        sweep.plan.formats[row].slots,
    )
    changed = (f"{slot}={value!r}" for slot, value in slots.items() if value != base.get(slot))
    cells = Cells(
        what="" if row else "base",
        name=_name(sweep, row),
        score=number(score.value),
        interval=interval(score),
        n=f"{score.n:,}",
        read="" if share is None else percent(share, 1),
        differs=visible(", ".join(changed)) if tells else "",
    )
    if isinstance(result, PartialSweep):
        return cells
    pair, p = result.against_base[row], result.adjusted[row]
    return cells.replace(
        against="" if pair is None else signed(pair.difference.value, 3),
        p="" if p is None else p_value(p),
        chance=f"{chance(result.p_best[row])} / {chance(result.p_worst[row])}",
    )


def _name(sweep: Sweep, row: int) -> str:
    return visible(sweep.plan.formats[row].name)


# Lines and remarks


def _lines(sweep: Sweep) -> Iterator[ReportLine]:
    """What is known beside the comparison."""
    result = sweep.result
    if isinstance(result, PartialSweep):
        estimated, q = result.distribution, result.distribution.quantiles
        low, high = (number(end, 2) for end in (estimated.spread.low, estimated.spread.high))
        yield ReportLine("Best − worst", f"{low} to {high} over all items, estimated")
        yield ReportLine(
            "Formats",
            f"median {_with_ends(q[50])}; 5 % below {_with_ends(q[5])}, 5 % above "
            f"{_with_ends(q[95])}; mean {_with_ends(estimated.mean)}",
        )
    elif result.spread.value:
        yield from _of_full(sweep, result)
    if sweep.reused or sweep.asked:
        asked = (
            f"{sweep.asked:,} asked of the model, {sweep.reused:,} reused from earlier commands."
        )
        yield ReportLine("Answers", asked)


def _with_ends(estimate: Estimate) -> str:
    return f"{number(estimate.value, 2)} {interval(estimate)}".rstrip()


def _of_full(sweep: Sweep, result: FullSweep) -> Iterator[ReportLine]:
    if result.components is not None:
        mean = result.components.over_formats()
        mean = clipped(mean) if result.comparison.is_share else mean
        yield ReportLine("Mean", f"{_with_ends(mean)} over these formats")
    best, worst = result.best, result.worst
    if sweep.plan.num_formats > 2:
        yield ReportLine(
            "Extremes",
            f"{_name(sweep, best)} best in {percent(result.p_best[best], 1)} of resamples, "
            f"{_name(sweep, worst)} worst in {percent(result.p_worst[worst], 1)}",
        )
    clear = [effect for effect in result.slots if effect.adjusted < ALPHA]
    if result.spread.p >= ALPHA:
        return
    if clear:
        yield ReportLine("Slots", f"{'; '.join(map(_slot, clear))}.")
    elif result.slots and len(result.scores) > FEW_FORMATS:
        yield ReportLine(
            "Slots", f"none of {len(result.slots)} explains the differences by itself."
        )


def _slot(effect: SlotEffect) -> str:
    names = list(effect.means)
    ends = [
        f"{visible(repr(name))} with {number(effect.means[name], 2)}"
        for name in (names[-1], names[0])
    ]
    return (
        f"{visible(effect.slot)} ({chance(effect.explained)} of the variance between formats, "
        f"{p_equals(effect.adjusted)}; from {ends[0]} to {ends[1]})"
    )


def _remarks(sweep: Sweep) -> Iterator[str]:
    result = sweep.result
    if isinstance(result, PartialSweep):
        yield "Only the full sweep tests whether formats differ: leave --budget out."
        if result.distribution.mean.method != CALIBRATED:
            yield "The intervals are approximate: so few formats or cells were not tried in simulations."
        yield from result.distribution.warnings
    yield _unparsed(sweep)
    yield _OTHER_AXES.get(sweep.plan.formats.axis, "")
    yield from sweep.notes
    if sweep.missing:
        are = "is" if sweep.missing == 1 else "are"
        yield f"{counted(sweep.missing, 'cell')} got no answer and {are} not counted."


def _unparsed(sweep: Sweep) -> str:
    """How many replies contain no answer, if any; part of the differences may be due to these."""
    shares = [value for value in sweep.shares_read if value is not None]
    if not shares or min(shares) == 1:
        return ""
    if max(shares) == 0:
        where = (
            "in the samples" if "results" in sweep.files else "with --output_path, in the samples"
        )
        return (
            "No reply under any of these formats contained an answer, so the scores say nothing about "
            f"what the model knows. Look at the replies {where}."
        )
    least = f"only {chance(min(shares))}" if min(shares) else "none"
    name = _name(sweep, sweep.shares_read.index(min(shares)))
    return (
        f"Under {name} {least} of the replies were parsed (the most: {chance(max(shares))}). Replies "
        "without an answer count as not right, so part of the differences may come from keeping to the "
        "format, not from knowing."
    )


# Plots


def check_folder(folder: str) -> None:
    """Raise an error if plots cannot be written to ``folder``, before a model is asked."""
    if not folder.strip() or Path(folder).expanduser().is_file():
        raise UsageError(f"--plots {folder!r} is not a folder. Name one; it is created if needed.")
    load_matplotlib()


def sweep_scores_plot(sweep: Sweep) -> ScoresPlot:
    """The scores of all formats, best first."""
    names = [sample.name for sample in sweep.plan.formats]
    rows = [(names[row], sweep.result.scores[row]) for row in _best_first(sweep)]
    return scores_plot(rows, title=f"{sweep.plan.name}: score by format, with its 95 % interval")


def save_plots(sweep: Sweep, folder: str | Path) -> list[Path]:
    """Write the scores, and for a full sweep the spread, as SVG and PNG; return the paths."""
    plots: dict[str, Plot] = {"scores": sweep_scores_plot(sweep)}
    if isinstance(sweep.result, FullSweep):
        names = [sample.name for sample in sweep.plan.formats]
        title = f"{sweep.plan.name}: spread between {len(names)} formats"
        plots["spread"] = SpreadPlot(sweep.result.spread, names, title=title)
    start = f"sweep_{safe_task_name(sweep.plan.name)}"
    return save_all(((f"{start}_{name}", plot) for name, plot in plots.items()), folder)
