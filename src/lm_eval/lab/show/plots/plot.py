"""The base of all plots: saving as SVG or PNG, colours, titles.

Files are the same, byte for byte, whenever the numbers are: no date, no random ids. Labels are data:
control characters are made visible, and nothing in them is read as a formula or as markup.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lm_eval.errors import MissingExtraError, OutputError, UsageError
from lm_eval.text.terminal import visible

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
        matplotlib = _matplotlib()
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure

        canvases: dict[str, Any] = {"svg": FigureCanvasSVG, "png": FigureCanvasAgg}
        metadata = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
        stream = io.BytesIO()
        with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
            # A label in a script that the font lacks: an SVG shows it all the same, a PNG boxes.
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
    """Put a title above the figure, aligned left: labels may take half of the width."""
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


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError(
            "Plots as files need the package matplotlib.",
            install="pip install 'lm-eval-formats[plots]'",
        ) from None
    return matplotlib
