"""Stored runs → ``Measurement``s, and several of them on the same items → ``Aligned``.

A measurement is one task under one format, asked of one model, with a score for each item. Those of a
comparison must be about the same items with the same few-shot examples; if they are not, that is an
error, unless the caller asks for the items that all have.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import TemplateSyntaxError

from lm_eval.config.fields import fields_read
from lm_eval.errors import ComparisonError, did_you_mean, listing
from lm_eval.lab.stored.run import PLAIN, sweep_path
from lm_eval.orders.results import ACC_DEBIASED, ACC_OVER_ORDERS
from lm_eval.reports.items import ItemColumns
from lm_eval.scoring.functions import is_repeat_metric
from lm_eval.stats.clusters import is_binary, is_share
from lm_eval.stats.numeric import Bools, Floats, np

CHOICES_SHOWN, CHOICES_SCORED, CHOICES_HIDDEN = "shown", "scored", "hidden"
"""Choices are in the prompt; they are not, but only they can be the answer; neither."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """One task under one format, asked of one model: a score for each item."""

    run: str
    """The results file, for messages; empty for the run that has just ended."""
    model: str
    task: str
    format: str
    """The format's name; ``plain`` if the task was asked without one."""
    name: str
    """``task@format`` as in the results."""
    metric: str
    higher_is_better: bool
    items: tuple[str, ...]
    """A key of each item: equal keys in two measurements are the same item."""
    scores: Floats
    """A number for each item; an answer that was not read counts as the metric says, not right."""
    is_read: Bools | None = None
    """Whether each answer could be read, of several replies any; None if nothing is read."""
    shares_read: Floats | None = None
    """Of each item's replies, the share that could be read; None: all or none, as ``is_read``."""
    clusters: tuple[str, ...] | None = None
    shots: tuple[str, ...] = ()
    """A key of each item's few-shot examples."""
    num_fewshot: int | None = None
    missing: int = 0
    usage: Mapping[str, Any] | None = None
    """What the answers cost: requests, tokens, seconds."""
    choices: str | None = None
    """What the prompts make of the choices: ``shown``, ``scored`` or ``hidden``; None if there are
    none, or nothing is known."""
    facts: Mapping[str, Any] | None = None
    """What else the results say about it: fingerprints, versions, notes."""
    members: tuple[str, ...] = ()
    """Of a group, its tasks."""
    condition: str = ""
    """``mcqa, 5-shot``, if results of the task differ in the number of shots; else empty."""

    @property
    def more_formats(self) -> str | None:
        """The command that asks the same under other formats, if another package made the run."""
        return (self.facts or {}).get("more_formats")

    @property
    def label(self) -> str:
        """What it is called beside others of the same task and model."""
        return self.condition or self.format


@dataclass(frozen=True, eq=False)
class Aligned:
    """Measurements on the same items: a matrix with a row for each of them."""

    measurements: tuple[Measurement, ...]
    items: tuple[str, ...]
    scores: Floats
    """Measurements × items."""
    is_read: Bools
    """Measurements × items; true if nothing is read from text."""
    shares_read: Floats
    """Measurements × items: of several replies, the share that could be read."""
    clusters: tuple[str, ...] | None
    left_out: Mapping[str, int]
    """Measurement name → items that others lack; empty if all had the same."""

    @cached_property
    def if_read(self) -> Floats:
        """Measurements × items: the scores of the replies that were read; unchanged if none were."""
        if (self.shares_read == self.is_read).all():  # one reply to each item
            return self.scores
        shares: Floats = np.where(self.is_read, self.shares_read, 1.0)
        return self.scores / shares

    @cached_property
    def is_binary(self) -> bool:
        """Whether every score is 0 or 1."""
        return is_binary(self.scores)

    @cached_property
    def is_share(self) -> bool:
        """Whether every score lies between 0 and 1."""
        return is_share(self.scores)


def measurement(
    results: Mapping[str, Any],
    items: Any,
    name: str,
    run: str,
    model: str,
    metrics: Sequence[str] = (),
) -> Measurement:
    """One result; ``items`` gives the columns of a name under a filter.

    ``metrics`` name those to take instead of the one shown as the score: the first that it has.
    """
    metric, filter_name = primary_metric(results, name, run, metrics)
    columns: ItemColumns = items(name, filter_name)
    is_read, shares_read = readings(metric, columns.read)
    known = results.get("formats", {}).get(name)
    return Measurement(
        run=run,
        model=model,
        task=name.rpartition("@")[0] if known and "@" in name else name,
        format=str(known["format"]) if known else PLAIN,
        name=name,
        metric=metric,
        higher_is_better=bool(results.get("higher_is_better", {}).get(name, {}).get(metric, True)),
        items=columns.keys,
        scores=_scores(columns, metric, run),
        is_read=is_read,
        shares_read=shares_read,
        clusters=None if columns.clusters is None else tuple(columns.clusters),
        shots=tuple(columns.shots),
        num_fewshot=results.get("n-shot", {}).get(name),
        missing=columns.missing,
        choices=_choices(results, name),
        usage=_usage(results, name),
        facts={
            "fingerprints": results.get("fingerprints", {}).get(name, {}),
            "version": results.get("versions", {}).get(name),
            "notes": results.get("notes", {}).get(name, []),
            "more_formats": results.get("more_formats"),
            "has_choices": bool((results["configs"].get(name) or {}).get("doc_to_choice")),
        },
    )


def _choices(results: Mapping[str, Any], name: str) -> str | None:
    """What the prompts make of the choices.

    Files of earlier versions do not say whether these are shown. Then the fields tell, if both are
    Jinja: a prompt that shows them reads what they are made of.
    """
    config = results["configs"].get(name) or {}
    shows = results.get("shows_choices", {}).get(name)
    if "shows_choices" not in results:
        text, choices = (_reads(config.get(key)) for key in ("doc_to_text", "doc_to_choice"))
        shows = bool(text & choices) if text and choices else None
    if shows is None:
        return None
    if shows:
        return CHOICES_SHOWN
    return CHOICES_SCORED if config.get("output_type") == "multiple_choice" else CHOICES_HIDDEN


def _reads(spec: Any) -> set[str]:
    """The doc's fields that a stored field reads; empty for what is not Jinja."""
    try:
        return fields_read(spec)
    except TemplateSyntaxError:  # the source of a Python function may hold braces
        return set()


def readings(
    metric: str, read: Sequence[float] | Floats | None
) -> tuple[Bools | None, Floats | None]:
    """``is_read`` and ``shares_read`` of a measurement; ``read`` is the share of each item's replies."""
    if read is None or metric in (ACC_DEBIASED, ACC_OVER_ORDERS):
        return None, None  # of several orders, one alone is known as read
    shares = np.array(read, dtype=float)
    # Of pass@k and maj@k, no part belongs to one of the replies.
    return shares > 0, None if is_repeat_metric(metric) else shares


def _usage(results: Mapping[str, Any], name: str) -> dict[str, float] | None:
    """What the answers cost, as far as the file has numbers for it."""
    tasks = results.get("accounting", {}).get("tasks")
    usage = tasks.get(name) if isinstance(tasks, Mapping) else None
    if not isinstance(usage, Mapping):
        return None
    return {
        key: value
        for key, value in usage.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def with_items(
    results: Iterable[Callable[[], Measurement]],
) -> tuple[list[Measurement], list[str]]:
    """The results that have a number for each item, and a note on each that has not; never none."""
    measurements, errors = [], []
    for result in results:
        try:
            measurements.append(result())
        except _NotByItemError as error:
            errors.append(error)
    if errors and not measurements:
        raise errors[0]
    return measurements, [f"Left out: {error}" for error in errors]


class _NotByItemError(ComparisonError):
    """A metric is one number for a whole data set, such as the perplexity of a word."""


def align(measurements: Sequence[Measurement], *, intersect: bool = False) -> Aligned:
    """The measurements on the same items, in the order of the first.

    Different tasks or few-shot examples are an error. So are different items, unless
    ``intersect`` asks for those that all have.
    """
    _check_same(measurements)
    first = measurements[0]
    kept = first.items
    if any(row.items is not kept and row.items != kept for row in measurements):
        kept = _common_items(measurements, intersect=intersect)
    if not kept:
        raise ComparisonError(_different_items(measurements, 0))
    left_out = {_title(row): len(row.items) - len(kept) for row in measurements}
    rows = [taken(row, kept) for row in measurements]
    _check_shots(rows)
    clusters = next((row.clusters for row in rows if row.clusters is not None), None)
    return Aligned(
        tuple(measurements),
        kept,
        np.array([row.scores for row in rows], dtype=float),
        np.array([all_read(row) for row in rows], dtype=bool),
        np.array([shares_read(row) for row in rows], dtype=float),
        clusters,
        {name: count for name, count in left_out.items() if count},
    )


def _common_items(measurements: Sequence[Measurement], *, intersect: bool) -> tuple[str, ...]:
    """The items of all measurements, in the order of the first."""
    first, *others = (row.items for row in measurements)
    common = set(first).intersection(*others)
    if not intersect and any(len(row.items) > len(common) for row in measurements):
        raise ComparisonError(_different_items(measurements, len(common)))
    return tuple(item for item in first if item in common)


def doc_of(item: str) -> str:
    """The doc id in an item's key, without the hash of the doc."""
    return item.rpartition(":")[0] or item


def taken(row: Measurement, kept: Sequence[str]) -> Measurement:
    """The measurement with these items alone, in this order."""
    if row.items is kept or row.items == tuple(kept):
        return row
    index_of = {item: index for index, item in enumerate(row.items)}
    indices = [index_of[item] for item in kept]
    return replace(
        row,
        items=tuple(kept),
        scores=row.scores[indices],
        is_read=None if row.is_read is None else row.is_read[indices],
        shares_read=None if row.shares_read is None else row.shares_read[indices],
        clusters=None if row.clusters is None else tuple(row.clusters[at] for at in indices),
        shots=tuple(row.shots[at] for at in indices) if row.shots else (),
    )


def all_read(row: Measurement) -> Bools:
    """Whether each answer could be read; true if nothing is read from text."""
    return np.ones(len(row.items), dtype=bool) if row.is_read is None else row.is_read


def shares_read(row: Measurement) -> Floats:
    """The share of each item's replies that could be read; 1 if nothing is read from text."""
    return all_read(row).astype(float) if row.shares_read is None else row.shares_read


def _check_same(measurements: Sequence[Measurement]) -> None:
    """Refuse what cannot be paired. Formats may show scores of different names: each is their score."""
    tasks = sorted({row.task for row in measurements})
    if len(tasks) > 1:
        raise ComparisonError(
            f"These are runs of different tasks, which have no items to pair: {listing(tasks)}. "
            "Compare runs of one task at a time."
        )
    if len({row.higher_is_better for row in measurements}) > 1:
        metrics = sorted({row.metric for row in measurements})
        raise ComparisonError(
            f"For some of these metrics higher is better, for others lower: {listing(metrics)}. Choose "
            "one that all results have with --metric."
        )


def with_conditions(measurements: Sequence[Measurement]) -> list[Measurement]:
    """The measurements, with the number of shots in the labels of tasks where it differs."""
    shots: dict[str, set[int | None]] = {}
    for row in measurements:
        shots.setdefault(row.task, set()).add(row.num_fewshot)
    return [
        replace(row, condition=f"{row.format}, {row.num_fewshot}-shot")
        if len(shots[row.task]) > 1 and row.num_fewshot is not None
        else row
        for row in measurements
    ]


def _check_shots(rows: Sequence[Measurement]) -> None:
    """Refuse rows asked with different few-shot examples: that would be a second difference.

    Rows that are distinguished by their number of shots differ in it on purpose.
    """
    alike: dict[Any, Measurement] = {}
    for row in rows:
        if row.shots:
            first = alike.setdefault(row.num_fewshot if row.condition else None, row)
            if first.shots != row.shots:
                different = sum(a != b for a, b in zip(first.shots, row.shots, strict=True))
                raise two_causes(first, row, different)


def two_causes(first: Measurement, row: Measurement, different: int) -> ComparisonError:
    """The error about two measurements that differ in more than what is compared."""
    return ComparisonError(
        f"{_title(first)} and {_title(row)} were asked with different few-shot examples "
        f"({different} of {len(row.items)} items; {first.num_fewshot} and "
        f"{row.num_fewshot} shots), so their difference would have two causes. Run both with "
        "the same --num_fewshot and --seed."
    )


def _different_items(measurements: Sequence[Measurement], common: int) -> str:
    sizes = listing([_size(row) for row in measurements], 6)
    summary = next((path for row in measurements if (path := _summary_of_few(row.run))), None)
    if summary is not None:
        shared = ", or give --intersect to compare on what they share" if common else ""
        return (
            "A sweep with --budget asks only some items under each format, so its formats "
            f"have few items to pair, or none: {sizes}; {common} are in all of them. What it found out "
            f"about the formats is in {summary}. To compare them item by item, give the sweep again "
            f"without --budget{shared}."
        )
    if not common:
        return f"These runs have no item in common: {sizes}. Are they of the same task and split?"
    again = "Run them with the same --limit or --samples"
    if any(row.missing for row in measurements):
        again = "Run again what got no answer"
    return (
        f"These runs are not about the same items: {sizes}; {common} are in all of them. {again}, or "
        "give --intersect to compare on what they share."
    )


def _summary_of_few(run: str) -> Path | None:
    """The summary of the sweep that a run is, if that has left cells out."""
    try:
        path = sweep_path(Path(run))
        data = json.loads(path.read_text("utf-8"))
        return path if data["cells"] < data["all_cells"] else None
    except (OSError, ValueError, LookupError, TypeError):  # no such file, or no run on disk
        return None


def _size(row: Measurement) -> str:
    """``t@mcqa (dummy) has 77 (3 got no answer)``."""
    missing = f" ({row.missing} got no answer)" if row.missing else ""
    return f"{_title(row)} has {len(row.items)}{missing}"


def _title(row: Measurement) -> str:
    return f"{row.name} ({row.model})"


def primary_metric(
    results: Mapping[str, Any], name: str, run: str, wanted: Sequence[str] = ()
) -> tuple[str, str]:
    """The metric shown as the score, or the one that is wanted, and its filter."""
    known = list(results.get("primary_metrics", {}).get(name, {}))
    others = [
        key
        for key, value in results["results"][name].items()
        if "," in key
        and "_stderr," not in key
        and not key.startswith("share_read,")
        and isinstance(value, int | float)
    ]
    if wanted:
        return _wanted(wanted, [*known, *others], f"{run or 'This run'}, {name}")
    entries = known or others
    if not entries:
        raise ComparisonError(
            f"{run or 'This run'} has no score of {name!r}: it was run with --predict_only, or nothing "
            "was scored."
        )
    metric, _, filter_name = entries[0].partition(",")
    return metric, filter_name


def _wanted(metrics: Sequence[str], entries: Sequence[str], where: str) -> tuple[str, str]:
    """The first of the metrics that is there; ``metric,filter`` under the first filter that has it."""
    for metric in metrics:
        for entry in entries:
            name, _, filter_name = entry.partition(",")
            if name == metric:
                return name, filter_name
    names = sorted({entry.partition(",")[0] for entry in entries})
    raise ComparisonError(
        f"{where}: there is no metric {listing(metrics)}.{did_you_mean(metrics[0], names)} Metrics: "
        f"{listing(names)}. Of several, as in --metric acc_norm,acc, the first that a result has counts."
    )


def _scores(columns: ItemColumns, metric: str, run: str) -> Floats:
    values = columns.metrics.get(metric)
    where = f"{run or 'This run'}, {columns.name}"
    if values is None:
        raise _NotByItemError(
            f"{where}: metric {metric!r} has no number for each item, so it cannot be compared item by "
            f"item. Metrics that have: {listing(sorted(columns.metrics)) or 'none'}."
        )
    scores = np.array(values, dtype=float)
    undefined = [columns.doc_ids[at] for at in np.flatnonzero(np.isnan(scores))]  # None becomes NaN
    if undefined:
        raise ComparisonError(
            f"{where}: metric {metric!r} is not a number (NaN or None) on {len(undefined)} of "
            f"{len(values)} items, the first is doc {undefined[0]}. Let the metric give a number for "
            "every doc, or choose another with --metric."
        )
    return scores
