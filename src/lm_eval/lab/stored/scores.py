"""Scores and samples of stored runs as plain values: what tables show, and rows for other programs.

Scores come from the results files alone, so runs without samples have them too. Scores by a field of the
docs are there if the task says ``score_by``; otherwise they are computed from the samples.
``lm_eval.load_results`` and ``lm_eval.load_samples`` are functions of this module.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lm_eval.errors import (
    ComparisonError,
    MissingExtraError,
    UsageError,
    did_you_mean,
    listing,
)
from lm_eval.lab.stored.measurement import primary_metric
from lm_eval.lab.stored.run import PLAIN, StoredResult, StoredRun, open_runs
from lm_eval.lab.stored.samples import whole_samples
from lm_eval.lab.stored.view import sample_row
from lm_eval.stats.clusters import clustered_estimate
from lm_eval.stats.estimates import Estimate
from lm_eval.support.encode import AsDict
from lm_eval.support.files import PARTIAL

NO_PART = "(none)"
"""The part of docs that lack the field, as in ``score_by``."""
_Z = 1.959964
_ABOUT_READING = "share_read"


TASK, PART, MODEL, SHOTS, FORMAT, METRIC = "task", "part", "model", "shots", "format", "metric"
DIMENSIONS = (TASK, PART, MODEL, SHOTS, FORMAT, METRIC)
"""In what scores can differ, in the order in which rows of a table show it."""


@dataclass(frozen=True, kw_only=True)
class StoredScore(AsDict):
    """One score: a metric of a task or group, under one format, asked of one model."""

    run: str
    """The results file."""
    model: str
    name: str
    """``task@format`` as in the results."""
    task: str
    format: str
    shots: int | None
    metric: str
    filter: str
    estimate: Estimate
    is_score: bool
    """Whether it is the metric shown as the result's score."""
    higher_is_better: bool
    share_read: float | None
    missing: int
    version: Any
    """Of the format; None if it has none."""
    fingerprint: str | None
    """Of the format."""
    is_group: bool = False
    part: str | None = None
    """The part of the docs, if they are scored by a field."""

    KEYS = (
        *("model", "task", "format", "shots", "metric", "filter", ("score", "estimate.value")),
        *(("stderr", "estimate.stderr"), ("low", "estimate.low"), ("high", "estimate.high")),
        *(("n", "estimate.n"), ("interval_method", "estimate.method"), "is_score"),
        *("higher_is_better", "share_read", "missing", "is_group", ("format_version", "version")),
        *(("format_fingerprint", "fingerprint"), "run"),
    )

    def to_dict(self) -> dict[str, Any]:
        """A row of plain values."""
        row = super().to_dict()
        if self.part is not None:  # these are known of all docs only
            row |= {"share_read": None, "missing": None}
        return row


def value_in(score: StoredScore, dimension: str) -> str:
    """The value of a score in one dimension: the name of its task, ``5-shot``, …."""
    if dimension == SHOTS:
        return "" if score.shots is None else f"{score.shots}-shot"
    if dimension == PART:
        return score.part or ""
    return str(getattr(score, dimension))


def scores_of(result: StoredResult, model: str) -> list[StoredScore]:
    """Every score of a result, the one shown as its score first."""
    return list(_scores(result.run, result.name, model, result.task, result.format))


def group_scores(run: StoredRun, model: str) -> list[StoredScore]:
    """The scores of the groups of a run."""
    return [
        score
        for name in run.results.get("groups", {})
        for score in _scores(
            *(run, name, model, name.partition("@")[0], name.partition("@")[2] or PLAIN),
            is_group=True,
        )
    ]


def _scores(
    run: StoredRun, name: str, model: str, task: str, format_name: str, *, is_group: bool = False
) -> Iterator[StoredScore]:
    results = run.results
    scores = results["groups" if is_group else "results"][name]
    facts = results.get("formats", {}).get(name) or {}
    keys = [key for key in scores if _is_metric(key, scores)]
    if not is_group:
        keys = _primary_first(run, name, keys)
    up = results.get("higher_is_better", {}).get(name) or {}
    for index, key in enumerate(keys):
        metric, _, filter_name = key.partition(",")
        yield StoredScore(
            run=str(run.path),
            model=model,
            name=name,
            task=task,
            format=format_name,
            shots=results.get("n-shot", {}).get(name),
            metric=metric,
            filter=filter_name,
            estimate=_estimate(run, name, key, scores),
            is_score=index == 0,
            higher_is_better=bool(up.get(metric, True)),
            share_read=_real(scores.get(f"{_ABOUT_READING},{filter_name}")),
            missing=int(scores.get("missing") or 0),
            version=facts.get("version"),
            fingerprint=facts.get("fingerprint"),
            is_group=is_group,
        )


def _primary_first(run: StoredRun, name: str, keys: list[str]) -> list[str]:
    if not keys:
        return []
    first = ",".join(primary_metric(run.results, name, str(run.path)))
    return [first, *(key for key in keys if key != first)] if first in keys else keys


def _is_metric(key: str, scores: Mapping[str, Any]) -> bool:
    return (
        "," in key
        and "_stderr," not in key
        and "_ci95," not in key
        and not key.startswith(f"{_ABOUT_READING},")
        and _real(scores[key]) is not None
    )


def _real(value: Any) -> float | None:
    """A finite number, or None: files of other programs hold texts such as ``N/A``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _estimate(run: StoredRun, name: str, key: str, scores: Mapping[str, Any]) -> Estimate:
    """The score with its interval; if the file has no intervals, from the standard error."""
    results = run.results
    ends = (results.get("intervals", {}).get(name) or {}).get(key)
    counts = results.get("n-samples", {}).get(name) or {}
    n = int(_real(scores.get("sample_len")) or _real(counts.get("effective")) or 0)
    replies = scores.get("replies")
    if key.startswith("acc_read,") and isinstance(replies, Mapping):
        n = int(_real(replies.get("read")) or 0)
    method = str((results.get("interval_methods", {}).get(name) or {}).get(key, "none"))
    return stored_estimate(scores, key, ends, n, method)


def stored_estimate(
    scores: Mapping[str, Any], key: str, ends: Any, n: int, method: str
) -> Estimate:
    """A score of a file, with its standard error and interval.

    ``ends`` are those of the interval, None if the file has them beside the score, as in earlier
    versions. If there are none and the method is ``none``, the standard error gives the interval.
    """
    value = float(scores[key])
    stderr = _real(scores.get(key.replace(",", "_stderr,", 1)))
    ends = scores.get(key.replace(",", "_ci95,", 1)) if ends is None else ends
    is_pair = isinstance(ends, list | tuple) and len(ends) == 2
    low, high = (_real(end) for end in ends) if is_pair else (None, None)
    if low is None and high is None and stderr and method == "none":
        low, high, method = value - _Z * stderr, value + _Z * stderr, "normal"
    return Estimate(value, stderr, low, high, n, method)


# By a field of the docs


def scores_by(result: StoredResult, score: StoredScore, field: str) -> list[StoredScore]:
    """A score of a result for each value of a field of the docs, in the order of the values."""
    stored = result.fact("score_by") or {}
    if field in stored:
        return list(_stored_parts(stored[field], score))
    scored = _values_by(result, score, field)
    values = [value for part in scored.values() for value, _ in part]
    if not math.isclose(math.fsum(values) / len(values), score.estimate.value, abs_tol=1e-9):
        raise ComparisonError(
            f"{score.metric} of {score.name!r} is not a mean over its docs, so the samples do not give "
            f"it for a part of them. Say `score_by: {field}` in the task and run it again, or choose "
            "another with --metric."
        )
    return [
        replace(score, part=part, estimate=_mean(scored[part]))
        for part in sorted(scored, key=_order)
    ]


def _mean(scored: Sequence[tuple[float, str | None]]) -> Estimate:
    clusters = [cluster for _, cluster in scored if cluster is not None]
    values = [value for value, _ in scored]
    return clustered_estimate(values, clusters if len(clusters) == len(values) else None)


def _order(part: str) -> tuple[bool, float, str]:
    """Numbers as numbers, then texts."""
    try:
        return False, float(part), part
    except ValueError:
        return True, 0.0, part


def _stored_parts(parts: Mapping[str, Any], score: StoredScore) -> Iterator[StoredScore]:
    key = f"{score.metric},{score.filter}"
    for part, scores in parts.items():
        if _real(scores.get(key)) is not None:
            ends = scores.get(key.replace(",", "_ci95,", 1))
            method = "none" if ends is None else score.estimate.method
            estimate = stored_estimate(scores, key, ends, int(_real(scores.get("n")) or 0), method)
            yield replace(score, part=part, estimate=estimate)


def _values_by(
    result: StoredResult, score: StoredScore, field: str
) -> dict[str, list[tuple[float, str | None]]]:
    """Part → the metric's value and the cluster of each of its docs."""
    scored: dict[str, list[tuple[float, str | None]]] = {}
    for part, sample in parts_of_samples(result, field, score.filter):
        value = _real(sample.get(score.metric))
        if value is None:
            continue
        cluster = sample.get("cluster")
        scored.setdefault(part, []).append((value, None if cluster is None else str(cluster)))
    if not scored:
        raise ComparisonError(
            f"{result.run.samples_path(result.name)} has no number for {score.metric!r} item by item, "
            f"so it cannot be shown by {field!r}. Choose another with --metric."
        )
    return scored


def parts_of_samples(
    result: StoredResult, field: str, filter_name: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each sample of a result, with its doc's value of a field; missing docs are left out."""
    known: set[str] = set()
    has_field = False
    for sample in result.run.samples(result.name):
        if sample.get("missing") or sample.get("filter", "none") != filter_name:
            continue
        if sample.get("redacted"):
            raise ComparisonError(
                f"The docs of {result.name!r} are hidden in its samples (`redact: true`), so nothing is "
                f"known of their {field!r}. Say `score_by: {field}` in the task and run it again."
            )
        doc = sample.get("doc")
        parts = sample.get("parts")
        values: Mapping[str, Any] = {
            **(doc if isinstance(doc, Mapping) else {}),
            **(parts if isinstance(parts, Mapping) else {}),
        }
        known.update(map(str, values))
        has_field = has_field or field in values
        value = values.get(field)
        if isinstance(value, list | dict):
            raise ComparisonError(
                f"--by {field}: that field of {result.name!r} holds a "
                f"{'list' if isinstance(value, list) else 'mapping'}. Name one that holds a text or a "
                "number for each doc."
            )
        yield (NO_PART if value is None or value == "" else str(value)), sample
    if not has_field:
        raise ComparisonError(
            f"The docs of {result.name!r} have no field {field!r}.{did_you_mean(field, known)} Fields: "
            f"{listing(sorted(known), 10)}."
        )


# Rows


Row = dict[str, Any]


def load_results(path: str | Path | Sequence[str | Path], *, as_frame: bool | None = None) -> Any:
    """The scores of stored runs, one row for each metric of each result: score, ends, n, shots, ….

    ``path`` is a results file, a folder with such files at any depth, or several of either. Returns a
    ``pandas.DataFrame`` if pandas is installed, otherwise a list of dicts; ``as_frame`` decides it.
    """
    rows = [
        score.to_dict()
        for run in open_runs(_paths(path))
        for score in (
            *group_scores(run, run.model),
            *(s for name in run.names for s in scores_of(StoredResult(run, name), run.model)),
        )
    ]
    return _frame(rows, as_frame)


def load_samples(path: str | Path | Sequence[str | Path], *, as_frame: bool | None = None) -> Any:
    """The samples of stored runs, one row for each doc: what was asked, answered, picked and scored.

    ``path`` is as for ``load_results``, or a samples file, also one that is still being written. Returns
    a ``pandas.DataFrame`` if pandas is installed, otherwise a list of dicts; ``as_frame`` decides it.
    """
    rows: list[Row] = []
    for each in _paths(path):
        file = Path(each).expanduser()
        if file.name.endswith((".jsonl", f".jsonl{PARTIAL}")) and file.is_file():
            rows += [sample_row({"run": str(file)}, sample) for sample in whole_samples(file)]
        else:
            rows += [row for run in open_runs([each]) for row in _rows_of(run)]
    return _frame(rows, as_frame)


def _paths(path: str | Path | Sequence[str | Path]) -> list[str | Path]:
    if isinstance(path, str | Path):
        return [path]
    if isinstance(path, Iterable):
        paths = list(path)
        if all(isinstance(each, str | Path) for each in paths):
            return paths
    raise UsageError(
        f"path is {path!r:.80}. Give a results file, a folder with results files, or a list of these."
    )


def _rows_of(run: StoredRun) -> Iterator[Row]:
    for name in run.names:
        result = StoredResult(run, name)
        about = {
            "run": str(run.path),
            "model": run.model,
            "task": result.task,
            "format": result.format,
            "shots": result.fact("n-shot"),
        }
        for sample in run.samples(name):
            yield sample_row(about, sample)


def _frame(rows: list[Row], as_frame: bool | None) -> Any:
    """The rows as a DataFrame if that is asked for, or if pandas is installed and nothing is asked."""
    if as_frame is False:
        return rows
    try:
        pandas = importlib.import_module("pandas")
    except ImportError:
        if as_frame is None:
            return rows
        raise MissingExtraError(
            "A DataFrame needs pandas, which is not installed.", install="pip install pandas"
        ) from None
    return pandas.DataFrame(rows)
