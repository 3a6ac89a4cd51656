"""A plot of flips: for each pair of formats, the items right under one and wrong under the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.lab.show.plots.plot import LIGHT, Plot, shown, titled

NUMBERED = 14
"""Up to this many formats, the cells show their counts."""
NAMED = 60


@dataclass(frozen=True, slots=True)
class FlipsPlot(Plot):
    """The flip matrix: in row a and column b, the items right under a and wrong under b."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    title: str
    sides: tuple[str, str]
    """What rows and columns are: the labels of the axes."""

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
