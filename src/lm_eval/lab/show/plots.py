"""Plots as SVG or PNG files: what all of them share, the flip matrix, and the spread.

They take plain numbers and labels; ``save(path)`` needs matplotlib.

The same numbers give the same file, byte for byte: no date, no random ids. Labels are data: control
characters are made visible, and nothing in them is read as a formula or as markup.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lm_eval.errors import MissingExtraError, OutputError, UsageError
from lm_eval.support.numbers import number, p_equals
from lm_eval.support.terminal import visible

if TYPE_CHECKING:
    from lm_eval.stats.spread import Spread


SUFFIXES = (".svg", ".png")
LABEL_CHARS = 40
MOST_CHARS = 400
"""The longest title; names in it may be of any length."""
_CHARS_PER_INCH = 10
"""Characters of a title for each inch of a plot's width."""

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
BLUE = "#0072B2"
ORANGE = "#D55E00"
GREY = "#8A8A8A"
LIGHT = "#DDDDDD"
INK = "#222222"

_SETTINGS = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 10.0,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "axes.unicode_minus": True,
    "svg.fonttype": "none",  # text stays text: it can be searched, copied and read aloud
    "svg.hashsalt": "lm-eval",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 150.0,
}


class Plot(ABC):
    """A plot that can be saved as SVG or PNG."""

    @abstractmethod
    def size(self) -> tuple[float, float]:
        """Width and height of the file in inches."""

    @abstractmethod
    def draw(self, figure: Any) -> None:
        """Draw on an empty figure of matplotlib."""

    def save(self, path: str | Path) -> Path:
        """Write the plot as SVG or PNG, by the suffix of the name, and return its path."""
        target = Path(path).expanduser()
        kind = target.suffix.lower()
        if kind not in SUFFIXES:
            raise UsageError(
                f"A plot is saved as {' or '.join(SUFFIXES)}, and {visible(target.name)!r} ends with "
                "neither."
            )
        content = self.rendered(kind[1:])
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        except (OSError, ValueError) as error:  # ValueError: a null character in the path
            reason = getattr(error, "strerror", None) or error
            raise OutputError(
                f"Cannot write the plot to {visible(str(target))!r}: {reason}. Choose a folder that "
                "you can write to."
            ) from error
        return target

    def rendered(self, kind: str) -> bytes:
        """The plot as the bytes of an ``svg`` or ``png`` file."""
        matplotlib = load_matplotlib()
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        canvases: dict[str, Any] = {"svg": FigureCanvasSVG, "png": FigureCanvasAgg}
        metadata = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
        stream = io.BytesIO()
        with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
            # A label in a script that the font lacks: an SVG still shows it, a PNG shows boxes.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure = Figure(figsize=self.size(), layout="constrained")
            canvases[kind](figure)
            self.draw(figure)
            figure.savefig(stream, format=kind, metadata=metadata[kind])
        return stream.getvalue()


def save_all(plots: Iterable[tuple[str, Plot]], folder: str | Path) -> list[Path]:
    """Write each plot by its name, as SVG and as PNG, and return the paths."""
    return [
        plot.save(Path(folder) / f"{name}{suffix}") for name, plot in plots for suffix in SUFFIXES
    ]


def shown(label: str, limit: int = LABEL_CHARS) -> str:
    """A label as printable text: on one line, control characters visible, cut to ``limit``."""
    return visible(str(label), limit)


def titled(figure: Any, title: str) -> None:
    """Put a title above the figure, aligned left, as labels may fill half of the width."""
    if title:
        width = int(_CHARS_PER_INCH * figure.bbox.width / figure.dpi)
        lines = textwrap.fill(shown(title, MOST_CHARS), width)
        figure.suptitle(lines, x=0.01, ha="left", fontsize=12)


def quiet(axes: Any) -> None:
    """Remove the ticks of the vertical axis and draw light grid lines for the values."""
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=LIGHT, linewidth=0.8)
    axes.set_axisbelow(True)


def load_matplotlib() -> Any:
    """The package; if it is missing, a ``MissingExtraError`` with the line that installs it."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError(
            "Plots as files need the package matplotlib.",
            install="pip install 'lm-eval-formats[plots]'",
        ) from None
    return matplotlib


NUMBERED = 14
"""Up to this many formats, the cells show their counts."""
NAMED = 60


@dataclass(frozen=True, slots=True)
class FlipsPlot(Plot):
    """The flip matrix: in row a and column b, the items right under a and wrong under b."""

    labels: Sequence[str]
    counts: Sequence[Sequence[int]]
    title: str = "Items right under one format and wrong under another"
    sides: tuple[str, str] = ("right under this format …", "… and wrong under this one")
    """What rows and columns are: the labels of the axes."""

    def size(self) -> tuple[float, float]:
        side = 2.2 + 0.45 * min(len(self.labels), 24)
        return side + 1.6, side

    def draw(self, figure: Any) -> None:
        axes = figure.add_subplot()
        most = max(1, *(count for row in self.counts for count in row))
        image = axes.imshow(self.counts, cmap="Blues", vmin=0, vmax=most)
        indices = range(len(self.labels))
        for index in indices:  # a format does not differ from itself
            low, high = index - 0.5, index + 0.5
            axes.fill_between([low, high], low, high, color=LIGHT, lw=0)
        if len(self.labels) <= NAMED:
            names = [shown(label, 24) for label in self.labels]
            small = 10 if len(names) <= 30 else 6
            slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
            axes.set_xticks(list(indices), names, fontsize=small, **slanted)
            axes.set_yticks(list(indices), names, fontsize=small)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0)
        if len(self.labels) <= NUMBERED:
            for row in indices:
                for column in indices:
                    self._number(axes, row, column, most)
        titled(figure, self.title)
        axes.set_ylabel(self.sides[0])
        axes.set_xlabel(self.sides[1])
        bar = figure.colorbar(image, ax=axes, shrink=0.7, label="items")
        bar.locator.set_params(integer=True)
        bar.outline.set_visible(False)

    def _number(self, axes: Any, row: int, column: int, most: int) -> None:
        count = self.counts[row][column]
        text = "–" if row == column else str(count)
        color = "white" if count > 0.6 * most else "#222222"
        axes.text(column, row, text, ha="center", va="center", color=color)


NOISE, FOUND = "by luck alone", "found"
MOST_FORMATS = 20


@dataclass(frozen=True, slots=True)
class SpreadPlot(Plot):
    """The spread against its noise floor, and how often each format scores highest or lowest."""

    spread: Spread
    labels: Sequence[str]
    title: str = "Spread between the formats"

    def size(self) -> tuple[float, float]:
        return 8.0, sum(self._heights())

    def draw(self, figure: Any) -> None:
        heights = self._heights()
        parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)
        self._draw_spread(parts[0, 0])
        if len(heights) > 1:
            self._draw_chances(parts[1, 0], self._likely())

    def _heights(self) -> list[float]:
        likely = self._likely()
        return [2.6, 0.9 + 0.28 * len(likely)] if likely else [2.6]

    def _draw_spread(self, figure: Any) -> None:
        spread, axes = self.spread, figure.add_subplot()
        axes.barh(0, spread.null_95, height=0.5, color=LIGHT)
        axes.plot([spread.null_mean] * 2, [-0.25, 0.25], color=GREY, linewidth=2)
        if spread.safe_low is not None and spread.safe_high is not None:
            ends = [spread.safe_low, spread.safe_high]
            axes.plot(ends, [1, 1], color=BLUE, linewidth=2.2, solid_capstyle="round")
        axes.plot(spread.value, 1, "D", color=BLUE, markersize=8)
        axes.set_yticks([0, 1], [NOISE, FOUND])
        axes.set_ylim(1.6, -0.6)
        axes.set_xlim(left=0.0)
        titled(figure, self.title)
        figure.supxlabel("\n".join(self._notes()), x=0.01, ha="left", fontsize=9)
        quiet(axes)

    def _draw_chances(self, figure: Any, likely: Sequence[int]) -> None:
        spread, axes = self.spread, figure.add_subplot()
        rows = range(len(likely))
        axes.barh(rows, [spread.p_best[k] for k in likely], color=BLUE, height=0.6)
        lowest = [-spread.p_worst[k] for k in likely]
        axes.barh(rows, lowest, color=ORANGE, height=0.6)
        axes.axvline(0.0, color=GREY, linewidth=1)
        axes.set_yticks(list(rows), [shown(self.labels[k]) for k in likely])
        axes.set_ylim(len(likely) - 0.4, -0.6)
        axes.set_xlim(-1.0, 1.0)
        axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["1", "0.5", "0", "0.5", "1"])
        titled(
            figure, "Share of resamples in which a format scores lowest (left) or highest (right)"
        )
        quiet(axes)

    def _likely(self) -> list[int]:
        """The formats that score highest or lowest in some resamples, the highest first."""
        spread = self.spread
        if spread.low is None:
            return []
        chances = [
            max(best, worst) for best, worst in zip(spread.p_best, spread.p_worst, strict=True)
        ]
        order = sorted(range(len(chances)), key=lambda k: -chances[k])
        kept = [k for k in order if chances[k] >= 0.005][:MOST_FORMATS]
        return sorted(kept, key=lambda k: (spread.p_worst[k] - spread.p_best[k], k))

    def _notes(self) -> list[str]:
        spread = self.spread
        best, worst = (shown(self.labels[k], 30) for k in (spread.best, spread.worst))
        notes = [f"{FOUND}: {number(spread.value)}, from {worst} up to {best}{self._interval()}"]
        if spread.null_method == "none":
            return [*notes, "The formats agree on every item: there is nothing to test."]
        how = spread.null_method
        if spread.null_permutations:
            how = f"{spread.null_permutations:,} {how}"
        floor = f"{NOISE}: {number(spread.null_mean)} on average, up to {number(spread.null_95)} in 95 %"
        return [*notes, f"{floor}; {p_equals(spread.p)} ({how})"]

    def _interval(self) -> str:
        low, high = self.spread.safe_low, self.spread.safe_high
        return (
            ""
            if low is None or high is None
            else f"; 95 % interval: {number(low)} to {number(high)}"
        )
