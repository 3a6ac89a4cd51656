"""How much of a score's uncertainty comes from the items, how much from the format, and from which slot.

In: scores by format and item, both taken as random samples. Out: ``Components``, the variance components
of a two-way analysis of variance and the standard errors that follow from them. ``slot_effects`` says
which slots of the formats explain the variance between them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lm_eval.stats.clusters import cluster_codes, score_matrix, unit_sums
from lm_eval.stats.estimates import CONFIDENCE, DEFAULT_SEED, Estimate, bare
from lm_eval.stats.multiplicity import holm
from lm_eval.stats.numeric import ArrayLike, Floats, special
from lm_eval.support.encode import AsDict


@dataclass(frozen=True, slots=True)
class Components(AsDict):
    """A score over formats and items, with the variances behind its standard errors.

    A negative estimate of a variance counts as 0. The standard errors are about the score over all
    formats and all items of these kinds.
    """

    mean: float
    num_formats: int
    num_items: int
    num_clusters: int | None
    var_format: float
    """Between formats, over all items."""
    var_item: float
    """Between items, over all formats."""
    var_rest: float
    """The residual of a cell: interaction of format and item, and noise."""
    stderr_mean: float
    """Of the mean over these formats."""
    stderr_one_format: float
    """Of the score under one format chosen at random; includes the choice of format."""
    stderr_items: float
    """Of the score under one fixed format; items only."""
    df_mean: float
    df_one_format: float
    """Degrees of freedom (Satterthwaite); few formats give few."""
    error_item: float
    error_rest: float
    """The variance of a mean over these items due to items, and to the residual under one format."""

    ALSO = ("share_format",)

    @property
    def share_format(self) -> float | None:
        """The format's part of the variance of one format's score; None if nothing varies."""
        total = self.stderr_one_format**2
        return self.var_format / total if total > 0 else None

    def over_formats(self) -> Estimate:
        """The mean over these formats, with an interval for all formats of their kind."""
        return self._estimate(self.mean, self.stderr_mean, self.df_mean)

    def one_format(self, score: float) -> Estimate:
        """``score`` under one format, with an interval that includes the choice of that format."""
        return self._estimate(score, self.stderr_one_format, self.df_one_format)

    def formats_needed(self, stderr: float) -> int | None:
        """How many formats bring the mean's standard error to ``stderr``, on as many items.

        None if no number does: the items alone have a larger error.
        """
        left = stderr**2 - self.error_item
        by_format = self.var_format + self.error_rest
        if by_format == 0:
            return 1 if left >= 0 else None
        if left <= 0 or by_format / left > 1e12:
            return None
        return max(1, math.ceil(by_format / left - 1e-9))

    def _estimate(self, value: float, stderr: float, df: float) -> Estimate:
        if stderr == 0:
            return bare(value, self.num_items, 0.0)
        half = float(special.stdtrit(df, 0.5 + CONFIDENCE / 2)) * stderr
        method = f"t, {df:.1f} degrees of freedom"
        return Estimate(value, stderr, value - half, value + half, self.num_items, method)


def components(scores: ArrayLike, clusters: Sequence[Hashable] | None = None) -> Components:
    """The variance components of ``scores`` (formats × items), both taken as random.

    With ``clusters`` (one name for each item), the errors of means over items are those of whole
    clusters (CR1); ``var_item`` and ``var_rest`` remain variances between single items.
    """
    table = score_matrix(scores)
    num_formats, num_items = table.shape
    means = table.mean(axis=1)
    item_means = table.mean(axis=0)
    grand = float(table.mean())
    rest = table - means[:, None] - item_means[None, :] + grand
    num_units = num_items
    if clusters is not None:
        num_units = int(cluster_codes(clusters, num_items).max()) + 1
    ms_rest = float((rest**2).sum()) / ((num_formats - 1) * (num_items - 1))
    ms_item = num_formats * float(item_means.var(ddof=1))
    # Squared errors of means over the items; without clusters they are the mean squares over n.
    of_means = float(means.var(ddof=1))
    of_rest = float(_mean_errors(rest, clusters).sum()) / (num_formats - 1)
    of_items = float(_mean_errors(item_means[None, :] - grand, clusters)[0])
    var_format = _positive(of_means - of_rest)
    error_item = _positive(of_items - of_rest / num_formats)
    error_one = error_item + of_rest
    dfs = (num_formats - 1, num_units - 1, (num_formats - 1) * (num_units - 1))
    parts = (of_means, of_items, of_rest)
    scale = 1 / num_formats
    return Components(
        mean=grand,
        num_formats=num_formats,
        num_items=num_items,
        num_clusters=None if clusters is None else num_units,
        var_format=var_format,
        var_item=_positive((ms_item - ms_rest) / num_formats),
        var_rest=_positive(ms_rest),
        stderr_mean=math.sqrt(var_format / num_formats + error_item + of_rest / num_formats),
        stderr_one_format=math.sqrt(var_format + error_one),
        stderr_items=math.sqrt(error_one),
        df_mean=_satterthwaite([scale, 1.0, -scale], parts, dfs),
        df_one_format=_satterthwaite([1.0, 1.0, -scale], parts, dfs),
        error_item=error_item,
        error_rest=of_rest,
    )


def _mean_errors(centred: Floats, clusters: Sequence[Hashable] | None) -> Floats:
    """The squared standard error of each row's mean, from rows × items without their means."""
    sums, _ = unit_sums(centred, clusters)
    num_units = len(sums)
    errors: Floats = num_units / (num_units - 1) * (sums**2).sum(axis=0) / centred.shape[1] ** 2
    return errors


def _satterthwaite(weights: Sequence[float], parts: Sequence[float], dfs: Sequence[float]) -> float:
    """The degrees of freedom of a weighted sum of mean squares, within the range of ``dfs``."""
    terms = [weight * part for weight, part in zip(weights, parts, strict=True)]
    noise = math.fsum(term**2 / df for term, df in zip(terms, dfs, strict=True))
    if noise == 0:
        return float(max(dfs))
    df_of_sum = math.fsum(terms) ** 2 / noise
    return min(max(df_of_sum, float(min(dfs))), float(max(dfs)))


def _positive(value: float) -> float:
    """``value``, or 0 if it is negative or a rounding error."""
    return value if value > 1e-15 else 0.0


DEFAULT_PERMUTATIONS = 5000
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class SlotEffect(AsDict):
    """One slot: what its values score, and whether they differ by more than chance."""

    slot: str
    means: Mapping[str, float]
    """Value → the mean score of the formats that have it, highest first."""
    counts: Mapping[str, int]
    """Value → how many formats have it."""
    explained: float
    """Share of the variance between formats that the slot explains."""
    by_chance: float
    """The share that a slot with as many values and no effect would show on average."""
    p: float
    adjusted: float
    """``p`` adjusted by Holm for the number of slots."""


def slot_effects(
    scores: Sequence[float],
    slots: Mapping[str, Sequence[str]],
    *,
    permutations: int = DEFAULT_PERMUTATIONS,
    seed: int = DEFAULT_SEED,
) -> list[SlotEffect]:
    """The effect of each slot with two values or more, strongest first.

    ``slots`` has one value for each format. Where all formats score alike nothing is explained.
    """
    values = np.asarray(scores, dtype=float)
    drawn = np.random.default_rng(seed).permuted(np.tile(values, (permutations, 1)), axis=1)
    effects = []
    for slot, chosen in slots.items():
        if 1 < len(set(chosen)) < len(values):
            effects.append(_effect(slot, list(chosen), values, drawn))
    p_values = holm([effect.p for effect in effects])
    adjusted = [replace(effect, adjusted=p) for effect, p in zip(effects, p_values, strict=True)]
    return sorted(adjusted, key=lambda effect: (effect.p, -effect.explained))


def _effect(slot: str, chosen: list[str], values: Floats, drawn: Floats) -> SlotEffect:
    names = sorted(set(chosen))
    member = np.array([[value == name for value in chosen] for name in names], dtype=float)
    counts = member.sum(axis=1)
    total = float(((values - values.mean()) ** 2).sum())
    seen = _between(values[None, :], member, counts)[0]
    chance = _between(drawn, member, counts)
    p = (1 + int((chance >= seen - _TIE).sum())) / (1 + len(chance))
    means = dict(zip(names, (member @ values / counts).tolist(), strict=True))
    ordered = sorted(means, key=lambda name: -means[name])
    return SlotEffect(
        slot=slot,
        means={name: means[name] for name in ordered},
        counts={name: int(counts[names.index(name)]) for name in ordered},
        explained=float(seen) / total if total > _TIE else 0.0,
        by_chance=float(chance.mean()) / total if total > _TIE else 0.0,
        p=p,
        adjusted=p,
    )


def _between(rows: Floats, member: Floats, counts: Floats) -> Floats:
    """The sum of squares between the groups of each row."""
    centred = rows - rows.mean(axis=1, keepdims=True)
    squares: Floats = ((centred @ member.T) ** 2 / counts).sum(axis=1)
    return squares
