"""Scores with their intervals, a line for each format: as a file, and as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval.lab.show.plots import BLUE, GREY, MOST_CHARS, Plot, quiet, shown, titled
from lm_eval.stats.estimates import Estimate
from lm_eval.text.bars import column_width, encodable, fit, glyphs_for, scale_for, wrapped

if TYPE_CHECKING:
    from rich.console import Console


MOST_ROWS = 60
DEFAULT_WIDTH = 100
LEAST_WIDTH = 40


@dataclass(frozen=True, slots=True)
class ScoresPlot(Plot):
    """Scores with intervals by format."""

    rows: tuple[tuple[str, Estimate], ...]
    title: str
    left_out: int
    """How many rows in the middle are left out."""

    def show(self, console: Console) -> None:
        """Print it as text."""
        lines = self.lines(console.width, console.encoding)
        console.print("\n".join(lines), markup=False, highlight=False, no_wrap=True)

    def lines(self, width: int = DEFAULT_WIDTH, encoding: str = "utf-8") -> list[str]:
        """The plot as text, no line wider than ``width`` columns (40 at least).

        Where ``encoding`` lacks the line-drawing characters, plain ASCII takes their place.
        """
        width, glyphs = max(width, LEAST_WIDTH), glyphs_for(encoding)
        labels = [encodable(shown(label), encoding) for label, _ in self.rows]
        values = [f"{estimate.value:.3f}" for _, estimate in self.rows]
        space = column_width(labels, width)
        number = max(map(len, values))
        scale = scale_for(self._ends(), width - space - number - 4)
        lines = wrapped(shown(self.title, MOST_CHARS), width, encoding)
        for place, (_, estimate) in enumerate(self.rows):
            if self.left_out and place == len(self.rows) // 2:
                lines.append(encodable(f"{glyphs.cut} {self.left_out} between not shown", encoding))
            bar = scale.bar(estimate.low, estimate.high, estimate.value, glyphs)
            label = fit(labels[place], space, glyphs)
            lines.append(f"{label}  {values[place]:>{number}}  {bar}".rstrip())
        lines.append(" " * (space + number + 4) + scale.ruler())
        return lines

    def size(self) -> tuple[float, float]:
        return 8.0, 1.1 + 0.32 * len(self.rows)

    def draw(self, figure: Any) -> None:
        axes = figure.add_subplot()
        places = range(len(self.rows))
        for place, (_, estimate) in zip(places, self.rows, strict=True):
            if estimate.low is not None and estimate.high is not None:
                ends = [estimate.low, estimate.high]
                axes.plot(ends, [place, place], color=BLUE, linewidth=2.2, solid_capstyle="round")
            axes.plot(estimate.value, place, "o", color=BLUE, markersize=6)
            axes.annotate(
                f"{estimate.value:.3f}",
                (1.0, place),
                xycoords=axes.get_yaxis_transform(),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                annotation_clip=False,
            )
        if self.left_out:
            middle = len(self.rows) // 2 - 0.5
            axes.axhline(middle, color=GREY, linestyle=":", linewidth=1)
            axes.set_xlabel(f"dotted line: {self.left_out} between not shown")
        axes.set_yticks(list(places), [shown(label) for label, _ in self.rows])
        axes.set_ylim(len(self.rows) - 0.4, -0.6)
        titled(figure, self.title)
        axes.margins(x=0.05)
        quiet(axes)

    def _ends(self) -> list[float | None]:
        return [end for _, each in self.rows for end in (each.value, each.low, each.high)]


def scores_plot(
    rows: Iterable[tuple[str, Estimate]],
    *,
    title: str = "Score by format, with its 95 % interval",
    most_rows: int = MOST_ROWS,
) -> ScoresPlot:
    """Scores with intervals, in the order given; of more than ``most_rows`` the middle is left out."""
    every: Sequence[tuple[str, Estimate]] = list(rows)
    if not every:
        raise ValueError("A plot of scores needs one score or more; got none.")
    left_out = max(0, len(every) - most_rows)
    if left_out:
        half = most_rows // 2
        every = [*every[:half], *every[len(every) - (most_rows - half) :]]
    return ScoresPlot(tuple(every), title, left_out)
