"""Docs that belong together, where a task says so with ``cluster``: intervals over clusters of them.

In: which cluster each scored doc is of. Out: the estimate of a metric's values with the clusters in its
standard error and interval, and what a reader of the results should know.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lm_eval.stats.estimates import Estimate

if TYPE_CHECKING:
    from lm_eval.tasks.task import ConfigurableTask


class Clusters:
    """The clusters of a task's docs, by the docs' places; nothing where the task names none."""

    def __init__(self, task: ConfigurableTask) -> None:
        self._task = task
        self._numbers: dict[str, int] = {}
        self._places = array("L")
        self._codes = array("L")
        self._plain: list[str] = []

    def __bool__(self) -> bool:
        return self._task.config.cluster is not None

    def add(self, place: int, doc_id: int) -> None:
        """Note the cluster of the doc at ``place``."""
        name = self._task.cluster_of(doc_id)
        if name is not None:
            self._places.append(place)
            self._codes.append(self._numbers.setdefault(name, len(self._numbers)))

    def estimate(self, values: Sequence[float], places: Sequence[int]) -> Estimate:
        """The mean of the values of the docs at ``places``, with its interval over clusters."""
        from lm_eval.stats.clusters import clustered_estimate

        code_at = dict(zip(self._places, self._codes, strict=True))
        return clustered_estimate(values, [code_at[place] for place in places])

    def left_plain(self, metric: str) -> None:
        """Note a metric whose interval does not know of clusters."""
        if self and metric not in self._plain:
            self._plain.append(metric)

    def notes(self) -> list[str]:
        """What a reader of the scores should know."""
        from lm_eval.stats.clusters import FEW_CLUSTERS

        if not self._numbers:
            return []
        notes, count = [], len(self._numbers)
        if count < FEW_CLUSTERS:
            notes.append(
                f"docs come in {count} cluster{'s' if count > 1 else ''} (`cluster` of the task): with "
                f"fewer than {FEW_CLUSTERS}, intervals over clusters tend to be too narrow"
            )
        if self._plain:
            notes.append(
                f"the interval of {', '.join(self._plain)} takes docs as independent: it is no mean, so "
                "clusters are not in it"
            )
        return notes
