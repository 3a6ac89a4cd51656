"""A full sweep: the comparison of every format with the base, and the slots behind the differences.

In: the measurements of all formats on the same items, the base format first, and the slots of each.
Out: a ``FullSweep``. Its statistics are those of ``lab.comparing``, so that a sweep and a comparison of
the same scores give the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lm_eval.lab.compare.statistics import Options, compare_formats
from lm_eval.lab.compare.values import Comparison, Pair
from lm_eval.lab.stored.measurement import Measurement
from lm_eval.stats.components import SlotEffect, slot_effects
from lm_eval.stats.estimates import Estimate
from lm_eval.stats.multiplicity import CochranQ, cochran_q
from lm_eval.stats.paired import Paired
from lm_eval.stats.partial.distribution import QUANTILES
from lm_eval.stats.spread import Spread


@dataclass(frozen=True)
class FullSweep:
    """The result of a sweep that asked every format about every item."""

    comparison: Comparison
    """Each format against the base, which is its first row."""
    quantiles: Mapping[int, float]
    """Quantiles of the formats' scores, by percentage."""
    omnibus: CochranQ
    """One test of all formats; takes items as independent even where they come in clusters."""
    slots: tuple[SlotEffect, ...]

    @cached_property
    def scores(self) -> tuple[Estimate, ...]:
        """The score of each format, in the order of the list."""
        return tuple(row.score for row in self.comparison.rows)

    @property
    def spread(self) -> Spread:
        assert self.comparison.spread is not None, "formats are compared"
        return self.comparison.spread

    @property
    def best(self) -> int:
        """The index of the best format; the lowest score is best where less is better."""
        return self.spread.best if self.comparison.higher_is_better else self.spread.worst

    @property
    def worst(self) -> int:
        return self.spread.worst if self.comparison.higher_is_better else self.spread.best

    @property
    def p_best(self) -> tuple[float, ...]:
        """The share of resamples in which each format is the best."""
        return self.spread.p_best if self.comparison.higher_is_better else self.spread.p_worst

    @property
    def p_worst(self) -> tuple[float, ...]:
        return self.spread.p_worst if self.comparison.higher_is_better else self.spread.p_best

    @cached_property
    def against_base(self) -> tuple[Paired | None, ...]:
        """Each format minus the base; None for the base itself."""
        return tuple(None if pair is None else self._minus_base(pair) for pair in self._pairs)

    @property
    def adjusted(self) -> tuple[float | None, ...]:
        """The p-values of these differences, adjusted after Benjamini and Hochberg."""
        return tuple(None if pair is None else pair.p_adjusted for pair in self._pairs)

    def _minus_base(self, pair: Pair) -> Paired:
        is_second = pair.second == self.comparison.default
        return pair.result if is_second else pair.result.reversed()

    @cached_property
    def _pairs(self) -> tuple[Pair | None, ...]:
        """The pair that each format makes with the base; None for the base itself."""
        base = self.comparison.default
        pairs = {
            pair.second if pair.first == base else pair.first: pair
            for pair in self.comparison.pairs
        }
        return tuple(pairs.get(row.label) for row in self.comparison.rows)

    @property
    def num_different(self) -> int:
        """How many formats differ from the base, with a false discovery rate of 5 %."""
        return sum(pair.is_significant for pair in self.comparison.pairs)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        components = self.comparison.components
        return {
            "kind": "all cells",
            "scores": [asdict(score) for score in self.scores],
            "quantiles": {str(q): value for q, value in self.quantiles.items()},
            "spread": self.spread.to_dict(),
            "best": self.best,
            "worst": self.worst,
            "p_best": list(self.p_best),
            "p_worst": list(self.p_worst),
            "against_base": [
                None if pair is None else pair.to_dict() for pair in self.against_base
            ],
            "adjusted_p": list(self.adjusted),
            "omnibus": self.omnibus.to_dict(),
            "components": components and components.to_dict(),
            "slots": [effect.to_dict() for effect in self.slots],
        }


def full_sweep(formats: Sequence[Measurement], slots: Sequence[Mapping[str, str]]) -> FullSweep:
    """The formats against the first of them; ``slots`` are the values of each format's slots.

    Resampled as in a comparison, not by the seed of the sweep.
    """
    scores = np.array([measured.scores for measured in formats])
    means = scores.mean(axis=1)
    quantiles = np.quantile(means, np.array(QUANTILES) / 100).tolist()
    return FullSweep(
        comparison=compare_formats(formats, Options(default=formats[0].format, method="bh")),
        quantiles=dict(zip(QUANTILES, quantiles, strict=True)),
        omnibus=cochran_q(scores),
        slots=tuple(slot_effects(means.tolist(), slot_values(slots))),
    )


def slot_values(slots: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Slot → its value in every format."""
    names = dict.fromkeys(name for values in slots for name in values)
    return {name: [str(values.get(name, "")) for values in slots] for name in names}
