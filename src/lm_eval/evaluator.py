"""A run on one page: names → tasks → requests → answers → scores → results.

Read it from top to bottom. Each call is one step, and its home is the package it is imported from.
Everything that can be wrong with tasks, formats and docs is found before the model is asked anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from lm_eval.addresses.finder import attributes_of
from lm_eval.answers.ask import AnswerCache, ask_all
from lm_eval.errors import LmEvalError
from lm_eval.models.base import LM
from lm_eval.models.loading import model_class, opened_model, plain_arguments
from lm_eval.reports.writer import opened_writer
from lm_eval.run.plan import (
    Outcome,
    Prepared,
    Run,
    RunOptions,
    argument_holders,
    backend_arguments,
    seed_all,
    shares_of,
    speed_notes,
    with_chat_default,
)
from lm_eval.run.prepare import adapt, fitted, prepare_all
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
from lm_eval.tasks.groups import Group
from lm_eval.tasks.loader import IncludePath, Selector, TaskManager
from lm_eval.tasks.task import ConfigurableTask
from lm_eval.text.progress import RunPace, SpeedNotes
from lm_eval.text.secrets import hiding, is_secret_name

__all__ = ["RunOptions", "execute", "load_tasks", "run_all", "run_tasks", "task_manager"]


def task_manager(
    model_args: Mapping[str, Any],
    *,
    parity: bool = False,
    include_path: IncludePath = None,
    metadata: Mapping[str, Any] | None = None,
) -> TaskManager:
    """What loads the tasks of a run: they learn the model's arguments, without secrets."""
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
    """Tasks → results: what was scored, and where its files are.

    ``on_sample`` gets each sample as it is scored, ``on_prepared`` the requests before they are sent.
    ``opened`` gives the run's model, which then stays open, where several runs share one.
    """
    started = time.time()
    run = with_chat_default(run, tasks)
    groups = [] if run.options.predict_only else groups
    model_args = backend_arguments(run)
    seed_all(run.seeds)
    with hiding(model_args, *argument_holders(run, tasks)), ExitStack() as stack:
        prepared = _prepared(run, tasks, model_args, opened)  # tasks → requests
        if groups:
            from lm_eval.run.groups import check_groups, group_results

            check_groups(groups)
        writer = None
        if run.output_path is not None:
            writer = stack.enter_context(opened_writer(run.output_path, run.model_name))
        with opened_model(opened() if opened else run.model, model_args) as model:
            prepared, options = adapt(prepared, model, run.options)
            if on_prepared is not None:
                on_prepared(prepared)
            store = stack.enter_context(
                opened_store(run, prepared, options, model, model_args, writer)
            )
            hand_in_batches(run, prepared, model, store)
            items = run_items(tasks, writer)
            sink = sample_sink(items, writer, on_sample)
            speeds = speed_notes(run, model_args)
            results = run_all(
                prepared, model, options, on_sample=sink, kept=store.kept, speeds=speeds
            )
            info = run_info(run, options, model_args, model, started)
            warn_of_model(run, model)
        scored = group_results(groups, results) if groups else []
        outcome = Outcome(results, scored, info, items=items)
        write_results(outcome, store, writer)
        return outcome


def _prepared(
    run: Run,
    tasks: Sequence[ConfigurableTask],
    model_args: Mapping[str, Any],
    opened: Callable[[], LM] | None,
) -> list[Prepared]:
    """Tasks → requests. A model that costs nothing to make says before how it is asked."""
    options, keys = run.options, None
    if isinstance(run.model, LM) or model_class(run.model).is_light:
        with suppress(LmEvalError), opened_model(run.model, model_args) as model:  # told below
            options = fitted(run.options, model)
            keys = None if opened else keys_of(run, model, model_args)
    return prepare_all(tasks, options, keys)


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

    ``on_sample`` gets the samples in the order in which docs are complete; ``kept`` is where answers
    are looked up before the model is asked, and stored.
    """
    if any(task.scores_choices for task in prepared):
        from lm_eval.run.borders import warn_of_borders

        warn_of_borders(prepared, model)
    show = shown_by(model)
    scorers = [task_scorer(task, options, show, on_sample) for task in prepared]
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
