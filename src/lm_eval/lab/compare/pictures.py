"""The plots of a comparison: scores with intervals, the flip matrix, the spread and its noise floor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval.lab.compare.values import Comparison, ComparisonReport
from lm_eval.lab.compare.words import title
from lm_eval.lab.show.plots import Plot, ScoresPlot, flips_plot, save_all, scores_plot, spread_plot
from lm_eval.text.files import unique_name

if TYPE_CHECKING:
    from rich.console import Console

SCORES = "scores with 95 % intervals"


def write_plots(report: ComparisonReport, folder: Path) -> list[Path]:
    """Write every plot as SVG and PNG, and return the paths."""
    return save_all(pictures(report), folder)


def pictures(report: ComparisonReport) -> Iterator[tuple[str, Plot]]:
    """Each plot with a name for its file: ``demo_mcq_dummy_scores``."""
    taken: list[str] = []
    for comparison in report.blocks:
        start = unique_name(f"{comparison.task}_{comparison.within}", taken)
        taken.append(start)
        labels = [row.label for row in comparison.rows]
        yield f"{start}_scores", scores_picture(comparison, _titled(comparison, SCORES))
        heading = _titled(comparison, "flips")
        yield (
            f"{start}_flips",
            flips_plot(labels, comparison.flip_counts, title=heading, sides=_sides(comparison)),
        )
        if comparison.spread is not None:
            yield (
                f"{start}_spread",
                spread_plot(comparison.spread, labels, title=_titled(comparison, "spread")),
            )


def show_scores(report: ComparisonReport, console: Console) -> None:
    """Print the plot of each comparison's scores as text."""
    for comparison in report.blocks:
        console.print()
        scores_picture(comparison, _titled(comparison, SCORES)).show(console)


def scores_picture(comparison: Comparison, heading: str = "") -> ScoresPlot:
    """The scores of a comparison with their intervals."""
    return scores_plot([(row.label, row.score) for row in comparison.rows], title=heading)


def _sides(comparison: Comparison) -> tuple[str, str]:
    """The labels of the rows and of the columns of the flip matrix."""
    good, bad = ("right", "wrong") if comparison.is_right_or_wrong else ("better", "worse")
    by = "under this format" if comparison.compares == "formats" else "with this model"
    return f"{good} {by} …", f"… and {bad} {by.split(maxsplit=1)[0]} this one"


def _titled(comparison: Comparison, what: str) -> str:
    return f"{title(comparison)}: {what}"
