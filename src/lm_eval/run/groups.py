"""Groups of a run: checked before the model is asked, and scored from the tasks below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lm_eval.errors import ConfigError, did_you_mean, listing
from lm_eval.orders.scoring import DEBIASED, OVER_ORDERS
from lm_eval.run.prepare import metric_names
from lm_eval.scoring.results import GroupResult, TaskResult
from lm_eval.stats.estimates import Estimate, pooled_estimate
from lm_eval.tasks.groups import Group

COMPANIONS = {"acc": (DEBIASED.name, OVER_ORDERS.name)}
"""A metric that a group aggregates → those reported beside it where docs have several orders."""


def check_groups(groups: Sequence[Group]) -> None:
    """Refuse a group that wants the mean of a metric that none of its tasks has.

    Of ``group@*``, it is enough that they have it under one of the formats.
    """
    for group in groups:
        if group.config.aggregate is not None:
            from lm_eval.run.suites import check_suite

            check_suite(group)
        same = [other for other in groups if other.config is group.config]
        known = [metric_names(task) for other in same for task in other.tasks()]
        if None in known:
            continue
        having = sorted({name for names in known for name in names or ()})
        for score in group.config.aggregate_metric_list:
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
    if group.config.aggregate is not None and not group.config.aggregate_metric_list:
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
        from lm_eval.run.suites import suite_scores

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
    for score in group.config.aggregate_metric_list:
        wanted = score.filter_list
        wanted = [wanted] if isinstance(wanted, str) else wanted
        if wanted is not None and filter_name not in wanted:
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
    """Metric → whether higher is better; None where tasks disagree."""
    directions: dict[str, bool | None] = {}
    for result in results:
        for metric, higher in result.higher_is_better.items():
            agreed = directions.setdefault(metric, higher)
            directions[metric] = agreed if agreed == higher else None
    return directions
