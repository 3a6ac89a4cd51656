"""The plots of a comparison: scores with intervals, the flip matrix, the spread and its noise floor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval.lab.compared import Block, Comparison
from lm_eval.lab.plots import Plot, ScoresPlot, flips_plot, save_all, scores_plot, spread_plot
from lm_eval.lab.words import title
from lm_eval.reports.names import unique_name

if TYPE_CHECKING:
    from rich.console import Console

SCORES = "scores with 95 % intervals"


def write_plots(comparison: Comparison, folder: Path) -> list[Path]:
    """Write every plot as SVG and PNG, and return the paths."""
    return save_all(pictures(comparison), folder)


def pictures(comparison: Comparison) -> Iterator[tuple[str, Plot]]:
    """Each plot with a name for its file: ``demo_mcq_dummy_scores``."""
    taken: list[str] = []
    for block in comparison.blocks:
        start = unique_name(f"{block.task}_{block.within}", taken)
        taken.append(start)
        labels = [row.label for row in block.rows]
        yield f"{start}_scores", scores_picture(block, _titled(block, SCORES))
        heading = _titled(block, "flips")
        yield (
            f"{start}_flips",
            flips_plot(labels, block.flip_counts, title=heading, sides=_sides(block)),
        )
        if block.spread is not None:
            yield (
                f"{start}_spread",
                spread_plot(block.spread, labels, title=_titled(block, "spread")),
            )


def show_scores(comparison: Comparison, console: Console) -> None:
    """Print the plot of each block's scores as text."""
    for block in comparison.blocks:
        console.print()
        scores_picture(block, _titled(block, SCORES)).show(console)


def scores_picture(block: Block, heading: str = "") -> ScoresPlot:
    """The scores of a block with their intervals."""
    return scores_plot([(row.label, row.score) for row in block.rows], title=heading)


def _sides(block: Block) -> tuple[str, str]:
    """The labels of the rows and of the columns of the flip matrix."""
    good, bad = ("right", "wrong") if block.is_right_or_wrong else ("better", "worse")
    by = "under this format" if block.compares == "formats" else "with this model"
    return f"{good} {by} …", f"… and {bad} {by.split(maxsplit=1)[0]} this one"


def _titled(block: Block, what: str) -> str:
    return f"{title(block)}: {what}"
