"""A run on one page: names → tasks → requests → answers → scores → results.

Read it from top to bottom. Each call is one step, and its home is the package it is imported from.
Everything that can be wrong with tasks, formats and docs is found before the model is asked anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from lm_eval.addresses.finder import attributes_of
from lm_eval.answers.ask import AnswerCache, ask_all
from lm_eval.config.arguments import plain_arguments
from lm_eval.models.base import LM
from lm_eval.models.loading import model_class, opened_model
from lm_eval.reports.writer import opened_writer
from lm_eval.run.plan import Outcome, Prepared, Run, RunOptions, seed_all, shares_of
from lm_eval.run.prepare import adapt, options_for, prepare_all
from lm_eval.run.results import (
    SampleSink,
    run_info,
    run_items,
    sample_sink,
    shown_by,
    task_scorer,
    warn_of_model,
    write_results,
)
from lm_eval.run.resume import hand_in_batches, keys_of, opened_store
from lm_eval.scoring.results import TaskResult
from lm_eval.support.progress import RunPace, SpeedNotes
from lm_eval.support.secrets import hiding, is_secret_name
from lm_eval.tasks.groups import Group
from lm_eval.tasks.loader import IncludePath, Selector, TaskManager
from lm_eval.tasks.task import ConfigurableTask

__all__ = ["RunOptions", "execute", "load_tasks", "run_all", "run_tasks", "task_manager"]


def task_manager(
    model_args: Mapping[str, Any],
    *,
    parity: bool = False,
    include_path: IncludePath = None,
    metadata: Mapping[str, Any] | None = None,
) -> TaskManager:
    """The loader of a run's tasks, which learn the model's arguments, without secrets."""
    known = {name: value for name, value in model_args.items() if not is_secret_name(name)}
    return TaskManager(
        include_path, parity=parity, metadata={**plain_arguments(known), **(metadata or {})}
    )


def load_tasks(
    names: Sequence[Selector], manager: TaskManager
) -> tuple[list[ConfigurableTask], list[Group]]:
    """Names → tasks and groups: their files are found and read, and each task gets its format."""
    loaded = manager.load(names)
    return list(loaded["tasks"].values()), list(loaded["groups"].values())


def execute(
    run: Run,
    tasks: Sequence[ConfigurableTask],
    groups: Sequence[Group] = (),
    *,
    on_sample: SampleSink | None = None,
    on_prepared: Callable[[Sequence[Prepared]], None] | None = None,
    opened: Callable[[], LM] | None = None,
) -> Outcome:
    """Tasks → results: the scores, and where their files are.

    ``on_prepared`` gets the requests before they are sent, ``on_sample`` each sample as it is scored.
    Several runs can share a model: ``opened`` returns it, and it stays open.
    """
    started = time.time()
    run = run.with_chat_default(tasks)
    groups = [] if run.options.predict_only else groups
    model_args = run.backend_arguments()
    seed_all(run.seeds)
    with hiding(model_args, *run.argument_holders(tasks)), ExitStack() as stack:
        # Tasks → requests: whatever is wrong with tasks and docs is an error here. A model that costs
        # nothing to make says beforehand how it is asked, so that requests are built once.
        model, options, keys = None, run.options, None
        if opened is None and (isinstance(run.model, LM) or model_class(run.model).is_light):
            model = stack.enter_context(opened_model(run.model, model_args))
            options = options_for(model, options)
            keys = keys_of(run, model, model_args) if run.keeps_answers_of(model) else None
        prepared = prepare_all(tasks, options, keys)
        if groups:
            from lm_eval.run.groups import check_groups, group_results

            check_groups(groups)
        # The files of results, the model, and the answers that an interrupted run has left.
        writer = store = None
        if run.output_path is not None:
            writer = stack.enter_context(opened_writer(run.output_path, run.model_name))
        if model is None:
            model = stack.enter_context(opened_model(opened() if opened else run.model, model_args))
        prepared, options = adapt(prepared, model, run.options)
        if on_prepared is not None:
            on_prepared(prepared)
        if run.keeps_answers_of(model):
            store = opened_store(run, prepared, options, model, model_args, writer)
            stack.enter_context(store)
        if run.batch_api is not None:
            hand_in_batches(run.batch_api, prepared, model, store)
        # Requests → answers → scores, doc by doc.
        items = run_items(tasks, writer)
        results = run_all(
            prepared,
            model,
            options,
            on_sample=sample_sink(items, writer, on_sample),
            kept=None if store is None else store.kept,
            speeds=run.speed_notes(model_args),
        )
        info = run_info(run, options, model_args, model, started)
        warn_of_model(run, model)
        # Scores → results.
        grouped = group_results(groups, results) if groups else []
        outcome = Outcome(results, grouped, info, items=items)
        write_results(outcome, store, writer)
        return outcome


def run_all(
    prepared: Sequence[Prepared],
    model: LM,
    options: RunOptions,
    *,
    on_sample: SampleSink | None = None,
    kept: AnswerCache | None = None,
    speeds: SpeedNotes | None = None,
) -> list[TaskResult]:
    """Requests → answers → scores. A task of the harness has a result for each of its filters.

    ``on_sample`` gets the samples in the order in which docs are complete. Answers are looked up in
    ``kept`` before the model is asked, and stored there.
    """
    if any(task.scores_choices for task in prepared):
        from lm_eval.run.borders import warn_of_borders

        warn_of_borders(prepared, model)
    show = shown_by(model)
    scorers = [task_scorer(task, options, show, on_sample, kept) for task in prepared]
    pace = RunPace(shares_of(prepared, model), speeds.known() if speeds else None)
    usage = ask_all(
        prepared,
        scorers,
        model,
        kept=kept,
        max_failed=options.max_failed,
        shows_progress=options.shows_progress,
        pace=pace,
    )
    if speeds is not None:
        speeds.note(pace.speeds())
    return [
        replace(result, usage=usage[task.task.name])
        for task, scorer in zip(prepared, scorers, strict=True)
        for result in scorer.results()
    ]


def run_tasks(
    tasks: Sequence[ConfigurableTask],
    model: LM,
    options: RunOptions,
    *,
    on_sample: SampleSink | None = None,
) -> list[TaskResult]:
    """The results of loaded tasks, in order, with a model at hand and no files.

    ``on_sample`` gets each doc's sample as it is scored.
    """
    prepared, options = adapt(prepare_all(tasks, options), model, options)
    return run_all(prepared, model, options, on_sample=on_sample)


__getattr__ = attributes_of(__name__)  # simple_evaluate and evaluate, for scripts
