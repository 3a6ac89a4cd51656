"""The tasks of a group as one measurement: what its score is under each format and of each model.

A group whose score is the mean over all items of its tasks is one large task. Others, which count every
task alike whatever its size, are compared task by task.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lm_eval.lab.stored.measurement import Measurement
from lm_eval.lab.stored.run import PLAIN

Scalar = TypeVar("Scalar", bound=np.generic)


def groups_in(results: Mapping[str, Any], found: Sequence[Measurement]) -> Iterator[Measurement]:
    """Each group of a run that has a score, if the measurements include all of its tasks."""
    by_name = {one.name: one for one in found}
    for name, scores in results.get("groups", {}).items():
        leaves = tasks_below(results, name)
        members = [by_name[leaf] for leaf in leaves if leaf in by_name]
        tasks = {one.task for one in members}  # a task that is there twice asks its items twice
        if len(tasks) == len(leaves) > 1 and _is_mean_of_items(scores, members):
            yield _joined(name, members)


def comparable(groups: Sequence[Measurement]) -> list[Measurement]:
    """Those of groups that were asked under several formats, or of several models."""
    by_model = Counter((one.task, one.model) for one in groups)
    by_format = Counter((one.task, one.format) for one in groups)
    return [
        one
        for one in groups
        if by_model[one.task, one.model] > 1 or by_format[one.task, one.format] > 1
    ]


def tasks_below(results: Mapping[str, Any], group: str) -> list[str]:
    """The results of tasks in a group, and in the groups in it."""
    below = results.get("group_subtasks", {})
    names = [group]
    for name in names:  # which grows on the way
        names += [member for member in below.get(name, ()) if member not in names]
    return [name for name in names if not below.get(name)]


def _is_mean_of_items(scores: Mapping[str, Any], members: Sequence[Measurement]) -> bool:
    """Whether the group's own score in the metric of all its tasks is the mean over their items."""
    metric = members[0].metric
    if any(one.metric != metric for one in members):
        return False
    total = math.fsum(float(one.scores.sum()) for one in members)
    mean = total / sum(len(one.items) for one in members)
    own = [value for key, value in scores.items() if key.partition(",")[0] == metric]
    return any(isinstance(v, float | int) and math.isclose(v, mean, abs_tol=1e-9) for v in own)


def _joined(name: str, members: Sequence[Measurement]) -> Measurement:
    first = members[0]
    task, _, format_name = name.partition("@")
    shots = {one.num_fewshot for one in members}
    return Measurement(
        run=first.run,
        model=first.model,
        task=task,
        format=format_name or PLAIN,
        name=name,
        metric=first.metric,
        higher_is_better=first.higher_is_better,
        items=_chained(members, lambda one: [f"{one.task}/{item}" for item in one.items]),
        scores=np.concatenate([one.scores for one in members]),
        is_read=_where_any(members, [one.is_read for one in members], np.bool_),
        shares_read=_where_any(members, [one.shares_read for one in members], np.float64),
        clusters=_clusters(members),
        shots=_chained(members, lambda one: one.shots or [""] * len(one.items)),
        num_fewshot=shots.pop() if len(shots) == 1 else None,
        missing=sum(one.missing for one in members),
        usage=_summed([one.usage or {} for one in members]),
        members=tuple(one.task for one in members),
    )


def _chained(
    members: Sequence[Measurement], values: Callable[[Measurement], Sequence[str]]
) -> tuple[str, ...]:
    return tuple(value for one in members for value in values(one))


def _where_any(
    members: Sequence[Measurement], known: Sequence[NDArray[Scalar] | None], kind: type[Scalar]
) -> NDArray[Scalar] | None:
    """What is known of the answers read, with all of them where a task reads none from text."""
    if all(values is None for values in known):
        return None
    filled: list[NDArray[Scalar]] = [
        np.ones(len(one.items), dtype=kind) if values is None else values
        for one, values in zip(members, known, strict=True)
    ]
    joined: NDArray[Scalar] = np.concatenate(filled)
    return joined


def _clusters(members: Sequence[Measurement]) -> tuple[str, ...] | None:
    """Clusters of different tasks are different ones; an item without any is one by itself."""
    if all(one.clusters is None for one in members):
        return None
    return _chained(
        members, lambda one: [f"{one.task}/{unit}" for unit in one.clusters or one.items]
    )


def _summed(parts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0) for part in parts) for name in names}
