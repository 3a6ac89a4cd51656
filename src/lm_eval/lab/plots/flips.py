"""Items that one format gets right and another wrong, for every two formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.lab.plots.plot import (
    DEFAULT_WIDTH,
    LEAST_WIDTH,
    LIGHT,
    MOST_CHARS,
    Plot,
    shown,
    titled,
)
from lm_eval.lab.plots.text import Glyphs, column_width, encodable, fit, glyphs_for, wrapped

NUMBERED = 14
"""Up to so many formats, the cells of the file show their counts."""
NAMED = 60


@dataclass(frozen=True, slots=True)
class FlipsPlot(Plot):
    """The flip matrix: in row a and column b, the items right under a and wrong under b."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    title: str
    sides: tuple[str, str]
    """What rows and columns are: beside them in a file."""

    def lines(self, width: int = DEFAULT_WIDTH, encoding: str = "utf-8") -> list[str]:
        width, glyphs = max(width, LEAST_WIDTH), glyphs_for(encoding)
        names = [
            encodable(f"{place} {shown(label)}", encoding)
            for place, label in enumerate(self.labels, start=1)
        ]
        space = column_width(names, width)
        digits = max(len(str(self._most())), len(str(len(names))), 1)
        lines = wrapped(shown(self.title, MOST_CHARS), width, encoding)
        if space + (digits + 1) * len(names) <= width:
            heads = "".join(f" {place:>{digits}}" for place in range(1, len(names) + 1))
            lines.append(" " * space + heads)
            cells = [self._numbers(row, digits, glyphs) for row in range(len(names))]
        else:
            room = max(1, width - space - 1)
            if len(names) > room:
                lines.append(f"The first {room} of {len(names)} columns:")
            cells = [" " + self._shades(row, glyphs)[:room] for row in range(len(names))]
        lines += [
            (fit(name, space, glyphs) + row).rstrip()
            for name, row in zip(names, cells, strict=True)
        ]
        rows, columns = self.sides
        return [*lines, *wrapped(f"Row: {rows}; column: {columns}", width, encoding)]

    def size(self) -> tuple[float, float]:
        side = 2.2 + 0.45 * min(len(self.labels), 24)
        return side + 1.6, side

    def draw(self, figure: Any) -> None:
        axes = figure.add_subplot()
        most = max(1, self._most())
        image = axes.imshow(self.counts, cmap="Blues", vmin=0, vmax=most)
        places = range(len(self.labels))
        for place in places:  # a format does not differ from itself
            axes.fill_between(
                [place - 0.5, place + 0.5], place - 0.5, place + 0.5, color=LIGHT, lw=0
            )
        if len(self.labels) <= NAMED:
            names = [shown(label, 24) for label in self.labels]
            small = 10 if len(names) <= 30 else 6
            slanted = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
            axes.set_xticks(list(places), names, fontsize=small, **slanted)
            axes.set_yticks(list(places), names, fontsize=small)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0)
        if len(self.labels) <= NUMBERED:
            for row in places:
                for column in places:
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

    def _numbers(self, row: int, digits: int, glyphs: Glyphs) -> str:
        values = [
            glyphs.nothing if column == row else str(count)
            for column, count in enumerate(self.counts[row])
        ]
        return "".join(f" {value:>{digits}}" for value in values)

    def _shades(self, row: int, glyphs: Glyphs) -> str:
        """A character for each cell: the more items, the darker."""
        most = max(1, self._most())
        steps = len(glyphs.shades) - 1
        return "".join(
            glyphs.nothing if column == row else glyphs.shades[-(-count * steps // most)]
            for column, count in enumerate(self.counts[row])
        )

    def _most(self) -> int:
        return max((count for row in self.counts for count in row), default=0)


def flips_plot(
    labels: Sequence[str],
    counts: Any,
    *,
    title: str = "Items right under one format and wrong under another",
    sides: tuple[str, str] = ("right under this format …", "… and wrong under this one"),
) -> FlipsPlot:
    """The flip matrix of ``counts[a][b]``: items right under format a and wrong under b."""
    table = tuple(tuple(int(count) for count in row) for row in counts)
    if not labels or any(len(side) != len(labels) for side in (table, *table)):
        raise ValueError(
            f"{len(labels)} labels need as many rows and columns of counts, one or more."
        )
    return FlipsPlot(tuple(labels), table, title, sides)
