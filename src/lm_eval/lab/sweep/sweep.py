"""A task under many formats of a list: all cells, or some of them.

In: a ``Plan`` and an ``Asker``. Out: a ``Sweep``, whose ``result`` is a ``FullSweep`` (every format on
every item) or a ``PartialSweep`` (an estimate from some of the cells).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from lm_eval.errors import DataError
from lm_eval.lab.compare.statistics import Options, compare_formats
from lm_eval.lab.compare.values import Comparison, Pair
from lm_eval.lab.grammar.sample import FormatList
from lm_eval.lab.stored.measurement import Measurement
from lm_eval.lab.sweep.cells import Asker, Cell
from lm_eval.stats.clusters import FEW_CLUSTERS
from lm_eval.stats.components import Components, SlotEffect, slot_effects
from lm_eval.stats.estimates import Estimate
from lm_eval.stats.few_cells import (
    Distribution,
    balanced_cells,
    estimate_distribution,
)
from lm_eval.stats.multiplicity import CochranQ, cochran_q
from lm_eval.stats.paired import Paired
from lm_eval.stats.spread import Spread
from lm_eval.support.encode import AsDict

QUANTILES = (5, 25, 50, 75, 95)


@dataclass(frozen=True)
class FullSweep(AsDict):
    """The result of a sweep that asked every format about every item."""

    comparison: Comparison
    """Each format against the base, which is its first row."""
    quantiles: Mapping[int, float]
    """Quantiles of the formats' scores, by percentage."""
    omnibus: CochranQ
    """One test of all formats; treats items as independent even if they come in clusters."""
    slots: tuple[SlotEffect, ...]

    kind = "all cells"
    KEYS = (
        *("kind", "scores", "quantiles", "spread", "best", "worst", "p_best", "p_worst"),
        *("against_base", ("adjusted_p", "adjusted"), "omnibus", "components", "slots"),
    )

    @cached_property
    def scores(self) -> tuple[Estimate, ...]:
        """The score of each format, in the order of the list."""
        return tuple(row.score for row in self.comparison.rows)

    @property
    def spread(self) -> Spread:
        assert self.comparison.spread is not None, "formats are compared"
        return self.comparison.spread

    @property
    def components(self) -> Components | None:
        return self.comparison.components

    @property
    def best(self) -> int:
        """The index of the best format; the lowest score is best if lower is better."""
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


MIN_ITEMS = 2


@dataclass(frozen=True)
class Plan:
    """A sweep of one task: its formats and items, and how many of the cells to ask."""

    name: str
    """The task under its base format, such as ``demo_mcq@mcqa``."""
    formats: FormatList
    num_items: int
    budget: int | None = None
    """How many cells to ask; None: all."""
    seed: int = 0

    @property
    def num_formats(self) -> int:
        return len(self.formats)

    @property
    def all_cells(self) -> int:
        return self.num_formats * self.num_items

    def cells(self) -> list[Cell] | None:
        """The cells to ask, None for all."""
        if self.budget is None:
            return None
        return balanced_cells(self.num_formats, self.num_items, self.budget, self.seed)

    @property
    def asked_cells(self) -> int:
        """How many cells are asked."""
        return self.all_cells if self.budget is None else self.budget


@dataclass(frozen=True)
class PartialSweep:
    """The distribution of scores over formats, estimated from some of the cells."""

    distribution: Distribution
    seen: tuple[int, ...]
    """The number of items asked under each format."""

    @property
    def scores(self) -> tuple[Estimate, ...]:
        """The score of each format over all items, as estimated."""
        return self.distribution.per_format

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {"kind": "few cells", **self.distribution.to_dict(), "seen": list(self.seen)}


Result: TypeAlias = FullSweep | PartialSweep


@dataclass(frozen=True)
class Sweep:
    """A finished sweep of one task: its result, and what it asked and cost."""

    plan: Plan
    metric: str
    higher_is_better: bool
    cells: int
    """Cells that have a score."""
    reused: int
    asked: int
    missing: int
    usage: Mapping[str, Any]
    shares_read: tuple[float | None, ...]
    result: Result
    notes: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """Paths of the files: ``formats``, ``answers``, ``results``, ``summary``."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        plan = self.plan
        return {
            "task": plan.name,
            "axis": plan.formats.axis,
            "base": plan.formats.base.name,
            "seed": plan.seed,
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            "num_formats": plan.num_formats,
            "num_items": plan.num_items,
            "budget": plan.budget,
            "cells": self.cells,
            "all_cells": plan.all_cells,
            "answers_reused": self.reused,
            "answers_asked": self.asked,
            "cells_missing": self.missing,
            "usage": dict(self.usage),
            "formats": [
                {
                    "name": sample.name,
                    "fingerprint": sample.format.fingerprint,
                    "slots": dict(sample.slots),
                    "options": dict(sample.options),
                    "share_read": share,
                }
                for sample, share in zip(plan.formats, self.shares_read, strict=True)
            ],
            "result": self.result.to_dict(),
            "notes": list(self.notes),
            "files": dict(self.files),
        }


def sweep(
    plan: Plan, asker: Asker, *, output_path: str | None = None, files: Mapping[str, str]
) -> Sweep:
    """Ask the cells of the plan and analyse the scores; a run's files go to ``output_path``."""
    notes: list[str] = []
    path = asker.write(plan.cells(), output_path)
    result: Result
    if plan.budget is not None and plan.budget < plan.all_cells:
        result = _partial(plan, asker, notes)
    else:
        result = _full(plan, asker, notes)
    known = asker.known
    return Sweep(
        plan=plan,
        metric=known.metric,
        higher_is_better=known.higher_is_better,
        cells=int(known.is_known.sum()),
        reused=known.reused,
        asked=known.asked,
        missing=known.missing,
        usage=known.usage.as_dict(),
        shares_read=tuple(known.share_read(row) for row in range(plan.num_formats)),
        result=result,
        notes=tuple(notes),
        files={**files, **({} if path is None else {"results": str(path)})},
    )


def _partial(plan: Plan, asker: Asker, notes: list[str]) -> PartialSweep:
    known = asker.known
    if known.clusters:
        notes.append(
            "The items come in clusters. This estimate is about the scores on these very items and "
            "treats them as independent, so its intervals may be a little too narrow. The full sweep "
            "takes clusters into account."
        )
    cells = known.cells()
    if not cells:
        raise DataError(f"{plan.name}: no cell got an answer, so there is nothing to estimate.")
    distribution = estimate_distribution(
        cells,
        known.scores[known.is_known].tolist(),
        plan.num_formats,
        plan.num_items,
        seed=plan.seed,
    )
    seen = [0] * plan.num_formats
    for row, _ in cells:
        seen[row] += 1
    return PartialSweep(distribution, tuple(seen))


def _full(plan: Plan, asker: Asker, notes: list[str]) -> FullSweep:
    items = np.flatnonzero(asker.known.is_known.all(axis=0)).tolist()
    if len(items) < MIN_ITEMS:
        raise DataError(
            f"{plan.name}: {len(items)} of {plan.num_items} items have an answer under every format, "
            f"and a comparison needs at least {MIN_ITEMS}. Ask more items, or look into what failed."
        )
    if len(items) < plan.num_items:
        notes.append(
            f"{plan.num_items - len(items)} of {plan.num_items} items are left out, because an answer "
            "under some format is missing."
        )
    slots = [sample.slots for sample in plan.formats]
    result = full_sweep(asker.measurements(items), slots)
    if result.comparison.num_clusters is not None:
        notes.append(_about_clusters(result.comparison.num_clusters))
    return result


def _about_clusters(count: int) -> str:
    """A note that items come in clusters, with a warning where these are few."""
    text = f"The items come in {count:,} clusters, which all of this takes into account"
    if count < FEW_CLUSTERS:
        text += f"; fewer than {FEW_CLUSTERS} tend to make intervals too narrow"
    return f"{text}."
