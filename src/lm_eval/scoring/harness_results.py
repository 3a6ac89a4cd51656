"""Scores of all docs → the entries of a results file: a task's, and those of a group of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lm_eval.errors import ConfigError, LmEvalError
from lm_eval.scoring.harness_errors import (
    DEFAULT_ITERS,
    aggregate_subtask_metrics,
    pooled_sample_stderr,
    unweighted_mean_stderr,
    value_and_stderr,
)
from lm_eval.scoring.metric_list import MetricList

NOT_AVAILABLE = "N/A"


def aggregate_task(
    values: Mapping[tuple[str, str], Sequence[Any]],
    metrics: MetricList,
    *,
    bootstrap_iters: int | None = DEFAULT_ITERS,
    task: str = "",
) -> tuple[dict[str, Any], int]:
    """``{"acc,none": 0.5, "acc_stderr,none": 0.1, …}`` and the number of docs.

    ``values`` holds, for each (metric, filter), what its docs scored. A standard error that does
    not exist is ``"N/A"``. A doc may leave out a metric: the largest number of values counts.
    """
    found: dict[str, Any] = {}
    for (metric, filter_name), scores in values.items():
        value, error = _aggregated(metric, scores, metrics, bootstrap_iters, task)
        found[f"{metric},{filter_name}"] = value
        found[f"{metric}_stderr,{filter_name}"] = NOT_AVAILABLE if error is None else error
    return found, max((len(scores) for scores in values.values()), default=0)


def _aggregated(
    metric: str, scores: Sequence[Any], metrics: MetricList, iters: int | None, task: str
) -> tuple[Any, float | None]:
    aggregation = metrics.aggregation_of(metric)
    try:
        return value_and_stderr(metric, scores, aggregation, iters)
    except LmEvalError:
        raise
    except (TypeError, ValueError, ArithmeticError, IndexError) as error:
        where = f"Task {task!r}: " if task else ""
        name = getattr(aggregation, "__name__", str(aggregation))
        raise ConfigError(
            f"{where}the values of metric {metric!r} cannot be aggregated by {name} "
            f"({type(error).__name__}: {error}). The first value is {scores[0]!r}. Give the metric "
            "another `aggregation` in metric_list."
        ) from error


def aggregate_group(
    entries: Sequence[Any],
    leaf_tasks: Sequence[str],
    results: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """A group's scores from its tasks': ``{"acc,none": …, "sample_len": …, "sample_count": …}``.

    Each entry has ``metric``, ``filter_list`` (None: every filter that a task has) and
    ``weight_by_size``. A task without the metric is left out of it.
    """
    tasks = [results[name] for name in leaf_tasks if name in results]
    found: dict[str, Any] = {"sample_len": sum(task.get("sample_len", 0) for task in tasks)}
    counts: dict[str, int] = {}
    for entry in entries:
        for filter_name in _filters(entry, tasks):
            key, error_key = f"{entry.metric},{filter_name}", f"{entry.metric}_stderr,{filter_name}"
            having = [task for task in tasks if key in task]
            if not having:
                continue
            sizes = [task.get("sample_len", 0) for task in having]
            errors = [task.get(error_key) for task in having]
            weighted = bool(entry.weight_by_size)
            scores = [task[key] for task in having]
            found[key] = aggregate_subtask_metrics(scores, sizes, weighted)
            found[error_key] = _group_error(errors, sizes, weighted)
            counts[key] = sum(sizes)
    if counts:
        found["sample_count"] = counts
    return found


def _group_error(errors: Sequence[Any], sizes: Sequence[int], weighted: bool) -> Any:
    if any(error is None or error == NOT_AVAILABLE for error in errors):
        return NOT_AVAILABLE
    return pooled_sample_stderr(errors, sizes) if weighted else unweighted_mean_stderr(errors)


def _filters(entry: Any, tasks: Iterable[Mapping[str, Any]]) -> list[str]:
    names = entry.filter_list
    if names is not None:
        return [names] if isinstance(names, str) else list(names)
    start = f"{entry.metric},"
    keys = {key for task in tasks for key in task if key.startswith(start)}
    return sorted(key.removeprefix(start) for key in keys if "_stderr" not in key)
