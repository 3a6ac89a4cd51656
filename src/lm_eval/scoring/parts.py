"""Scores of parts of a task's docs, such as its subjects: what ``score_by`` in a task asks for.

In: the places of docs and their values of each metric. Out: for every field that ``score_by`` names, the
estimates of each value it has. A part's interval is made as that of the whole task, over clusters where
the task has them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lm_eval.stats.estimates import Estimate

if TYPE_CHECKING:
    from lm_eval.tasks.task import ConfigurableTask

Parts = dict[str, dict[str, dict[str, Estimate]]]
"""Field → value → metric → estimate."""
Values = Mapping[str, tuple[Sequence[Any], Sequence[int]]]
"""Metric → the docs' values, and the places of these docs."""
Estimator = Callable[[str, Sequence[Any], Sequence[int]], Estimate]
"""Metric, values and places of docs → an estimate."""


class DocParts:
    """Which part each doc belongs to, by its place; nothing where the task has no ``score_by``."""

    def __init__(self, task: ConfigurableTask) -> None:
        self._task = task
        self._places = array("L")
        self._names: dict[str, dict[str, int]] = {}
        self._codes: dict[str, array[int]] = {}

    def add(self, place: int, doc_id: int) -> None:
        """Note the parts of the doc at ``place``."""
        parts = self._task.parts_of(doc_id)
        if not parts:
            return
        self._places.append(place)
        for name, value in parts.items():
            known = self._names.setdefault(name, {})
            codes = self._codes.setdefault(name, array("L"))
            codes.append(known.setdefault(value, len(known)))

    def estimates(self, values: Values, estimate: Estimator) -> Parts:
        """The estimates of every part, by field; the parts in alphabetical order."""
        return {
            name: self._of_field(name, values, estimate)
            for name in self._names
            if self._names[name]
        }

    def _of_field(
        self, name: str, values: Values, estimate: Estimator
    ) -> dict[str, dict[str, Estimate]]:
        code_at = dict(zip(self._places, self._codes[name], strict=True))
        parts: dict[str, dict[str, Estimate]] = {}
        for part, code in sorted(self._names[name].items()):
            parts[part] = {}
            for metric, (of_metric, places) in values.items():
                inside = [at for at, place in enumerate(places) if code_at[place] == code]
                if inside:
                    parts[part][metric] = estimate(
                        metric, [of_metric[at] for at in inside], [places[at] for at in inside]
                    )
        return parts
