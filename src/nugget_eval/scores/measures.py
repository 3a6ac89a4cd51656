"""The measures, and their values and bounds for many topics at once.

A label counts 1 (``support``), 0.5 (``partial_support``) or 0; strict measures count ``support`` only.
``vital`` measures are means over the vital nuggets, ``all`` over all nuggets, ``weighted`` over all with
weight 1 for vital and 0.5 for okay.
"""

from __future__ import annotations

from collections.abc import Sequence

from lm_eval.errors import UsageError, did_you_mean
from lm_eval.stats.numeric import Floats
from nugget_eval.data.records import Nugget
from nugget_eval.reading.spellings import RANK, Label
from nugget_eval.scores.bootstrap import np

TREC_MEASURES = ("strict_vital_score", "strict_all_score", "vital_score", "all_score")
"""The measures of nuggetizer's metrics files, in their order."""
MEASURES = (*TREC_MEASURES, "strict_weighted_score", "weighted_score")
GAIN: dict[Label, float] = {"support": 1.0, "partial_support": 0.5, "not_support": 0.0}

_OKAY_WEIGHT = 0.5
_LABEL_CODE: dict[Label | None, int] = {
    None: 0,
    **{label: rank + 1 for label, rank in RANK.items()},
}
_IMPORTANCE_CODE: dict[str | None, int] = {None: 0, "okay": 1, "vital": 2}
_NUM_LABELS, _NUM_IMPORTANCES = len(_LABEL_CODE), len(_IMPORTANCE_CODE)

NO_NUGGETS = "no nuggets"
NO_VITAL = "no vital nuggets"
NO_IMPORTANCE = "a nugget without importance"
NO_LABELS = "no label could be read"


def known_measure(measure: str) -> str:
    """``measure`` itself; an error if it is not the name of a measure."""
    if measure not in MEASURES:
        raise UsageError(
            f"Unknown measure {measure!r}.{did_you_mean(measure, MEASURES)} "
            f"Measures: {', '.join(MEASURES)}."
        )
    return measure


def count_labels(topics: Sequence[Sequence[Nugget]]) -> Floats:
    """Topics × importances × labels: how many nuggets there are of each kind."""
    size = _NUM_LABELS * _NUM_IMPORTANCES
    codes = [
        topic * size
        + _IMPORTANCE_CODE[nugget.importance] * _NUM_LABELS
        + _LABEL_CODE[nugget.assignment]
        for topic, nuggets in enumerate(topics)
        for nugget in nuggets
    ]
    counts = np.bincount(np.array(codes, dtype=np.int64), minlength=len(topics) * size)
    return counts.reshape(len(topics), _NUM_IMPORTANCES, _NUM_LABELS).astype(np.float64)


class Tally:
    """Values and bounds of every measure and topic: arrays of topics × measures."""

    def __init__(self, counts: Floats, trec_compat: bool) -> None:
        self.trec_compat = trec_compat
        shape = (len(counts), len(MEASURES))
        self.values, self.low, self.high = (np.full(shape, np.nan) for _ in range(3))
        self.labelled, self.total = (np.zeros(shape, dtype=np.int64) for _ in range(2))
        self.lacks_importance = counts[:, 0].sum(axis=1) > 0
        for column, measure in enumerate(MEASURES):
            self._score(column, measure, counts)
        # Without importance the weights are unknown; nuggetizer has no such score.
        for column in [MEASURES.index("strict_weighted_score"), MEASURES.index("weighted_score")]:
            for scores in (self.values, self.low, self.high):
                scores[self.lacks_importance, column] = np.nan

    def _score(self, column: int, measure: str, counts: Floats) -> None:
        weights = _importance_weights(measure)
        kinds = np.einsum("i,til->tl", weights, counts)  # topics × labels, weighted
        total, missing = kinds.sum(axis=1), kinds[:, 0]
        won = kinds @ _gains(measure)
        self.total[:, column] = counts[:, weights > 0].sum(axis=(1, 2))
        self.labelled[:, column] = counts[:, weights > 0, 1:].sum(axis=(1, 2))
        with np.errstate(invalid="ignore", divide="ignore"):
            self.low[:, column] = won / total
            self.high[:, column] = (won + missing) / total
            self.values[:, column] = won / (total if self.trec_compat else total - missing)
        if self.trec_compat:
            for scores in (self.low, self.high, self.values):
                scores[total == 0, column] = 0.0

    def reason(self, topic: int, column: int) -> str:
        """Why a score is undefined."""
        measure = MEASURES[column]
        if self.total[topic, column] == 0:
            return NO_VITAL if "vital" in measure else NO_NUGGETS
        if "weighted" in measure and self.lacks_importance[topic]:
            return NO_IMPORTANCE
        return NO_LABELS


def _importance_weights(measure: str) -> Floats:
    if "vital" in measure:
        weights = [0.0, 0.0, 1.0]
    else:
        weights = [1.0, _OKAY_WEIGHT, 1.0] if "weighted" in measure else [1.0, 1.0, 1.0]
    return np.array(weights)


def _gains(measure: str) -> Floats:
    partial = 0.0 if measure.startswith("strict") else GAIN["partial_support"]
    return np.array([0.0, GAIN["not_support"], partial, GAIN["support"]])
