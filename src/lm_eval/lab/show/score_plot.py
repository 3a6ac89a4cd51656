"""Scores with their intervals, a line for each format: as a file, and as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size

from lm_eval.lab.show.plots import BLUE, GREY, MOST_CHARS, Plot, quiet, shown, titled
from lm_eval.stats.estimates import Estimate
from lm_eval.support.numbers import Glyphs, glyphs_for, number, scale_for

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

        If ``encoding`` lacks the line-drawing characters, plain ASCII is used instead.
        """
        width, glyphs = max(width, LEAST_WIDTH), glyphs_for(encoding)
        labels = [_encodable(shown(label), encoding) for label, _ in self.rows]
        values = [number(estimate.value) for _, estimate in self.rows]
        space = _column_width(labels, width)
        digits = max(map(len, values))
        scale = scale_for(self._ends(), width - space - digits - 4)
        lines = _wrapped(shown(self.title, MOST_CHARS), width, encoding)
        for row, (_, estimate) in enumerate(self.rows):
            if self.left_out and row == len(self.rows) // 2:
                lines.append(
                    _encodable(f"{glyphs.cut} {self.left_out} between not shown", encoding)
                )
            bar = scale.bar(estimate.low, estimate.high, estimate.value, glyphs)
            label = _fit(labels[row], space, glyphs)
            lines.append(f"{label}  {values[row]:>{digits}}  {bar}".rstrip())
        lines.append(" " * (space + digits + 4) + scale.ruler())
        return lines if glyphs.line == "─" else [line.replace("−", "-") for line in lines]

    def size(self) -> tuple[float, float]:
        return 8.0, 1.1 + 0.32 * len(self.rows)

    def draw(self, figure: Any) -> None:
        axes = figure.add_subplot()
        for row, (_, estimate) in enumerate(self.rows):
            if estimate.low is not None and estimate.high is not None:
                ends = [estimate.low, estimate.high]
                axes.plot(ends, [row, row], color=BLUE, linewidth=2.2, solid_capstyle="round")
            axes.plot(estimate.value, row, "o", color=BLUE, markersize=6)
            axes.annotate(
                number(estimate.value),
                (1.0, row),
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
        axes.set_yticks(range(len(self.rows)), [shown(label) for label, _ in self.rows])
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
    """Scores with intervals, in the given order; beyond ``most_rows``, the middle is left out."""
    every: Sequence[tuple[str, Estimate]] = list(rows)
    left_out = max(0, len(every) - most_rows)
    if left_out:
        half = most_rows // 2
        every = [*every[:half], *every[len(every) - (most_rows - half) :]]
    return ScoresPlot(tuple(every), title, left_out)


# Text in columns of a terminal


def _encodable(text: str, encoding: str) -> str:
    """``text`` with characters that the encoding lacks shown as ``\\u2026``."""
    try:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except LookupError:
        return text.encode("ascii", "backslashreplace").decode("ascii")


def _fit(text: str, width: int, glyphs: Glyphs) -> str:
    """``text`` in exactly ``width`` columns, cut or padded; wide characters count as two."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    if width < 1:
        return ""
    return set_cell_size(text, width - 1) + glyphs.cut


def _wrapped(text: str, width: int, encoding: str) -> list[str]:
    """``text`` on lines of at most ``width`` columns, broken between words if possible."""
    lines = [""]
    for word in _encodable(text, encoding).split():
        if lines[-1] and cell_len(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
            continue
        tail = word
        while cell_len(tail) > width:  # a word that fills more than a line
            head = set_cell_size(tail, width).rstrip()
            lines.append(head)
            tail = tail[len(head) :]
        lines.append(tail)
    return [line for line in lines if line]


def _column_width(labels: Iterable[str], width: int) -> int:
    """The width of the column of labels: what they need, up to a third of the width."""
    return min(max(map(cell_len, labels)), max(8, width // 3))
