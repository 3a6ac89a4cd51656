"""Values with their intervals as bars of characters, on a scale that fits a terminal.

In: numbers and a width in columns. Out: lines of text; plain ASCII where the encoding lacks the
characters for drawing lines. Wide characters count as two columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from lm_eval.text.terminal import ELLIPSIS


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
