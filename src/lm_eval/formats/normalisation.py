"""The ways to compare scored choices: by sums, by length, against what is likely anyway."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Normalisation:
    """One way to compare choices: its name, its metric, and how a table says it."""

    name: str
    metric: str
    words: str


NORMALISATIONS = {
    one.name: one
    for one in (
        Normalisation("none", "acc", "sum"),
        Normalisation("character", "acc_norm", "per character"),
        Normalisation("byte", "acc_bytes", "per byte"),
        Normalisation("token", "acc_tokens", "per token"),
        Normalisation("pmi", "acc_mutual_info", "mutual information"),
        Normalisation("calibrated", "acc_calibrated", "calibrated"),
    )
}
_BY_METRIC = {one.metric: one for one in NORMALISATIONS.values()}
MUTUAL_INFORMATION = NORMALISATIONS["pmi"].metric
CALIBRATED = NORMALISATIONS["calibrated"].metric
CONTENT_FREE = ("N/A", "", "[MASK]")
"""Replace the question to see what is likely without one; the mean over these counts."""


def normalisation_of(metric: str) -> Normalisation | None:
    """The normalisation behind a metric; None for one that compares nothing."""
    return _BY_METRIC.get(metric)


def leading(metrics: Iterable[str], normalization: str | None) -> tuple[str, ...]:
    """The metrics with that of the normalisation in front, where it is shown as the score."""
    if normalization is None:
        return tuple(metrics)
    first = NORMALISATIONS[normalization].metric
    return (first, *(name for name in metrics if name != first))
