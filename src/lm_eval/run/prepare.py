"""Tasks → requests, before a model is asked anything: what is wrong with tasks and docs is found here.

In: tasks and ``RunOptions``. Out: a ``Prepared`` for each task, from which its requests are read. The
requests of small tasks are built once and held; those of large ones are checked, dropped and built
again while they are asked, so that memory does not grow with the number of docs. ``adapt`` then fits
requests to the model at hand, and refuses a task that it cannot answer. If the model costs nothing to
make, ``options_for`` tells beforehand how it is asked, so that requests need not be built again.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lm_eval.config.fields import shorten
from lm_eval.errors import (
    FormatError,
    HelperError,
    LmEvalError,
    LmEvalWarning,
    MissingExtraError,
    ModelError,
    UsageError,
    did_you_mean,
    listing,
)
from lm_eval.formats.compile import general_names, get_format
from lm_eval.formats.enforced import split_suffix
from lm_eval.formats.grammar import Grammar
from lm_eval.models.base import LM
from lm_eval.registry import backend_name
from lm_eval.requests import DocRequests, choose_docs, shot_count
from lm_eval.requests.options import SkippedDocs
from lm_eval.run.plan import Prepared, RunOptions, build_docs
from lm_eval.scoring.score import task_metrics
from lm_eval.stats.numeric import LAB_PACKAGES, require
from lm_eval.tasks.format_fit import CHECKED_DOCS, lacks_rationale
from lm_eval.tasks.task import ConfigurableTask

if TYPE_CHECKING:
    from lm_eval.answers.keys import RequestKeys

HELD_DOCS = 16_384
"""How many docs of a run are held with their requests; those of further tasks are built twice.

Built twice and not stored: writing requests down and reading them back takes more than twice as long as
building them.
"""


def prepare_all(
    tasks: Sequence[ConfigurableTask], options: RunOptions, keys: RequestKeys | None = None
) -> list[Prepared]:
    """The requests of every task. Needs no model: what is wrong with a task is found here.

    ``keys`` makes the requests' keys in the store of answers, if the model is known.
    """
    check_samples(tasks, options)
    check_unsafe(tasks, options)
    if options.repeats is not None:
        _set_repeats(tasks, options.repeats)
    prepared: list[Prepared] = []
    try:
        for task in tasks:
            if not options.predict_only:
                load_metrics(task)
            held = sum(len(done.docs) for done in prepared)
            prepared.append(prepare(task, options, held_docs=HELD_DOCS - held, keys=keys))
    except HelperError as error:
        raise _with_affected_tasks(error, tasks) from error.__cause__
    if options.prompt.gen_kwargs and not any("generate_until" in task.counts for task in prepared):
        warnings.warn(
            "No task of this run generates text, so --gen_kwargs has no effect.",
            LmEvalWarning,
            stacklevel=2,
        )
    return prepared


def prepare(
    task: ConfigurableTask,
    options: RunOptions,
    *,
    held_docs: int = HELD_DOCS,
    keys: RequestKeys | None = None,
) -> Prepared:
    """Build all requests of a task, and with them find everything that is wrong with it."""
    seed = task.seed if options.fewshot_seed is None else options.fewshot_seed
    task.set_fewshot_seed(seed)
    task.shows_redacted = options.show_redacted
    if not options.predict_only:
        metric_names(task)
        for _, function in task.config.functions():
            if function.allowed:  # what scores answers is imported before they are asked for
                function.resolve()
    if task.config.cluster is not None and not options.predict_only:
        require(*LAB_PACKAGES)  # a missing package is reported before anything is asked
    chosen = doc_ids(task, options)
    scorer = task.harness_scorer if task.format is None and not options.predict_only else None
    is_held = len(chosen) <= held_docs
    docs: list[DocRequests] = []
    counts: Counter[str] = Counter()
    skipped = SkippedDocs()
    doc_keys = None if keys is None else keys.of_docs()
    for doc in build_docs(task, chosen, options.prompt, skipped):
        if scorer is not None:
            scorer.check_gold(doc)
        for request in doc.requests:
            counts[request.kind] += 1
        if keys is not None and doc_keys is not None:
            doc_keys.add(map(keys.of, doc.requests))
        if is_held or len(docs) < CHECKED_DOCS:
            docs.append(doc)
    skipped.check(task.name, len(chosen), options.max_skipped)
    task.check_fitness(chosen)  # after the docs: errors in them name them
    shots = shot_count(task, options.prompt)
    notes = [_BARE_ANSWERS] if shots and lacks_rationale(task.config) else []
    return Prepared(
        *(task, docs, shots, chosen, options.prompt, seed, dict(counts)),
        notes=notes,
        skipped=skipped,
        keys=doc_keys,
    )


_BARE_ANSWERS = (
    "the examples show answers without the reasons that the format asks for; the task can name them "
    "with doc_to_rationale"
)


def askable(task: ConfigurableTask, options: RunOptions) -> list[int]:
    """The docs of a task that are asked: those chosen, without those that cannot be."""
    chosen, skipped = doc_ids(task, options), SkippedDocs()
    asked = []
    for doc_id in chosen:
        try:
            task.ask(doc_id)
        except LmEvalError as error:
            if not skipped.add(doc_id, error):
                raise
        else:
            asked.append(doc_id)
    skipped.check(task.name, len(chosen), options.max_skipped)
    return asked


def doc_ids(task: ConfigurableTask, options: RunOptions) -> Sequence[int]:
    """Which docs of a task are asked, by their position in the data."""
    named = _samples_of(task, options.samples or {})
    return choose_docs(task, limit=options.limit, samples=named, seed=options.sample_seed)


def metric_names(task: ConfigurableTask) -> list[str] | None:
    """The metrics of a task, checked; None if its own code names them as it scores."""
    if task.format is not None:
        return [metric.name for metric in task_metrics(task)]
    names = list(task.harness_scorer.metrics.names)
    return None if task.own_process_results else names


def load_metrics(task: ConfigurableTask, *, run_code: bool = True) -> None:
    """Import what a task's answers are scored with, so that nothing is missing after asking."""
    if task.format is not None:
        return
    if task.config.checks is not None:
        from lm_eval.scoring.checks import load_libraries

        load_libraries(
            name for doc_id in range(len(task.eval_docs)) for name, _ in task.checks_of(doc_id)
        )
        return
    try:
        task.harness_scorer.metrics.load(run_code=run_code)
    except MissingExtraError as error:
        raise MissingExtraError(
            f"Task {task.name!r}: {error.what}", install=error.install
        ) from error.__cause__


def check_samples(tasks: Sequence[ConfigurableTask], options: RunOptions) -> None:
    """Refuse ``samples`` that name no task of the run; warn of tasks that they do not name."""
    if options.samples is None:
        return
    if not options.samples:
        raise UsageError(
            "--samples names no docs of any task. Write them as '{\"my_task\": [0, 3]}', or leave "
            "--samples out to ask all docs."
        )
    names = [*{name: None for task in tasks for name in (task.name, task.task_name)}]
    if not any(name in names for name in options.samples):
        first = next(iter(options.samples))
        raise UsageError(
            f"--samples names task {first!r}, and no task of this run.{did_you_mean(first, names)} "
            f"Tasks: {listing(names)}."
        )
    unnamed = [task.name for task in tasks if _samples_of(task, options.samples) is None]
    if unnamed:
        warnings.warn(
            f"--samples does not name {listing(unnamed)}, so all docs there are asked. Add their docs "
            "to --samples to ask fewer.",
            LmEvalWarning,
            stacklevel=3,
        )


def _set_repeats(tasks: Sequence[ConfigurableTask], repeats: int) -> None:
    """Have the tasks that generate text ask for this many replies to each doc."""
    generating = [task for task in tasks if task.output_type == "generate_until"]
    if not generating:
        raise UsageError(
            f"--repeats {repeats}: no task of this run generates text, and scored choices would only be "
            "the same again. Leave it out, or ask under a format such as @generate."
        )
    for task in generating:
        task.config.repeats = repeats


def check_unsafe(tasks: Sequence[ConfigurableTask], options: RunOptions) -> None:
    """Refuse tasks that execute what the model writes, unless in a sandbox or if that was confirmed."""
    running = [task.name for task in tasks if task.format and task.format.program is not None]
    if running and not options.predict_only:
        from lm_eval.scoring.programs import VERDICTS

        VERDICTS.prepare(running, is_confirmed=options.runs_unsafe_code)
    unsafe = [task.name for task in tasks if task.config.unsafe_code and task.name not in running]
    if unsafe and not options.runs_unsafe_code and not options.predict_only:
        raise UsageError(
            f"These tasks execute code that the model writes (unsafe_code): {listing(unsafe)}. Run "
            "them where that can do no harm, and add --confirm_run_unsafe_code; or save the answers "
            "alone with --predict_only."
        )


def _samples_of(
    task: ConfigurableTask, samples: Mapping[str, Sequence[int]]
) -> Sequence[int] | None:
    """The docs of a task that ``samples`` names; None if it does not name the task."""
    return samples.get(task.name, samples.get(task.task_name))


def _with_affected_tasks(error: HelperError, tasks: Sequence[ConfigurableTask]) -> HelperError:
    """The error, with the tasks that need the same helper file."""
    affected = [
        task.name
        for task in tasks
        if any(f.file and str(f.file.resolve()) == error.path for _, f in task.config.functions())
    ]
    if not affected:
        return error
    return error.saying(
        f"{error} Tasks of this run that need it: {listing(affected)}. Leave them out of --tasks to "
        "run the others."
    )


GENERATED = "generate_until"
_NEAREST = {True: ("generate", "cot"), False: ("mcqa", "cloze")}
"""Formats to try first: those that generate text (True), and those that score given answers."""


def check_capable(task: ConfigurableTask, model: LM, options: RunOptions) -> None:
    """Refuse a task that needs more than the backend can do, before anything is sent."""
    able = model.capabilities
    name = backend_name(model)
    if task.has_media and not (able.media or getattr(model, "MULTIMODAL", False)):
        raise ModelError(
            f"Task {task.name!r} asks about images or audio, which model backend {name} cannot take. "
            "Use a model whose `capabilities` say `media=True`."
        )
    if options.prompt.as_chat and not (able.chat_template or able.chat_only):
        raise ModelError(
            f"Model {model.tokenizer_name or name} has no chat template. Run without "
            "--apply_chat_template, or use a model that has one, such as one tuned for chats."
        )
    if task.output_type != GENERATED and not able.loglikelihood:
        backend = "local-completions" if able.chat_only else "gguf"
        raise FormatError(
            f"Task {task.name!r} scores log-likelihoods, which model backend {name} cannot: "
            f"{_ask_as(task, generates=True)}use a backend that can, such as --model {backend}."
        )
    if task.output_type == GENERATED and not able.generation:
        raise FormatError(
            f"Task {task.name!r} generates text, which model backend {name} cannot: "
            f"{_ask_as(task, generates=False)}use a backend that can, such as --model gguf."
        )


def check_holds(prepared: Prepared, model: LM) -> None:
    """Refuse a task whose grammar the backend cannot hold on some doc, before anything is sent."""
    fmt = prepared.task.format
    if fmt is None or not fmt.enforced:
        return
    checked: set[Grammar] = set()
    for doc in prepared.asked():
        for request in doc.requests:
            grammar = getattr(request, "grammar", None)
            if grammar is None or grammar in checked:
                continue
            checked.add(grammar)
            if (why := model.why_not_enforceable(grammar)) is not None:
                raise FormatError(
                    f"Task {prepared.task.name!r}, doc {doc.doc_id}: model backend "
                    f"{type(model).__name__} cannot hold replies to {shorten(grammar.regex, 60)}: "
                    f"{why}. Ask it as {prepared.task.task_name}@{split_suffix(fmt.name)[0]}, without "
                    "+enforced."
                )


def _ask_as(task: ConfigurableTask, *, generates: bool) -> str:
    format_name = nearest_format(task, generates=generates)
    how = "as generated text" if generates else "by log-likelihood"
    return "" if format_name is None else f"ask it {how}, as {task.task_name}@{format_name}, or "


def nearest_format(task: ConfigurableTask, *, generates: bool) -> str | None:
    """A format that generates text (or does not) and that the task's fields can fill."""
    task_formats = task.config.own_formats
    names = dict.fromkeys((*task_formats, *_NEAREST[generates], *general_names()))
    for name in names:
        fmt = task_formats.get(name) or get_format(name)
        if (fmt.output_type == GENERATED) == generates and _fits(task, name):
            return name
    return None


def _fits(task: ConfigurableTask, name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            asked = ConfigurableTask(task.config, format_name=name)
            asked.ask(0)
            asked.check_fitness([0])
        except LmEvalError:
            return False
    return True


def options_for(model: LM, options: RunOptions) -> RunOptions:
    """The options as this model can take them: chats if it takes nothing else, no started answers."""
    able, prompt = model.capabilities, options.prompt
    if able.chat_only and not prompt.as_chat:
        prompt = replace(prompt, as_chat=True)
    if prompt.as_chat and not able.prefill:
        prompt = replace(prompt, can_prefill=False)
    return options if prompt is options.prompt else replace(options, prompt=prompt)


def adapt(
    prepared: Sequence[Prepared], model: LM, options: RunOptions
) -> tuple[list[Prepared], RunOptions]:
    """Requests and options as this model can take them; a task it cannot answer is an error."""
    adapted = options_for(model, options)
    for asked in prepared:
        check_capable(asked.task, model, adapted)
        check_holds(asked, model)
    _warn_about_chats(model, options)
    if any(bool(asked.prompt.as_chat) != bool(adapted.prompt.as_chat) for asked in prepared):
        return prepare_all([asked.task for asked in prepared], adapted), adapted
    can_prefill = adapted.prompt.can_prefill
    return [
        asked if asked.prompt.can_prefill == can_prefill else asked.without_prefill()
        for asked in prepared
    ], adapted


def _warn_about_chats(model: LM, options: RunOptions) -> None:
    prompt = options.prompt
    if model.capabilities.chat_only and not prompt.as_chat:
        warnings.warn(
            f"Model backend {backend_name(model)} takes chats only, so every prompt is sent as one, as "
            "with --apply_chat_template.",
            LmEvalWarning,
            stacklevel=3,
        )
    elif prompt.as_chat is None and model.is_tuned_for_chats:
        warnings.warn(
            f"Model {model.tokenizer_name or type(model).__name__} has a chat template and is asked "
            "without it. Add --apply_chat_template to use it, or --apply_chat_template false to leave "
            "this line out.",
            LmEvalWarning,
            stacklevel=3,
        )
