"""Scores with their intervals, a line for each format: as a file, and as text for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size

from lm_eval.lab.show.plots import BLUE, GREY, MOST_CHARS, Plot, quiet, shown, titled
from lm_eval.stats.estimates import Estimate
from lm_eval.text.terminal import ELLIPSIS

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


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a plot."""

    left: str
    line: str
    right: str
    point: str
    cut: str


UNICODE = Glyphs("├", "─", "┤", "●", ELLIPSIS)
ASCII = Glyphs("|", "-", "|", "o", "~")


def glyphs_for(encoding: str) -> Glyphs:
    """Line-drawing characters if the encoding has them, else ASCII."""
    try:
        "".join(getattr(UNICODE, name) for name in Glyphs.__slots__).encode(encoding)
    except (LookupError, UnicodeError):
        return ASCII
    return UNICODE


def encodable(text: str, encoding: str) -> str:
    """``text`` with what the encoding lacks shown as ``\\u2026``."""
    try:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    except LookupError:
        return text.encode("ascii", "backslashreplace").decode("ascii")


def fit(text: str, width: int, glyphs: Glyphs) -> str:
    """``text`` in exactly ``width`` columns, cut or padded; wide characters count as two."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    if width < 1:
        return ""
    return set_cell_size(text, width - 1) + glyphs.cut


def wrapped(text: str, width: int, encoding: str) -> list[str]:
    """``text`` on lines of at most ``width`` columns, broken between words where that is possible."""
    lines = [""]
    for word in encodable(text, encoding).split():
        rest = word
        if lines[-1] and cell_len(f"{lines[-1]} {rest}") <= width:
            lines[-1] += f" {rest}"
            continue
        while cell_len(rest) > width:  # a word that fills more than a line
            head = set_cell_size(rest, width).rstrip()
            lines.append(head)
            rest = rest[len(head) :]
        lines.append(rest)
    return [line for line in lines if line]


def column_width(labels: Iterable[str], width: int) -> int:
    """The width of the column of labels: what they need, up to a third of the width."""
    return min(max(map(cell_len, labels)), max(8, width // 3))


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` to ``high`` on ``columns`` characters."""

    low: float
    high: float
    columns: int

    def column(self, value: float) -> int:
        """The column of a value; values outside go to the ends."""
        share = (value - self.low) / (self.high - self.low)
        return min(self.columns - 1, max(0, round(share * (self.columns - 1))))

    def ruler(self) -> str:
        """The line below the plot: round values, each centred below its column."""
        cells = [" "] * self.columns
        for value in ticks(self.low, self.high, max(2, self.columns // 12)):
            text = number(value)
            start = min(max(0, self.column(value) - len(text) // 2), self.columns - len(text))
            room = cells[max(0, start - 1) : start + len(text) + 1]
            if start >= 0 and all(cell == " " for cell in room):
                cells[start : start + len(text)] = text
        return "".join(cells).rstrip()

    def bar(self, low: float | None, high: float | None, value: float, glyphs: Glyphs) -> str:
        """A line from ``low`` to ``high``, where these are known, with a point at ``value``."""
        cells = [" "] * self.columns
        if low is not None and high is not None:
            first, last = self.column(low), self.column(high)
            cells[first : last + 1] = glyphs.line * (last - first + 1)
            cells[first], cells[last] = glyphs.left, glyphs.right
        cells[self.column(value)] = glyphs.point
        return "".join(cells).rstrip()


def scale_for(values: Iterable[float | None], columns: int) -> Scale:
    """A scale that holds all values with a little room at both ends."""
    known = [value for value in values if value is not None and math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    room = (high - low) * 0.04 or 0.05
    return Scale(low - room, high + room, max(2, columns))


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round values between ``low`` and ``high``, about ``most`` of them at most."""
    rough = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(count * step, 10) for count in range(first, last + 1)]


def number(value: float) -> str:
    """A value of a scale in as few digits as it needs."""
    text = f"{value:.4f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
