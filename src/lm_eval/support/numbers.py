"""Numbers → text: in a table cell or a sentence, and as bars of characters on a scale.

Scores, intervals, p-values, shares, times and money; ``–`` is shown for a number that does not exist.
Every table and report of both programs uses these. Bars are plain ASCII if the encoding lacks the
characters for drawing lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fractions import Fraction

NOTHING = "–"


class _Estimate(Protocol):
    """What is shown of a ``stats.estimates.Estimate``."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


def number(value: float | None, digits: int = 3) -> str:
    """A score as people read it: ``.525``, ``−.10``, ``12.34``, ``1.23e+05``; ``–`` if there is none."""
    if value is None:
        return NOTHING
    if abs(value) >= 1000:
        text = f"{value:.4g}"
    else:
        text = f"{value:.{digits if abs(value) < 10 else max(1, digits - 1)}f}"
    text = text.replace("-", "−")
    return text.replace("0.", ".", 1) if text.lstrip("−").startswith("0.") else text


def signed(value: float | None, digits: int = 2) -> str:
    """A difference with its sign: ``+.24``, ``−.10``, ``.00``; ``–`` if there is none."""
    if value is None:
        return NOTHING
    text = number(round(value, 9), digits)  # sums in another order differ in the last digit
    if not text.strip("−.0"):
        return text.removeprefix("−")
    return text if text.startswith("−") else f"+{text}"


def value_of(estimate: _Estimate | None) -> str:
    """The value alone; ``–`` if there is no estimate."""
    return NOTHING if estimate is None else number(estimate.value)


def interval(estimate: _Estimate | None) -> str:
    """``[.42, .63]``, with a third digit if it is narrow; empty if there is none."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    digits = 2 if estimate.high - estimate.low >= 0.05 else 3
    return f"[{number(estimate.low, digits)}, {number(estimate.high, digits)}]"


def with_interval(estimate: _Estimate | None, digits: int = 3) -> str:
    """``.250 [.10, .38]``; the value alone if there is no interval."""
    if estimate is None:
        return NOTHING
    return f"{number(estimate.value, digits)} {interval(estimate)}".rstrip()


ALWAYS = 0.995
"""A p from here on rounds to 1."""


def p_equals(p: float) -> str:
    """``p = .024``, ``p < .001``, ``p = 1``."""
    if p < 0.001:
        return "p < .001"
    if p >= ALWAYS:
        return "p = 1"
    return f"p = {number(p, 3 if p < 0.1 else 2)}"


def p_value(p: float | None) -> str:
    """``.024``, ``< .001``: a p in a column that is called so; ``–`` if there is none."""
    return NOTHING if p is None else p_equals(p).removeprefix("p ").removeprefix("= ")


def bounds(low: float | None, high: float | None) -> str:
    """``.45–.57``: the lowest and the highest value that are possible."""
    return NOTHING if low is None or high is None else f"{number(low, 2)}–{number(high, 2)}"


def percent(part: float, whole: float) -> str:
    """``80 %``. Only all is 100 %, and only none is 0 %."""
    if not whole:
        return NOTHING
    share = 100 * part / whole
    if part < whole and share > 99:
        return "> 99 %" if share >= 99.5 else "99 %"
    if part > 0 and share < 0.5:
        return "< 1 %"
    return f"{share:.0f} %"


def counted(count: int, noun: str) -> str:
    """``1 item``, ``1,200 items``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def joined(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def listed(names: Sequence[str]) -> str:
    """``a, b and c``; ``a, 0-shot; a, 5-shot; b, 0-shot`` if commas are part of names."""
    return "; ".join(names) if any("," in name for name in names) else joined(names)


def count(number: int) -> str:
    """``12,345``."""
    return f"{number:,}"


def tokens(tokens_in: int, tokens_out: int) -> str:
    """``12,345 + 678``: tokens in and out; empty if none were counted."""
    return f"{tokens_in:,} + {tokens_out:,}" if tokens_in or tokens_out else ""


def duration(seconds: float) -> str:
    """A time as people read it: ``0.4 s``, ``12 s``, ``4 min 05 s``, ``2 h 10 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, left = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {left:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def short_time(seconds: float) -> str:
    """``3 s``, ``4 min``, ``2 h 5 min``."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def cost_digits(largest: Fraction) -> int:
    """How many decimal places tell costs up to ``largest`` apart."""
    return 2 if largest >= 100 else 4


def amount(cost: Fraction, digits: int) -> str:
    """A sum of money; what is too small for its places is not shown as nothing."""
    if 0 < cost * 2 * 10**digits < 1:
        return f"< {10**-digits:.{digits}f}"
    return f"{float(cost):,.{digits}f}"


# Values with their intervals as bars, on a scale that fits a terminal


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a plot."""

    left: str
    line: str
    right: str
    point: str
    cut: str


UNICODE = Glyphs("├", "─", "┤", "●", "…")
ASCII = Glyphs("|", "-", "|", "o", "~")


def glyphs_for(encoding: str) -> Glyphs:
    """Line-drawing characters if the encoding has them, else ASCII."""
    try:
        "".join(getattr(UNICODE, name) for name in Glyphs.__slots__).encode(encoding)
    except (LookupError, UnicodeError):
        return ASCII
    return UNICODE


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
            text = _tick_text(value)
            start = min(max(0, self.column(value) - len(text) // 2), self.columns - len(text))
            room = cells[max(0, start - 1) : start + len(text) + 1]
            if start >= 0 and all(cell == " " for cell in room):
                cells[start : start + len(text)] = text
        return "".join(cells).rstrip()

    def bar(self, low: float | None, high: float | None, value: float, glyphs: Glyphs) -> str:
        """A line from ``low`` to ``high``, if these are known, with a point at ``value``."""
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


def _tick_text(value: float) -> str:
    """A value of a scale in as few digits as it needs."""
    text = f"{value:.4f}".rstrip("0").rstrip(".")
    if text in ("-0", ""):
        return "0"
    return text.replace("-", "−").replace("0.", ".", 1) if abs(value) < 1 else text
