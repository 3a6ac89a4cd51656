"""A sweep as it is printed and drawn: a table, plots.

In: a ``Sweep``. Out: something Rich can print, and ``Plot``s. The table has the best and the worst
formats, the base, and how each differs from it. Slot values are data and go through ``visible``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval.errors import UsageError
from lm_eval.lab.show.phrases import chance
from lm_eval.lab.show.plots import Plot, load_matplotlib, save_all, spread_plot
from lm_eval.lab.show.score_plot import ScoresPlot, scores_plot
from lm_eval.lab.sweep.sweep import FullSweep, PartialSweep, Sweep
from lm_eval.lab.sweep.words import name_of
from lm_eval.stats.estimates import Estimate
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.files import safe_task_name
from lm_eval.support.numbers import interval, number, p_value, signed
from lm_eval.support.terminal import visible

if TYPE_CHECKING:
    pass

SHOWN = 5
"""How many formats a table shows from each end; the JSON file has all of them."""
ALL_SHOWN = 2 * SHOWN
"""Up to this many formats, the table shows all."""
MOVABLE = ("differs", "chance", "read", "p", "against")
COLUMNS = (
    Column("what", ""),
    Column("name", "Format", wraps=True, stays=True),
    Column("score", "Score", is_number=True, stays=True),
    Column("interval", "95 % CI", stays=True),
    Column("n", "Items", is_number=True, stays=True),
    Column("against", "Against base", is_number=True),
    Column("p", "p", is_number=True),
    Column("chance", "Best / worst", is_number=True),
    Column("read", "Read", is_number=True),
    Column("differs", "Differs in", wraps=True),
)


def table(sweep: Sweep, *, is_full: bool = False) -> FittingTable:
    """The best and worst formats, and the base; all formats if it ``is_full``."""
    result = sweep.result
    order = _best_first(sweep, result.scores)
    if is_full or len(order) <= ALL_SHOWN:
        return FittingTable(COLUMNS, ([_row(sweep, result, row) for row in order],), MOVABLE)
    ends = order[:SHOWN], order[-SHOWN:]
    base_row = () if any(0 in rows for rows in ends) else (0,)
    sections = [[_row(sweep, result, row) for row in rows] for rows in (*ends, base_row)]
    return FittingTable(COLUMNS, sections, MOVABLE)


def _best_first(sweep: Sweep, scores: Sequence[Estimate]) -> list[int]:
    """Row numbers, best first."""
    sign = -1 if sweep.higher_is_better else 1
    return sorted(range(len(scores)), key=lambda row: (sign * scores[row].value, row))


def _row(sweep: Sweep, result: FullSweep | PartialSweep, row: int) -> Cells:
    cells = _cells(sweep, row, result.scores[row], what="base" if row == 0 else "")
    if isinstance(result, PartialSweep):
        return cells
    pair, p = result.against_base[row], result.adjusted[row]
    return cells.replace(
        against="" if pair is None else signed(pair.difference.value, 3),
        p="" if p is None else p_value(p),
        chance=f"{chance(result.p_best[row])} / {chance(result.p_worst[row])}",
    )


def _cells(sweep: Sweep, row: int, score: Estimate, **others: str) -> Cells:
    """The cells that every line has: name, score, share read, and slots that differ from the base's."""
    formats, share = sweep.plan.formats, sweep.shares_read[row]
    base, slots = formats[0].slots, formats[row].slots
    changed = (f"{slot}={value!r}" for slot, value in slots.items() if value != base.get(slot))
    cells = {
        "name": name_of(sweep.plan, row),
        "score": number(score.value),
        "interval": interval(score),
        "n": f"{score.n:,}",
        "read": "" if share is None else f"{100 * share:.0f} %",
        "differs": visible(", ".join(changed)),
    }
    return Cells(**{**cells, **others})


def check_folder(folder: str) -> None:
    """Raise an error if plots cannot be written to ``folder``, before a model is asked."""
    path = Path(folder).expanduser()
    if not folder.strip() or path.is_file():
        raise UsageError(f"--plots {folder!r} is not a folder. Name one; it is created if needed.")
    load_matplotlib()


def plots(sweep: Sweep) -> dict[str, Plot]:
    """The plots of a sweep by name: ``scores``, and for a full sweep ``spread``."""
    drawn: dict[str, Plot] = {"scores": sweep_scores_plot(sweep)}
    if isinstance(sweep.result, FullSweep):
        names = [sample.name for sample in sweep.plan.formats]
        title = f"{sweep.plan.name}: spread between {len(names)} formats"
        drawn["spread"] = spread_plot(sweep.result.spread, names, title=title)
    return drawn


def sweep_scores_plot(sweep: Sweep) -> ScoresPlot:
    """The scores of all formats, best first."""
    result, names = sweep.result, [sample.name for sample in sweep.plan.formats]
    rows = [(names[row], result.scores[row]) for row in _best_first(sweep, result.scores)]
    title = f"{sweep.plan.name}: score by format, with its 95 % interval"
    return scores_plot(rows, title=title)


def save_plots(sweep: Sweep, folder: str | Path) -> list[Path]:
    """Write every plot as SVG and PNG, and return the paths."""
    start = f"sweep_{safe_task_name(sweep.plan.name)}"
    return save_all(((f"{start}_{name}", plot) for name, plot in plots(sweep).items()), folder)
