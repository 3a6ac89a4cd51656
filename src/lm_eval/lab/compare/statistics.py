"""Measurements → a ``ComparisonReport``: the statistics of every set of rows that can be compared.

Rows that differ in one thing alone are paired item by item: the formats of one model, or the models
under one format. Several models under several formats are ranked as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from lm_eval.errors import ComparisonError, UsageError, did_you_mean, listing
from lm_eval.lab.compare.values import (
    Comparison,
    ComparisonReport,
    ComparisonRow,
    Flips,
    Pair,
    Ranking,
)
from lm_eval.lab.stored.measurement import (
    Aligned,
    Measurement,
    align,
    doc_of,
    two_causes,
    with_conditions,
)
from lm_eval.stats.clusters import array_estimate, kept_clusters
from lm_eval.stats.components import components
from lm_eval.stats.estimates import DEFAULT_SEED, Estimate
from lm_eval.stats.multiplicity import ADJUSTMENTS, cochran_q
from lm_eval.stats.numeric import Bools, Floats
from lm_eval.stats.paired import Paired, paired_many, paired_where
from lm_eval.stats.ranks import rank_stability
from lm_eval.stats.spread import DEFAULT_RESAMPLES, spread

ALL_PAIRS_UP_TO = 6
"""With more rows than this, each is compared with the default alone."""
RANK_RESAMPLES = 1000


@dataclass(frozen=True, kw_only=True)
class Options:
    """Settings of a comparison."""

    intersect: bool = False
    """Compare on the items that all have, if they differ."""
    resamples: int = DEFAULT_RESAMPLES
    seed: int = DEFAULT_SEED
    default: str | None = None
    """The format to compare each of the others with; None: every two, if they are few."""
    method: str = "holm"
    flips: bool = False
    """Whether to list the items on which two rows differ."""
    details: bool = True
    """Whether to add what the result screen leaves out: intervals of the spread of formats, by
    resampling, one test of all rows, variance components, and how often answers flip."""


def compare(
    measurements: Sequence[Measurement], options: Options | None = None
) -> ComparisonReport:
    """Everything that can be compared among these measurements, task by task.

    An error if there is nothing to compare, if items or few-shot examples differ, and if no task has
    the format named as default.
    """
    options = options or Options()
    measurements = with_conditions(measurements)
    comparisons: list[Comparison] = []
    rankings: list[Ranking] = []
    alone: list[Sequence[Measurement]] = []
    for task in dict.fromkeys(measurement.task for measurement in measurements):
        rows = [measurement for measurement in measurements if measurement.task == task]
        of_task = _comparisons(rows, options)
        comparisons += of_task
        rankings += _rankings(rows, options)
        if not of_task:
            alone.append(rows)
    if not comparisons:
        raise ComparisonError(_nothing(alone))
    _check_default(options.default, measurements)
    notes = [_nothing([rows]) for rows in alone]
    return ComparisonReport(
        tuple(comparisons), tuple(rankings), tuple(notes), options.resamples, options.seed
    )


def _comparisons(rows: Sequence[Measurement], options: Options) -> list[Comparison]:
    """The comparisons of one task: the formats of each model, then the models under one format."""
    models = list(dict.fromkeys(row.model for row in rows))
    labels = list(dict.fromkeys(row.label for row in rows))
    of_models = [[row for row in rows if row.model == model] for model in models]
    of_formats = [compare_formats(same, options) for same in of_models if len(same) > 1]
    under = [[row for row in rows if row.label == name] for name in labels]
    shared = [same for same in under if len(same) > 1]
    if len(shared) > 1:  # all of them would repeat what the ranking says: the default's will do
        usual = [same for same in shared if same[0].label == options.default]
        shared = usual or shared[:1]
    return of_formats + [_comparison(same, "models", options) for same in shared]


def compare_formats(rows: Sequence[Measurement], options: Options) -> Comparison:
    """The formats of one model, or its conditions if shots differ too, on the same items."""
    return _comparison(
        rows, "conditions" if any(row.condition for row in rows) else "formats", options
    )


def _comparison(rows: Sequence[Measurement], compares: str, options: Options) -> Comparison:
    aligned = align(rows, intersect=options.intersect)
    is_formats = compares != "models"
    labels = [row.label if is_formats else row.model for row in rows]
    default = options.default if options.default in labels else labels[0]
    by_default = (is_formats and options.default in labels) or len(rows) > ALL_PAIRS_UP_TO
    scores = aligned.scores
    comparison = Comparison(
        task=rows[0].task,
        compares=compares,
        within=rows[0].model if is_formats else rows[0].label,
        rows=tuple(_row(aligned, index, label) for index, label in enumerate(labels)),
        default=default,
        pairs=pairs(
            aligned,
            labels,
            default if by_default else None,
            adjust=options.method,
            seed=options.seed,
            lists_flips=options.flips,
        ),
        family=f"each against {default}" if by_default else "every two",
        method=options.method,
        num_items=len(aligned.items),
        num_clusters=len(set(aligned.clusters)) if aligned.clusters else None,
        is_binary=aligned.is_binary,
        is_share=aligned.is_share,
        higher_is_better=rows[0].higher_is_better,
        steady=_steady(aligned),
        flip_counts=_flip_counts(aligned) if options.details else (),
        # Cochran's test assumes independent items; with clusters, the test of the spread replaces it.
        omnibus=cochran_q(scores)
        if options.details and len(rows) > 2 and not aligned.clusters
        else None,
        left_out=aligned.left_out or None,
        members=rows[0].members,
    )
    return _with_formats(comparison, aligned, options) if is_formats else comparison


def _with_formats(comparison: Comparison, aligned: Aligned, options: Options) -> Comparison:
    """The comparison with the statistics that only formats have: models are not a sample of many."""
    has_components = options.details and comparison.num_units > 1
    return replace(
        comparison,
        spread=spread(
            aligned.scores,
            clusters=aligned.clusters,
            resamples=options.resamples,
            seed=options.seed,
            draws=options.details,
        ),
        components=components(aligned.scores, aligned.clusters) if has_components else None,
    )


def _row(aligned: Aligned, index: int, label: str) -> ComparisonRow:
    measurement, scores = aligned.measurements[index], aligned.scores[index]
    has_readings = measurement.is_read is not None
    num_read = _whole(float(aligned.shares_read[index].sum()))
    shares = aligned.is_share and measurement.higher_is_better
    right = float(scores[aligned.is_read[index]].sum())
    n = len(scores)
    return ComparisonRow(
        label=label,
        model=measurement.model,
        format=measurement.format,
        metric=measurement.metric,
        score=array_estimate(scores, aligned.clusters),
        num_read=num_read if has_readings else None,
        score_read=_mean_read(aligned, index) if has_readings and num_read else None,
        bounds=(right / n, (right + n - num_read) / n) if has_readings and shares else None,
        missing=measurement.missing,
        usage=measurement.usage,
        choices=measurement.choices,
    )


def _whole(count: float) -> float:
    """A sum of shares, rounded if it is a whole number but for rounding errors."""
    return round(count) if abs(count - round(count)) < TIE * 1000 else count


def _mean_read(aligned: Aligned, index: int) -> Estimate:
    is_read = aligned.is_read[index]
    return array_estimate(aligned.if_read[index][is_read], kept_clusters(aligned.clusters, is_read))


def _flip_counts(aligned: Aligned) -> tuple[tuple[int, ...], ...]:
    sign = 1 if aligned.measurements[0].higher_is_better else -1
    scores = sign * aligned.scores
    below = scores + TIE
    return tuple(tuple((row > below).sum(axis=1).tolist()) for row in scores)


def _steady(aligned: Aligned) -> tuple[int, int] | None:
    if not aligned.is_binary:
        return None
    lowest, highest = aligned.scores.min(axis=0), aligned.scores.max(axis=0)
    return int((lowest == 1).sum()), int((highest == 0).sum())


def _rankings(rows: Sequence[Measurement], options: Options) -> list[Ranking]:
    """How similarly formats rank the models, if all were asked under two or more formats."""
    models = list(dict.fromkeys(row.model for row in rows))
    by_key = {(row.model, row.label): row for row in rows}
    formats = [
        name
        for name in dict.fromkeys(row.label for row in rows)
        if all((model, name) in by_key for model in models)
    ]
    if len(models) < 2 or len(formats) < 2:
        return []
    grid = [by_key[model, name] for model in models for name in formats]
    aligned = align(grid, intersect=options.intersect)
    table = aligned.scores.reshape(len(models), len(formats), -1)
    is_up = rows[0].higher_is_better
    stability = rank_stability(
        table if is_up else -table,
        clusters=aligned.clusters,
        resamples=min(RANK_RESAMPLES, options.resamples),
        seed=options.seed,
    )
    means = tuple(tuple(float(mean) for mean in row) for row in table.mean(axis=2))
    return [
        Ranking(
            rows[0].task,
            tuple(models),
            tuple(formats),
            means,
            stability,
            is_up,
            len(aligned.items),
        )
    ]


def _check_default(name: str | None, measurements: Sequence[Measurement]) -> None:
    formats = list(dict.fromkeys(measurement.label for measurement in measurements))
    if name is not None and name not in formats:
        raise UsageError(
            f"--default {name!r} is not a format of these runs.{did_you_mean(name, formats)} Formats: "
            f"{listing(formats)}."
        )


def _nothing(groups: Sequence[Sequence[Measurement]]) -> str:
    """Why the results of these tasks cannot be compared, and what to do."""
    if not groups:
        return (
            "Nothing to compare: these runs hold no result that was asked for. Give other runs, or "
            "fewer of --tasks, --formats and --models."
        )
    mixed = [rows for rows in groups if len(rows) > 1]
    if mixed:
        first, second = mixed[0][:2]
        names = " and ".join(f"{row.name} ({row.model})" for row in (first, second))
        shots = f"number of shots ({first.num_fewshot} and {second.num_fewshot})"
        what, same = (
            (shots, "with the same shots")
            if first.format == second.format
            else ("format", "under the same format")
        )
        return (
            f"Nothing to compare: {names} differ in model and in {what}, so nobody could "
            f"tell which of these makes the difference. Run both models {same}."
        )
    singles = listing([f"{rows[0].name} ({rows[0].model})" for rows in groups], 5)
    there_is = "one result" if len(groups) == 1 else "runs of different tasks, each with one result"
    return f"Nothing to compare: {there_is}, {singles}. {_another_format(groups[0][0])}"


def _another_format(measurement: Measurement) -> str:
    """How to get a second result beside one."""
    known = ("mcqa", "cloze") if (measurement.facts or {}).get("has_choices", True) else ("cot",)
    others = [name for name in known if name != measurement.format]
    command = measurement.more_formats
    if command is None and not others:
        return "Give a run of another model, or of another format, as well."
    if command is None:
        task, name = measurement.task, measurement.format
        known_name = task if name == "plain" else f"{task}@{name}"
        command = f"lm-eval run --tasks {known_name},{task}@{others[0]} --output_path DIR"
    return f"Add a format: `{command}`; or give a run of another model as well."


TIE = 1e-12
"""Scores closer than this are equal."""


def pairs(
    aligned: Aligned,
    labels: Sequence[str],
    default: str | None,
    *,
    adjust: str,
    seed: int,
    lists_flips: bool,
) -> tuple[Pair, ...]:
    """Every two rows, or each with the default; the better of two comes first.

    ``adjust`` names one of ``ADJUSTMENTS``.
    """
    sign = 1 if aligned.measurements[0].higher_is_better else -1
    order = np.argsort(-sign * aligned.scores.mean(axis=1), kind="stable").tolist()
    chosen = [
        (i, j)
        for i, j in combinations(order, 2)
        if (default is None or default in (labels[i], labels[j]))
        and _differ_in_one(aligned.measurements[i], aligned.measurements[j])
    ]
    if not chosen:
        first, second = aligned.measurements[:2]
        raise two_causes(first, second, len(aligned.items))
    tests = paired_many(aligned.scores, aligned.clusters, chosen=chosen, seed=seed)
    results = [result for _, _, result in tests]
    some_unread = _unread_pairs(aligned, chosen)
    both_read = _both_read(aligned, chosen, some_unread, seed)
    remaining = _remaining(aligned, chosen, some_unread, seed)
    method = ADJUSTMENTS[adjust]
    adjusted = method([result.p for result in results])
    p_remaining = method(
        [
            _largest_p(sign, result, both_read[k], remaining[k]) if k in some_unread else result.p
            for k, result in enumerate(results)
        ]
    )
    share_read = aligned.shares_read.mean(axis=1).tolist()
    p_both_read = method(
        [(both or result).p for both, result in zip(both_read, results, strict=True)]
    )
    choices = [measurement.choices for measurement in aligned.measurements]
    return tuple(
        Pair(
            labels[i],
            labels[j],
            result,
            adjusted[k],
            both_read[k],
            None if both_read[k] is None else p_both_read[k],
            remaining[k],
            p_remaining[k],
            gap_read=(gap := share_read[i] - share_read[j]),
            is_adherence=_is_adherence(aligned, result, gap),
            counts=(result.wins, result.losses) if sign > 0 else (result.losses, result.wins),
            probability=_probability(result, sign),
            asks_same=None in (choices[i], choices[j]) or choices[i] == choices[j],
            flips=_flips(aligned, i, j) if lists_flips else None,
        )
        for k, (i, j, result) in enumerate(tests)
    )


def _differ_in_one(first: Measurement, second: Measurement) -> bool:
    """False for two that differ in format and in shots: their difference would have two causes."""
    is_told_apart = bool(first.condition and second.condition)
    return not (
        is_told_apart and first.format != second.format and first.num_fewshot != second.num_fewshot
    )


def _unread_pairs(aligned: Aligned, chosen: Sequence[tuple[int, int]]) -> set[int]:
    """Which of the pairs have an answer that was not read."""
    all_read = (aligned.shares_read == 1).all(axis=1)
    return {k for k, (i, j) in enumerate(chosen) if not (all_read[i] and all_read[j])}


def _both_read(
    aligned: Aligned, chosen: Sequence[tuple[int, int]], which: set[int], seed: int
) -> list[Paired | None]:
    """Each pair on the items read under both; None if these are all items, or none."""
    masks = {k: aligned.is_read[chosen[k][0]] & aligned.is_read[chosen[k][1]] for k in which}
    return _tested_where(aligned, aligned.if_read, chosen, masks, seed)


def _remaining(
    aligned: Aligned, chosen: Sequence[tuple[int, int]], which: set[int], seed: int
) -> list[Paired | None]:
    """Each pair on the items read under the second; unread answers of the first count as scored."""
    masks = {k: aligned.is_read[chosen[k][1]] for k in which}
    if aligned.if_read is aligned.scores:
        return _tested_where(aligned, aligned.scores, chosen, masks, seed)
    rows = len(aligned.scores)
    both_ways = np.concatenate([aligned.scores, aligned.if_read])
    as_read = [(i, rows + j) for i, j in chosen]
    return _tested_where(aligned, both_ways, as_read, masks, seed)


def _tested_where(
    aligned: Aligned,
    scores: Floats,
    pairs: Sequence[tuple[int, int]],
    masks: Mapping[int, Bools],
    seed: int,
) -> list[Paired | None]:
    """Each pair that has a mask, on the items it keeps; None for others, and if it keeps none."""
    some = [k for k, mask in masks.items() if mask.any()]
    if not some:
        return [None] * len(pairs)
    kept = np.stack([masks[k] for k in some])
    tested = paired_where(scores, [pairs[k] for k in some], kept, aligned.clusters, seed=seed)
    known = dict(zip(some, tested, strict=True))
    return [known.get(k) for k in range(len(pairs))]


def _largest_p(sign: int, *results: Paired | None) -> float:
    """The largest p; 1 if a result is missing or does not favour the first."""
    return max(
        1.0 if result is None or sign * result.difference.value <= 0 else result.p
        for result in results
    )


def _is_adherence(aligned: Aligned, result: Paired, gap: float) -> bool:
    """Whether the lead is no larger than the lead in answers read."""
    if not aligned.is_share or not aligned.measurements[0].higher_is_better:
        return False
    return 0 < result.difference.value <= gap + TIE


def _probability(result: Paired, sign: int) -> float | None:
    known = result.probability
    return known if known is None or sign > 0 else 1 - known


def _flips(aligned: Aligned, i: int, j: int) -> Flips:
    gap = aligned.scores[i] - aligned.scores[j]
    if not aligned.measurements[0].higher_is_better:
        gap = -gap
    first, second = np.flatnonzero(gap > TIE), np.flatnonzero(gap < -TIE)
    return Flips(*(tuple(doc_of(aligned.items[at]) for at in items) for items in (first, second)))
