"""The whole matrix of a sweep → what each format scores, and how much of that is the format.

In: scores, formats × items, the base format in the first row. Out: a ``FullSweep``: every format against
the base, the spread with its noise floor, and which slots of the grammar the differences go with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lm_eval.stats.clusters import clustered_estimate
from lm_eval.stats.components import Components, components
from lm_eval.stats.few_cells import QUANTILES
from lm_eval.stats.intervals import Estimate, mean_estimate
from lm_eval.stats.multiplicity import CochranQ, benjamini_hochberg, cochran_q
from lm_eval.stats.numeric import Array, numpy
from lm_eval.stats.paired import Paired, paired
from lm_eval.stats.slots import SlotEffect, slot_effects
from lm_eval.stats.spread import Spread, spread

LEVEL = 0.05


@dataclass(frozen=True)
class FullSweep:
    """The result of a sweep that asked every format about every item."""

    scores: tuple[Estimate, ...]
    quantiles: Mapping[int, float]
    """By per cent, over the formats' scores."""
    spread: Spread
    best: int
    worst: int
    """Row numbers, as good and bad go for the metric."""
    p_best: tuple[float, ...]
    p_worst: tuple[float, ...]
    against_base: tuple[Paired | None, ...]
    """Each format minus the base; None for the base itself."""
    adjusted: tuple[float | None, ...]
    """Their p-values, adjusted after Benjamini and Hochberg."""
    omnibus: CochranQ
    components: Components
    slots: tuple[SlotEffect, ...]
    is_share: bool
    """Whether every score lies between 0 and 1."""

    @property
    def num_different(self) -> int:
        """Formats that differ from the base; of these, at most one in twenty falsely, on average."""
        return sum(p is not None and p < LEVEL for p in self.adjusted)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "kind": "all cells",
            "scores": [asdict(one) for one in self.scores],
            "quantiles": {str(q): value for q, value in self.quantiles.items()},
            "spread": self.spread.to_dict(),
            "best": self.best,
            "worst": self.worst,
            "p_best": list(self.p_best),
            "p_worst": list(self.p_worst),
            "against_base": [None if one is None else one.to_dict() for one in self.against_base],
            "adjusted_p": list(self.adjusted),
            "omnibus": self.omnibus.to_dict(),
            "components": self.components.to_dict(),
            "slots": [one.to_dict() for one in self.slots],
        }


def full_sweep(
    scores: Array,
    clusters: Sequence[str] | None,
    slots: Sequence[Mapping[str, str]],
    *,
    higher_is_better: bool,
) -> FullSweep:
    """What a full sweep shows; ``slots`` say what stands in each format.

    Resampled as in a comparison, not by the seed of the sweep: both say the same of the same scores.
    """
    found = spread(scores, clusters=clusters)
    pairs = [paired(row.tolist(), scores[0].tolist(), clusters=clusters) for row in scores[1:]]
    means = scores.mean(axis=1)
    top, bottom = (found.best, found.p_best), (found.worst, found.p_worst)
    (best, p_best), (worst, p_worst) = (top, bottom) if higher_is_better else (bottom, top)
    return FullSweep(
        scores=tuple(_estimate(row.tolist(), clusters) for row in scores),
        quantiles=_quantiles(means),
        spread=found,
        best=best,
        worst=worst,
        p_best=p_best,
        p_worst=p_worst,
        against_base=(None, *pairs),
        adjusted=(None, *benjamini_hochberg([one.p for one in pairs])),
        omnibus=cochran_q(scores),
        components=components(scores, clusters),
        slots=tuple(slot_effects(means.tolist(), slot_values(slots))),
        is_share=bool(((scores >= 0) & (scores <= 1)).all()),
    )


def _estimate(scores: Sequence[float], clusters: Sequence[str] | None) -> Estimate:
    return mean_estimate(scores) if clusters is None else clustered_estimate(scores, clusters)


def _quantiles(means: Array) -> dict[int, float]:
    np = numpy()
    found = np.quantile(means, np.array(QUANTILES) / 100)
    return dict(zip(QUANTILES, found.tolist(), strict=True))


def slot_values(slots: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Slot → its value in every format."""
    names = dict.fromkeys(name for one in slots for name in one)
    return {name: [str(one.get(name, "")) for one in slots] for name in names}
