"""Groups of a run: checked before the model is asked, and scored from the tasks below them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lm_eval.errors import ConfigError, LmEvalWarning, did_you_mean, listing
from lm_eval.orders.scoring import DEBIASED, OVER_ORDERS
from lm_eval.run.prepare import metric_names
from lm_eval.scoring.results import GroupResult, TaskResult
from lm_eval.stats.estimates import Estimate, pooled_estimate, weighted_estimate
from lm_eval.tasks.groups import Group
from lm_eval.tasks.task import ConfigurableTask

COMPANIONS = {"acc": (DEBIASED.name, OVER_ORDERS.name)}
"""A metric that a group aggregates → those reported beside it if docs have several orders."""


def check_groups(groups: Sequence[Group]) -> None:
    """Refuse a group that wants the mean of a metric that none of its tasks has.

    Of ``group@*``, it is enough that they have it under one of the formats.
    """
    for group in groups:
        if group.config.aggregate is not None:
            check_suite(group)
        same = [other for other in groups if other.config is group.config]
        known = [metric_names(task) for other in same for task in other.tasks()]
        if None in known:
            continue
        having = sorted({name for names in known for name in names or ()})
        for score in group.config.scores:
            if score.metric not in having:
                raise ConfigError(
                    f"Group {group.name!r} aggregates {score.metric!r}, but none of its tasks has "
                    f"that metric.{did_you_mean(score.metric, having)} They have: {listing(having)}."
                )


def group_results(groups: Sequence[Group], results: Sequence[TaskResult]) -> list[GroupResult]:
    """The scores of groups, from the scores of the tasks below them: one for each filter."""
    return [scored for group in groups for scored in _group_results(group, results)]


def _group_results(group: Group, results: Sequence[TaskResult]) -> list[GroupResult]:
    names = {task.name for task in group.tasks()}
    below = [result for result in results if result.name in names]
    if group.config.aggregate is not None and not group.config.scores:
        return [_group_result(group, below, "none")]
    filters = dict.fromkeys(result.filter for result in below) or {"none": None}
    scored = [_group_result(group, below, filter_name) for filter_name in filters]
    return [result for result in scored if result.metrics] or scored[:1]


def _group_result(group: Group, below: Sequence[TaskResult], filter_name: str) -> GroupResult:
    members = [member.name for member in group.members]
    direct = [result for result in below if result.name in members]
    shots = {result.num_fewshot for result in direct}
    scores = _group_scores(group, below, filter_name)
    suite = None
    if group.config.aggregate is not None:
        suite = suite_scores(group, below)
    if suite is not None:
        scores = {**suite.metrics, **scores}
    return GroupResult(
        name=group.name,
        alias=group.alias,
        members=members,
        primary=next(iter(scores), None),
        metrics=scores,
        higher_is_better={
            **_common_directions(direct),
            **({} if suite is None else dict.fromkeys(suite.metrics, True)),
        },
        suite={} if suite is None else suite.facts,
        version=(group.config.metadata or {}).get("version"),
        filter=filter_name,
        num_docs=sum({result.name: result.num_docs for result in below}.values()),
        num_fewshot=shots.pop() if len(shots) == 1 else None,
    )


def _group_scores(
    group: Group, below: Sequence[TaskResult], filter_name: str
) -> dict[str, Estimate]:
    scores = {}
    for score in group.config.scores:
        if score.filter_list is not None and filter_name not in score.filter_list:
            continue
        for metric in (score.metric, *COMPANIONS.get(score.metric, ())):
            having = [r for r in below if r.filter == filter_name and metric in r.metrics]
            if having:
                scores[metric] = pooled_estimate(
                    [_weighed(result, metric) for result in having],
                    weight_by_size=bool(score.weight_by_size),
                )
    return scores


def _weighed(result: TaskResult, metric: str) -> Estimate:
    """A task's score as its group counts it: the harness weighs all metrics of a task alike."""
    estimate = result.metrics[metric]
    return replace(estimate, n=result.num_docs) if result.format is None else estimate


def _common_directions(results: Sequence[TaskResult]) -> dict[str, bool | None]:
    """Metric → whether higher is better; None if tasks disagree."""
    directions: dict[str, bool | None] = {}
    for result in results:
        for metric, higher in result.higher_is_better.items():
            agreed = directions.setdefault(metric, higher)
            directions[metric] = agreed if agreed == higher else None
    return directions


# Suites: one score for a group from the score of each of its members (``aggregate: primary``)
#
# In: the results of the tasks below a group, each with its own primary metric. Out: their mean, and with
# ``rescale`` the mean of what lies above chance: (score − chance) ÷ (1 − chance), not below 0. The
# interval treats data sets as independent, and results on one data set as fully dependent.


MEAN, ABOVE_CHANCE = "mean", "mean_above_chance"


@dataclass(frozen=True)
class SuiteMember:
    """A member's share in the score of a suite."""

    name: str
    metric: str
    estimate: Estimate
    """As the member reports it."""
    chance: float | None
    """What guessing scores; None if the score is not rescaled by it."""
    rescaled: Estimate
    """What is averaged: the estimate itself if nothing is rescaled."""
    source: str
    """The data that the docs are from, or the group."""

    def to_dict(self, weight: float) -> dict[str, Any]:
        """Ready for JSON."""
        shown = {
            "metric": self.metric,
            "score": self.estimate.value,
            "stderr": self.estimate.stderr,
            "n": self.estimate.n,
            "weight": weight,
        }
        if self.chance is not None:
            shown |= {"chance": self.chance, "above_chance": self.rescaled.value}
        return shown


@dataclass(frozen=True)
class SuiteScores:
    """The scores of a suite, and its members' parts in them."""

    metrics: dict[str, Estimate]
    facts: dict[str, Any]
    """For the results file."""


def check_suite(group: Group) -> None:
    """Refuse a ``rescale`` that names no member, and a baseline that is not one."""
    rescale = group.config.rescale
    if rescale == "chance":
        for task in group.tasks():
            _baseline(task)
    if not isinstance(rescale, Mapping):
        return
    known = [name for member in group.members for name in _names_of(member)]
    for name in rescale:
        if str(name) not in known:
            raise ConfigError(
                f"Group {group.name!r}: rescale names {str(name)!r}, which is not a member."
                f"{did_you_mean(str(name), known)} Members: {listing(dict.fromkeys(known))}."
            )


def suite_scores(group: Group, results: Sequence[TaskResult]) -> SuiteScores | None:
    """The scores of a group with ``aggregate: primary``; None, with a warning, if one is missing."""
    try:
        members = list(_members(group, results, group.config.rescale))
    except _NoScoreError as error:
        warnings.warn(
            f"Group {group.name!r} has no score: {error}.",
            LmEvalWarning,
            stacklevel=2,
        )
        return None
    sizes = [member.estimate.n for member in members]
    weights = sizes if group.config.weights == "micro" else [1] * len(members)
    shares = [weight / sum(weights) for weight in weights]
    sources = [member.source for member in members]
    plain = weighted_estimate([member.estimate for member in members], shares, sources)
    metrics = {MEAN: plain}
    if any(member.chance is not None for member in members):
        above = weighted_estimate([member.rescaled for member in members], shares, sources)
        metrics = {ABOVE_CHANCE: above, MEAN: plain}
    return SuiteScores(
        metrics,
        {
            "weights": group.config.weights or "mean",
            "rescale": group.config.rescale,
            "members": {
                member.name: member.to_dict(share)
                for member, share in zip(members, shares, strict=True)
            },
        },
    )


class _NoScoreError(Exception):
    """A member without a score that can be averaged."""


def _members(group: Group, results: Sequence[TaskResult], rescale: Any) -> Iterator[SuiteMember]:
    for member in group.members:
        if isinstance(member, Group):
            yield _group_member(member, results, rescale)
        else:
            yield _task_member(member, results, rescale)


def _task_member(
    task: ConfigurableTask, results: Sequence[TaskResult], rescale: Any
) -> SuiteMember:
    result = next((result for result in results if result.name == task.name), None)
    if result is None or result.primary not in result.metrics:
        raise _NoScoreError(f"{task.name!r} has none")
    if result.higher_is_better.get(result.primary) is False:
        raise _NoScoreError(
            f"{result.primary} of {task.name!r} is better when it is lower. Name another metric of that "
            "task with `primary_metric`"
        )
    chance = _chance(_names_of(task), rescale, lambda: _chance_of(task, result))
    estimate = result.metrics[result.primary]
    return SuiteMember(
        task.name, result.primary, estimate, chance, _rescaled(estimate, chance), _data_of(task)
    )


def _group_member(group: Group, results: Sequence[TaskResult], rescale: Any) -> SuiteMember:
    """A group within a suite: its own score or, if it has none, the mean of its members."""
    inner = group.config.rescale
    if inner is None and rescale == "chance":
        group = _rescaled_group(group)
    scores = suite_scores(group, results)
    if scores is None:
        raise _NoScoreError(f"{group.name!r} has none")
    metric, estimate = next(iter(scores.metrics.items()))
    chance = _chance(_names_of(group), rescale if isinstance(rescale, Mapping) else None, None)
    rescaled = _rescaled(estimate, chance)
    return SuiteMember(group.name, metric, estimate, chance, rescaled, group.name)


def _rescaled_group(group: Group) -> Group:
    config = replace(group.config, rescale="chance")
    return Group(config=config, members=group.members, format_name=group.format_name)


def _names_of(member: ConfigurableTask | Group) -> tuple[str, ...]:
    """What a member may be called in ``rescale``."""
    plain = member.config.group if isinstance(member, Group) else member.task_name
    return (member.name, plain, plain.rpartition("::")[2])


def _chance(names: Sequence[str], rescale: Any, known: Any) -> float | None:
    if rescale is None:
        return None
    if isinstance(rescale, Mapping):
        values = [float(rescale[name]) for name in names if name in rescale]
        return values[0] if values else None
    value: float = known()
    return value


def _chance_of(task: ConfigurableTask, result: TaskResult) -> float:
    """``metadata.baseline``, else the mean share of right choices; 0 for a task without choices."""
    baseline = _baseline(task)
    return result.chance or 0.0 if baseline is None else baseline


def _baseline(task: ConfigurableTask) -> float | None:
    baseline = (task.config.metadata or {}).get("baseline")
    is_number = isinstance(baseline, int | float) and not isinstance(baseline, bool)
    if baseline is None or (is_number and 0 <= baseline < 1):
        return None if baseline is None else float(baseline)
    raise ConfigError(
        f"Task {task.name!r}: metadata.baseline is {baseline!r}; what guessing scores is a number from "
        "0 to below 1, such as 0.25."
    )


def _data_of(task: ConfigurableTask) -> str:
    """What tells the data of one task from that of another, whatever the tasks are called."""
    config = task.config
    facts = (config.dataset_path, config.dataset_name, config.dataset_kwargs)
    return repr((*facts, config.test_split or config.validation_split))


def _rescaled(estimate: Estimate, chance: float | None) -> Estimate:
    if chance is None:
        return estimate
    stderr = None if estimate.stderr is None else estimate.stderr / (1 - chance)
    low, high = (
        None if end is None else max(0.0, (end - chance) / (1 - chance))
        for end in (estimate.low, estimate.high)
    )
    value = max(0.0, (estimate.value - chance) / (1 - chance))
    return Estimate(value, stderr, low, high, estimate.n, estimate.method)
