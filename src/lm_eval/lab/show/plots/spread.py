"""The spread of the formats beside the spread that luck alone would show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval.lab.show.plots.plot import BLUE, GREY, LIGHT, ORANGE, Plot, quiet, shown, titled

if TYPE_CHECKING:
    from lm_eval.stats.spread import Spread

NOISE, FOUND = "by luck alone", "found"
MOST_FORMATS = 20


@dataclass(frozen=True, slots=True)
class SpreadPlot(Plot):
    """The spread against its noise floor, and how often each format scores highest or lowest."""

    spread: Spread
    labels: tuple[str, ...]
    title: str

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
        places = range(len(likely))
        axes.barh(places, [spread.p_best[k] for k in likely], color=BLUE, height=0.6)
        lowest = [-spread.p_worst[k] for k in likely]
        axes.barh(places, lowest, color=ORANGE, height=0.6)
        axes.axvline(0.0, color=GREY, linewidth=1)
        axes.set_yticks(list(places), [shown(self.labels[k]) for k in likely])
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
        notes = [f"{FOUND}: {spread.value:.3f}, from {worst} up to {best}{self._interval()}"]
        if spread.null_method == "none":
            return [*notes, "The formats agree on every item: there is nothing to test."]
        how = spread.null_method
        if spread.null_permutations:
            how = f"{spread.null_permutations:,} {how}"
        floor = f"{NOISE}: {spread.null_mean:.3f} on average, up to {spread.null_95:.3f} in 95 %"
        return [*notes, f"{floor}; {p_text(spread.p)} ({how})"]

    def _interval(self) -> str:
        low, high = self.spread.safe_low, self.spread.safe_high
        return "" if low is None or high is None else f"; 95 % interval: {low:.3f} to {high:.3f}"


def spread_plot(
    spread: Spread, labels: Sequence[str], *, title: str = "Spread between the formats"
) -> SpreadPlot:
    """The spread against its noise floor; ``labels`` are those of its formats, in order."""
    if len(labels) != spread.num_formats:
        raise ValueError(f"{spread.num_formats} formats need as many labels; got {len(labels)}.")
    return SpreadPlot(spread, tuple(labels), title)


def p_text(p: float) -> str:
    """``p = 0.031``, or ``p < 0.0001``."""
    return "p < 0.0001" if p < 0.0001 else f"p = {p:.4f}" if p < 0.01 else f"p = {p:.3f}"
