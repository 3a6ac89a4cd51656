"""The whole pipeline on one page: tasks → requests → answers → scores.

Everything that can be wrong with tasks, formats and docs is found before the model is asked anything.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lm_eval.errors import (
    ConfigError,
    FormatError,
    HelperError,
    LmEvalWarning,
    ModelError,
    UsageError,
    did_you_mean,
    listing,
)
from lm_eval.formats.assemble import Chat, Context
from lm_eval.models.base import LM
from lm_eval.reports.progress import Progress
from lm_eval.reports.samples import Show, format_sample, harness_sample
from lm_eval.requests import (
    Answer,
    DocRequests,
    PromptOptions,
    Request,
    build_requests,
    choose_docs,
    shot_count,
)
from lm_eval.scoring.harness_task import HarnessScorer
from lm_eval.scoring.results import GroupResult, TaskResult
from lm_eval.scoring.score import ScoredDoc, score_doc, summarise, task_metrics
from lm_eval.stats.intervals import Estimate, pooled_estimate
from lm_eval.tasks.groups import Group
from lm_eval.tasks.task import ConfigurableTask
from lm_eval.token_borders import warn_of_borders

SampleSink = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class RunOptions:
    """What a run asks of every task in it."""

    prompt: PromptOptions = field(default_factory=PromptOptions)
    limit: float | None = None
    """How many docs of each task; below 1, a share."""
    samples: Mapping[str, Sequence[int]] | None = None
    """Task name → the docs to ask, instead of ``limit``; all docs of a task that is not named."""
    fewshot_seed: int | None = 1234
    """None: the one that each task has."""
    predict_only: bool = False
    runs_unsafe_code: bool = False
    """Whether tasks may run that execute what the model writes."""
    bootstrap_iters: int = 100_000
    """Resamples for the standard errors of harness metrics that have no formula."""
    shows_progress: bool = True


@dataclass
class Prepared:
    """A task whose requests are built."""

    task: ConfigurableTask
    docs: list[DocRequests]
    num_fewshot: int
    notes: list[str] = field(default_factory=list)
    """What a reader of the results should know about how it was asked."""


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


def prepare_all(tasks: Sequence[ConfigurableTask], options: RunOptions) -> list[Prepared]:
    """The requests of every task. Needs no model: what is wrong with a task is found here."""
    check_samples(tasks, options)
    check_unsafe(tasks, options)
    try:
        return [prepare(task, options) for task in tasks]
    except HelperError as error:
        raise _with_affected_tasks(error, tasks) from error.__cause__


def prepare(task: ConfigurableTask, options: RunOptions) -> Prepared:
    """Build all requests of a task, and with them find everything that is wrong with it."""
    seed = options.fewshot_seed
    task.set_fewshot_seed(task.seed if seed is None else seed)
    if not options.predict_only:
        metric_names(task)
        for _, function in task.config.functions():
            if function.allowed:  # what scores answers is imported before they are asked for
                function.resolve()
    docs = list(build_requests(task, doc_ids(task, options), options.prompt))
    if task.format is None and not options.predict_only:
        HarnessScorer(task).check_gold(docs)
    task.check_fitness([doc.doc_id for doc in docs])  # after the docs: errors in them name them
    return Prepared(task, docs, shot_count(task, options.prompt))


def _with_affected_tasks(error: HelperError, tasks: Sequence[ConfigurableTask]) -> HelperError:
    """The error, with the tasks that need the same helper file."""
    affected = [
        task.name
        for task in tasks
        if any(f.file and str(f.file.resolve()) == error.path for _, f in task.config.functions())
    ]
    if not affected:
        return error
    whole = copy.copy(error)
    whole.args = (
        f"{error} Tasks of this run that need it: {listing(affected)}. Leave them out of --tasks to "
        "run the others.",
    )
    return whole


def adapt(
    prepared: Sequence[Prepared], model: LM, options: RunOptions
) -> tuple[list[Prepared], RunOptions]:
    """Requests and options as this model can take them; a task it cannot answer is an error."""
    for one in prepared:
        check_capable(one.task, model, options)
    if model.capabilities.prefill or not options.prompt.as_chat:
        return list(prepared), options
    options = replace(options, prompt=replace(options.prompt, can_prefill=False))
    return [prepare(one.task, options) for one in prepared], options


def run_all(
    prepared: Sequence[Prepared],
    model: LM,
    options: RunOptions,
    *,
    on_sample: SampleSink | None = None,
) -> list[TaskResult]:
    """Ask the model about one task after the other. A harness task has a result for each filter."""
    warn_of_borders(prepared, model)
    results: list[TaskResult] = []
    for one in prepared:
        results += run_task(one, model, options, on_sample=on_sample)
    return results


def run_task(
    prepared: Prepared,
    model: LM,
    options: RunOptions,
    *,
    on_sample: SampleSink | None = None,
) -> list[TaskResult]:
    """Ask the model everything a task wants to know, and score it."""
    answers = ask(prepared, model, shows_progress=options.shows_progress)
    if prepared.task.format is None:
        return score_harness_task(prepared, answers, model, options, on_sample=on_sample)
    return [score_format_task(prepared, answers, model, options, on_sample=on_sample)]


def score_harness_task(
    prepared: Prepared,
    answers: Sequence[Sequence[Answer]],
    model: LM,
    options: RunOptions,
    *,
    on_sample: SampleSink | None = None,
) -> list[TaskResult]:
    """The scores of a task without a format: one result for each of its filters."""
    task = prepared.task
    scorer = HarnessScorer(task, only_predicts=options.predict_only)
    results = []
    for filtered in scorer.score(prepared.docs, answers):
        if on_sample is not None:
            for doc in filtered:
                on_sample(task.name, harness_sample(task, doc, shown_by(model)))
        results.append(
            scorer.summarise(
                filtered,
                num_fewshot=prepared.num_fewshot,
                bootstrap_iters=options.bootstrap_iters,
                notes=prepared.notes,
            )
        )
    return results


def score_format_task(
    prepared: Prepared,
    answers: Sequence[Sequence[Answer]],
    model: LM,
    options: RunOptions,
    *,
    on_sample: SampleSink | None = None,
) -> TaskResult:
    """The score of a task under a format."""
    task = prepared.task
    metrics = [] if options.predict_only else task_metrics(task)
    is_prefilled = not options.prompt.as_chat or options.prompt.can_prefill
    scored: list[ScoredDoc] = []
    for doc, given in zip(prepared.docs, answers, strict=True):
        one = score_doc(task, doc, given, metrics, is_prefilled=is_prefilled)
        scored.append(one)
        if on_sample is not None:
            on_sample(task.name, format_sample(task, one, shown_by(model)))
    notes = list(prepared.notes)
    if task.format and task.format.gen_prefix is not None and not is_prefilled:
        notes.append("asked without gen_prefix: the model cannot continue a started answer")
    return summarise(
        task,
        scored,
        metrics,
        num_fewshot=prepared.num_fewshot,
        is_prefilled=is_prefilled,
        notes=notes,
    )


def ask(prepared: Prepared, model: LM, *, shows_progress: bool) -> list[list[Answer]]:
    """The model's answers, one list for each doc."""
    requests: list[Request] = []
    owner: list[tuple[int, int]] = []
    for place, doc in enumerate(prepared.docs):
        for index, request in enumerate(doc.requests):
            requests.append(request)
            owner.append((place, index))
    answers: list[list[Any]] = [[None] * len(doc.requests) for doc in prepared.docs]
    answered = 0
    with Progress(prepared.task.name, len(requests), enabled=shows_progress) as progress:
        for at, answer in model.stream(requests):
            place, index = owner[at]
            answers[place][index] = answer
            answered += 1
            progress.advance()
    if answered != len(requests):
        raise ModelError(
            f"Model backend {type(model).__name__} gave {answered} answers to {len(requests)} "
            f"requests of task {prepared.task.name!r}."
        )
    return answers


def doc_ids(task: ConfigurableTask, options: RunOptions) -> Sequence[int]:
    """Which docs of a task are asked, by their place in the data."""
    named = _samples_of(task, options.samples or {})
    return choose_docs(task, limit=options.limit, samples=named)


def check_samples(tasks: Sequence[ConfigurableTask], options: RunOptions) -> None:
    """Refuse ``samples`` that name a task that is not run; say which tasks they leave whole."""
    if options.samples is None:
        return
    if not options.samples:
        raise UsageError(
            "--samples names no docs of any task. Write them as '{\"my_task\": [0, 3]}', or leave "
            "--samples out to ask all docs."
        )
    names = [*{name: None for task in tasks for name in (task.name, task.task_name)}]
    for name, places in options.samples.items():
        if any(isinstance(one, bool) or not isinstance(one, int) for one in places):
            raise UsageError(
                f"--samples: task {name!r} needs a list of doc numbers such as [0, 3], not {places!r}."
            )
        if name not in names:
            raise UsageError(
                f"--samples names task {name!r}, which is not among the tasks of this run."
                f"{did_you_mean(name, names)} Tasks: {listing(names)}."
            )
    whole = [task.name for task in tasks if _samples_of(task, options.samples) is None]
    if whole:
        warnings.warn(
            f"--samples does not name {listing(whole)}, so all docs there are asked. Add their docs "
            "to --samples to ask fewer.",
            LmEvalWarning,
            stacklevel=3,
        )


def check_unsafe(tasks: Sequence[ConfigurableTask], options: RunOptions) -> None:
    """Refuse tasks that execute what the model writes, unless that was confirmed."""
    unsafe = [task.name for task in tasks if task.config.unsafe_code]
    if unsafe and not options.runs_unsafe_code and not options.predict_only:
        raise UsageError(
            f"These tasks execute code that the model writes (unsafe_code): {listing(unsafe)}. Run "
            "them where that can do no harm, and add --confirm_run_unsafe_code; or save the answers "
            "alone with --predict_only."
        )


def _samples_of(
    task: ConfigurableTask, samples: Mapping[str, Sequence[int]]
) -> Sequence[int] | None:
    """The docs of a task that ``samples`` names; None where it does not name the task."""
    return samples.get(task.name, samples.get(task.task_name))


def metric_names(task: ConfigurableTask) -> list[str] | None:
    """The metrics of a task, checked; None where its own code names them as it scores."""
    if task.format is not None:
        return [metric.name for metric in task_metrics(task)]
    scorer = HarnessScorer(task)
    return None if task.own_process_results else list(scorer.metrics.names)


def check_capable(task: ConfigurableTask, model: LM, options: RunOptions) -> None:
    """Refuse a task that needs more than the backend can do, before anything is sent."""
    able = model.capabilities
    name = type(model).__name__
    if task.has_media and not (able.media or getattr(model, "MULTIMODAL", False)):
        raise ModelError(
            f"Task {task.name!r} asks about images or audio, which model backend {name} cannot take. "
            "Use a model whose `capabilities` say `media=True`."
        )
    if options.prompt.as_chat and not able.chat_template:
        raise ModelError(
            f"Model backend {name} has no chat template. Run without --apply_chat_template, or use "
            "a model that has one."
        )
    if task.output_type != "generate_until" and not able.loglikelihood:
        raise FormatError(
            f"Task {task.name!r} scores log-likelihoods, which model backend {name} cannot. Ask it "
            f"as generated text instead: {task.task_name}@generate."
        )
    if task.output_type == "generate_until" and not able.generation:
        raise FormatError(
            f"Task {task.name!r} generates text, which model backend {name} cannot. Ask it by "
            f"log-likelihood instead: {task.task_name}@mcqa."
        )


def shown_by(model: LM) -> Show:
    """How a context looks to the model: text, or messages where the server renders them."""

    def show(context: Context) -> Any:
        if isinstance(context, Chat) and not model.capabilities.chat_template:
            return context.as_dicts()
        return model.render(context)

    return show


def check_groups(groups: Sequence[Group]) -> None:
    """Refuse a group that wants the mean of a metric that none of its tasks has."""
    for group in groups:
        known = [metric_names(task) for task in group.tasks()]
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
        having = [
            result
            for result in below
            if result.filter == filter_name and score.metric in result.metrics
        ]
        if having and (wanted is None or filter_name in wanted):
            scores[score.metric] = pooled_estimate(
                [_weighed(result, score.metric) for result in having],
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
