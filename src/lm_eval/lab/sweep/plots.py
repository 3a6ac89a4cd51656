"""A sweep as plots: the formats' scores with their intervals, and the spread against its noise floor.

In: a ``Sweep``. Out: SVG and PNG files, or the scores as text in the terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from lm_eval.errors import MissingExtraError, UsageError
from lm_eval.lab.show.plots import Plot, ScoresPlot, save_all, scores_plot, spread_plot
from lm_eval.lab.sweep.full import FullSweep
from lm_eval.lab.sweep.search import SearchResult
from lm_eval.lab.sweep.sweep import PartialSweep, Sweep
from lm_eval.stats.estimates import Estimate
from lm_eval.text.files import safe_task_name


def check_folder(folder: str) -> None:
    """Raise an error if plots cannot be written to ``folder``, before a model is asked."""
    path = Path(folder).expanduser()
    if not folder.strip() or path.is_file():
        raise UsageError(
            f"--plots {folder!r} is no folder. Name one; it is made where it is not there."
        )
    if find_spec("matplotlib") is None:
        raise MissingExtraError(
            "Plots as files need the package matplotlib.",
            install="pip install 'lm-eval-formats[plots]'",
        )


def plots(sweep: Sweep) -> dict[str, Plot]:
    """The plots of a sweep by name: ``scores``, and for a full sweep ``spread``."""
    drawn: dict[str, Plot] = {"scores": sweep_scores_plot(sweep)}
    if isinstance(sweep.result, FullSweep):
        names = [sample.name for sample in sweep.plan.formats]
        title = f"{sweep.plan.name}: spread between {len(names)} formats"
        drawn["spread"] = spread_plot(sweep.result.spread, names, title=title)
    return drawn


def sweep_scores_plot(sweep: Sweep) -> ScoresPlot:
    """The scores of all formats, best first; for a search, of its choices and the base."""
    result, names = sweep.result, [sample.name for sample in sweep.plan.formats]
    if isinstance(result, SearchResult):
        rows = [(f"{end.kind}: {names[end.chosen]}", end.fresh) for end in result.extremes]
        rows.append((f"base: {names[0]}", result.base))
        title = f"{sweep.plan.name}: scores on {result.fresh_items} fresh items"
        return scores_plot(rows, title=title)
    scores = result.scores if isinstance(result, FullSweep) else _estimated(result)
    rows = _best_first(sweep, names, scores)
    title = f"{sweep.plan.name}: score by format, with its 95 % interval"
    return scores_plot(rows, title=title)


def save_plots(sweep: Sweep, folder: str | Path) -> list[Path]:
    """Write every plot as SVG and PNG, and return the paths."""
    start = f"sweep_{safe_task_name(sweep.plan.name)}"
    return save_all(((f"{start}_{name}", plot) for name, plot in plots(sweep).items()), folder)


def _estimated(result: PartialSweep) -> Sequence[Estimate]:
    return result.distribution.per_format


def _best_first(
    sweep: Sweep, names: Sequence[str], scores: Sequence[Estimate]
) -> list[tuple[str, Estimate]]:
    sign = -1 if sweep.higher_is_better else 1
    rows = list(zip(names, scores, strict=True))
    return sorted(rows, key=lambda row: sign * row[1].value)
