"""The whole pipeline on one page: tasks → requests → answers → scores.

Everything that can be wrong with tasks, formats and docs is found before the model is asked anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lm_eval.errors import DataError, FormatError, ModelError, UsageError, listing
from lm_eval.formats.assemble import Chat
from lm_eval.models.base import LM
from lm_eval.reports.progress import Progress
from lm_eval.requests import (
    Answer,
    DocRequests,
    PromptOptions,
    Request,
    build_requests,
    shot_count,
)
from lm_eval.scoring.results import GroupResult, TaskResult
from lm_eval.scoring.score import ScoredDoc, sample_of, score_doc, summarise, task_metrics
from lm_eval.stats.intervals import pooled_estimate
from lm_eval.tasks.groups import Group, GroupScore
from lm_eval.tasks.task import ConfigurableTask

SampleSink = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class RunOptions:
    """What a run asks of every task in it."""

    prompt: PromptOptions = field(default_factory=PromptOptions)
    limit: float | None = None
    """How many docs of each task; below 1, a share."""
    samples: Mapping[str, Sequence[int]] | None = None
    """Task name → the docs to ask, instead of ``limit``."""
    fewshot_seed: int = 1234
    predict_only: bool = False
    shows_progress: bool = True


@dataclass
class Prepared:
    """A task whose requests are built."""

    task: ConfigurableTask
    docs: list[DocRequests]
    num_fewshot: int


def evaluate(
    tasks: Sequence[ConfigurableTask],
    model: LM,
    options: RunOptions,
    *,
    on_sample: SampleSink | None = None,
) -> list[TaskResult]:
    """Scores of every task, in order. ``on_sample`` gets each doc's sample as it is scored."""
    prepared = [prepare(task, model, options) for task in tasks]
    return [run_task(one, model, options, on_sample=on_sample) for one in prepared]


def prepare(task: ConfigurableTask, model: LM | None, options: RunOptions) -> Prepared:
    """Build all requests of a task, and with them find everything that is wrong with it."""
    task.set_fewshot_seed(options.fewshot_seed)
    if model is not None:
        check_capable(task, model, options)
    if not options.predict_only:
        task_metrics(task)
    task.check_fitness()
    docs = list(build_requests(task, doc_ids(task, options), options.prompt))
    return Prepared(task, docs, shot_count(task, options.prompt))


def run_task(
    prepared: Prepared,
    model: LM,
    options: RunOptions,
    *,
    on_sample: SampleSink | None = None,
) -> TaskResult:
    """Ask the model everything a task wants to know, and score it."""
    task = prepared.task
    metrics = [] if options.predict_only else task_metrics(task)
    answers = ask(prepared, model, shows_progress=options.shows_progress)
    is_prefilled = not options.prompt.as_chat or options.prompt.can_prefill
    scored: list[ScoredDoc] = []
    for doc, given in zip(prepared.docs, answers, strict=True):
        one = score_doc(task, doc, given, metrics, is_prefilled=is_prefilled)
        scored.append(one)
        if on_sample is not None:
            on_sample(task.name, sample_of(task, one, shown_prompt(doc, model)))
    notes = []
    if task.format and task.format.gen_prefix is not None and not is_prefilled:
        notes.append("asked without gen_prefix: the model cannot continue a started answer")
    return summarise(task, scored, metrics, num_fewshot=prepared.num_fewshot, notes=notes)


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
    total = len(task.eval_docs)
    chosen = (options.samples or {}).get(task.name, (options.samples or {}).get(task.task_name))
    if options.samples is not None:
        wanted = sorted(set(chosen or ()))
        outside = [index for index in wanted if not 0 <= index < total]
        if outside:
            raise DataError(
                f"Task {task.name!r}: --samples names doc {listing(map(str, outside))}, but its "
                f"docs are numbered 0 to {total - 1}."
            )
        return wanted
    if options.limit is None:
        return range(total)
    if not options.limit > 0:
        raise UsageError(
            f"--limit {options.limit:g} asks for no docs. Give a number from 1 up, or a share "
            "between 0 and 1."
        )
    count = math.ceil(total * options.limit) if options.limit < 1 else int(options.limit)
    return range(min(count, total))


def check_capable(task: ConfigurableTask, model: LM, options: RunOptions) -> None:
    """Refuse a task that needs more than the backend can do, before anything is sent."""
    able = model.capabilities
    name = type(model).__name__
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
    if task.output_type.startswith("loglikelihood"):
        raise FormatError(
            f"Task {task.name!r} has output_type {task.output_type!r}, which this version does not "
            "score yet. multiple_choice and generate_until are."
        )


def shown_prompt(doc: DocRequests, model: LM) -> Any:
    """The prompt exactly as the model saw it: text, or messages where the server renders them."""
    if isinstance(doc.context, Chat) and not model.capabilities.chat_template:
        return doc.context.as_dicts()
    return model.render(doc.context)


def group_results(groups: Sequence[Group], results: Sequence[TaskResult]) -> list[GroupResult]:
    """The scores of groups, from the scores of the tasks below them."""
    by_name = {result.name: result for result in results}
    return [_group_result(group, by_name) for group in groups]


def _group_result(group: Group, by_name: Mapping[str, TaskResult]) -> GroupResult:
    below = [by_name[task.name] for task in group.tasks() if task.name in by_name]
    scores = {}
    for score in group.config.aggregate_metric_list:
        scores[score.metric] = _group_score(group, score, below)
    return GroupResult(
        name=group.name,
        alias=group.alias,
        members=[member.name for member in group.members],
        primary=next(iter(scores), None),
        metrics=scores,
        higher_is_better=dict.fromkeys(scores, True),
        version=(group.config.metadata or {}).get("version"),
    )


def _group_score(group: Group, score: GroupScore, below: Sequence[TaskResult]) -> Any:
    having = [result.metrics[score.metric] for result in below if score.metric in result.metrics]
    if not having:
        raise UsageError(
            f"Group {group.name!r} aggregates {score.metric!r}, but none of its tasks has that "
            f"metric. They have: {listing(sorted({m for r in below for m in r.metrics}))}."
        )
    return pooled_estimate(having, weight_by_size=bool(score.weight_by_size))
