"""The whole pipeline on one page: tasks → requests → answers → scores.

Everything that can be wrong with tasks, formats and docs is found before the model is asked anything.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lm_eval.answers.ask import AnswerCache, ask_all
from lm_eval.errors import ConfigError, LmEvalWarning, did_you_mean, listing
from lm_eval.formats.assemble import Chat, Context
from lm_eval.models.base import LM
from lm_eval.orders.scoring import DEBIASED, OVER_ORDERS
from lm_eval.reports.samples import Show
from lm_eval.run.borders import warn_of_borders
from lm_eval.run.prepare import (
    Prepared,
    RunOptions,
    check_capable,
    metric_names,
    prepare,
    prepare_all,
)
from lm_eval.run.scorers import SampleSink, task_scorer
from lm_eval.scoring.results import GroupResult, TaskResult
from lm_eval.stats.estimates import Estimate, pooled_estimate
from lm_eval.tasks.groups import Group
from lm_eval.tasks.task import ConfigurableTask

__all__ = [
    "Prepared",
    "RunOptions",
    "adapt",
    "check_groups",
    "group_results",
    "metric_names",
    "prepare",
    "prepare_all",
    "run_all",
    "run_tasks",
]


COMPANIONS = {"acc": (DEBIASED.name, OVER_ORDERS.name)}
"""A metric that a group aggregates → those reported beside it where docs have several orders."""


def __getattr__(name: str) -> Any:
    """``simple_evaluate`` and ``evaluate`` under the address that scripts import them from."""
    if name in ("simple_evaluate", "evaluate"):
        from lm_eval import simple

        return getattr(simple, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def run_tasks(
    tasks: Sequence[ConfigurableTask],
    model: LM,
    options: RunOptions,
    *,
    on_sample: SampleSink | None = None,
) -> list[TaskResult]:
    """Scores of every task, in order. ``on_sample`` gets each doc's sample as it is scored."""
    prepared, options = adapt(prepare_all(tasks, options), model, options)
    return run_all(prepared, model, options, on_sample=on_sample)


def adapt(
    prepared: Sequence[Prepared], model: LM, options: RunOptions
) -> tuple[list[Prepared], RunOptions]:
    """Requests and options as this model can take them; a task it cannot answer is an error."""
    able = model.capabilities
    prompt = options.prompt
    if able.chat_only and not prompt.as_chat:
        warnings.warn(
            f"Model backend {type(model).__name__} takes chats only, so every prompt is sent as one, as "
            "with --apply_chat_template.",
            LmEvalWarning,
            stacklevel=2,
        )
        prompt = replace(prompt, as_chat=True)
    adapted = options if prompt is options.prompt else replace(options, prompt=prompt)
    for one in prepared:
        check_capable(one.task, model, adapted)
    if adapted is not options:
        prepared = prepare_all([one.task for one in prepared], adapted)
    if not prompt.as_chat or able.prefill:
        return list(prepared), adapted
    without = replace(adapted, prompt=replace(prompt, can_prefill=False))
    return [one.without_prefill() for one in prepared], without


def run_all(
    prepared: Sequence[Prepared],
    model: LM,
    options: RunOptions,
    *,
    on_sample: SampleSink | None = None,
    kept: AnswerCache | None = None,
) -> list[TaskResult]:
    """Ask the model about all tasks, and score them. A harness task has a result for each filter.

    ``on_sample`` gets the samples in the order in which docs are complete; ``kept`` is where answers
    are looked for before they are asked for, and stay.
    """
    warn_of_borders(prepared, model)
    show = shown_by(model)
    scorers = [task_scorer(one, options, show, on_sample) for one in prepared]
    usage = ask_all(
        prepared,
        scorers,
        model,
        kept=kept,
        max_failed=options.max_failed,
        shows_progress=options.shows_progress,
    )
    return [
        replace(result, usage=usage[one.task.name])
        for one, scorer in zip(prepared, scorers, strict=True)
        for result in scorer.results()
    ]


def shown_by(model: LM) -> Show:
    """How a context looks to the model: text, or messages where the server renders them."""

    def show(context: Context) -> Any:
        if isinstance(context, Chat) and not model.capabilities.chat_template:
            return context.as_dicts()
        return model.render(context)

    return show


def check_groups(groups: Sequence[Group]) -> None:
    """Refuse a group that wants the mean of a metric that none of its tasks has.

    Of ``group@*``, it is enough that they have it under one of the formats.
    """
    for group in groups:
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
    return [found for group in groups for found in _group_results(group, results)]


def _group_results(group: Group, results: Sequence[TaskResult]) -> list[GroupResult]:
    names = {task.name for task in group.tasks()}
    below = [result for result in results if result.name in names]
    filters = dict.fromkeys(result.filter for result in below) or {"none": None}
    found = [_group_result(group, below, filter_name) for filter_name in filters]
    return [one for one in found if one.metrics] or found[:1]


def _group_result(group: Group, below: Sequence[TaskResult], filter_name: str) -> GroupResult:
    members = [member.name for member in group.members]
    direct = [result for result in below if result.name in members]
    shots = {result.num_fewshot for result in direct}
    scores = _group_scores(group, below, filter_name)
    return GroupResult(
        name=group.name,
        alias=group.alias,
        members=members,
        primary=next(iter(scores), None),
        metrics=scores,
        higher_is_better=_common_directions(direct),
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
