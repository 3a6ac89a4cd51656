"""``simple_evaluate`` and ``evaluate``: a whole run as one Python call, with EleutherAI's signatures.

In: task names or task objects, a backend's name or a model object. Out: the results as a dict, in the
shape of a results file, with the samples in it. Requests are rebuilt each time and tasks are always
checked, so arguments about caches of requests and ``check_integrity`` make no difference.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from lm_eval import evaluator
from lm_eval.config.arguments import parse_pairs
from lm_eval.config.yaml import PathLike
from lm_eval.errors import LmEvalWarning, UsageError
from lm_eval.models.base import LM
from lm_eval.reports.samples import write_out as print_prompts
from lm_eval.requests.options import MAX_SKIPPED
from lm_eval.run.plan import SEEDS, Run, run_of
from lm_eval.support.encode import task_hash
from lm_eval.support.terminal import bystander_note
from lm_eval.tasks.groups import Group
from lm_eval.tasks.loader import Selector, TaskManager, gathered, set_verbosity
from lm_eval.tasks.task import ConfigurableTask

ABOUT_TASKS = (
    *("results", "groups", "group_subtasks", "configs", "versions", "n-shot"),
    *("higher_is_better", "n-samples", "formats", "shows_choices", "fingerprints", "data"),
    *("intervals", "interval_methods", "choice_order", "notes", "accounting", "samples"),
)
"""What ``evaluate`` returns; the rest is about the whole run, of which it knows little."""
METHODS = ("loglikelihood", "loglikelihood_rolling", "generate_until")
"""An object with these is a model, whatever its class."""


def simple_evaluate(
    model: str | LM,
    model_args: str | Mapping[str, Any] | None = None,
    tasks: Sequence[Selector] | None = None,
    num_fewshot: int | None = None,
    batch_size: int | str | None = None,
    max_batch_size: int | None = None,
    device: str | None = None,
    use_cache: str | None = None,
    cache_requests: bool = False,
    rewrite_requests_cache: bool = False,
    delete_requests_cache: bool = False,
    limit: float | None = None,
    samples: Mapping[str, Sequence[int]] | None = None,
    bootstrap_iters: int = 100_000,
    check_integrity: bool = False,
    write_out: bool = False,
    log_samples: bool = True,
    evaluation_tracker: Any = None,
    system_instruction: str | None = None,
    apply_chat_template: bool | str = False,
    fewshot_as_multiturn: bool = True,
    gen_kwargs: str | Mapping[str, Any] | None = None,
    task_manager: TaskManager | None = None,
    verbosity: str | None = None,
    predict_only: bool = False,
    random_seed: int | None = 0,
    numpy_random_seed: int | None = 1234,
    torch_random_seed: int | None = 1234,
    fewshot_random_seed: int | None = 1234,
    confirm_run_unsafe_code: bool = False,
    metadata: Mapping[str, Any] | None = None,
    parity: bool = False,
    prices: PathLike | None = None,
    permute: str | None = None,
    max_skipped: str | float = MAX_SKIPPED,
    show_redacted: bool = False,
    sample: str = "first",
    repeats: int | None = None,
) -> dict[str, Any]:
    """Evaluate a model on tasks; the results as a dict.

    ``tasks`` holds what ``--tasks`` takes (``"my_task@mcqa"``), mappings with the keys of a task file,
    or task objects. ``model`` is a backend's name or an ``LM`` object, which is left open.
    ``parity=True`` undoes the deliberate differences from EleutherAI's harness; ``prices`` is a file
    with what models charge, for the costs under ``accounting``. ``permute`` asks docs in several orders
    of their choices too, as ``--permute`` does. ``max_skipped`` says how many docs of a task may be
    left out because they cannot be asked: a number, or a share such as ``"1%"``.
    ``sample="random"`` draws the ``limit`` docs with ``random_seed``, as ``--sample random`` does.
    """
    given = dict(locals())
    if not tasks:
        raise UsageError('No tasks. Name some: simple_evaluate(…, tasks=["demo_mcq@mcqa"]).')
    if verbosity is not None:
        set_verbosity(verbosity)
    arguments = parse_pairs(model_args, flag="--model_args")
    seeds = {
        "random_seed": random_seed,
        "numpy_seed": numpy_random_seed,
        "torch_seed": torch_random_seed,
        "fewshot_seed": fewshot_random_seed,
    }
    is_parity = parity or (task_manager is not None and task_manager.parity)
    asked = _checked_model(model, arguments)
    run = run_of({**given, "model": asked, "seed": seeds, "parity": is_parity})
    manager = task_manager
    if manager is None:
        manager = evaluator.task_manager(arguments, parity=parity, metadata=metadata)
    elif not (metadata or {}).items() <= manager.metadata.items() or (
        parity and not manager.parity
    ):
        raise UsageError(
            "metadata and parity=True belong to the TaskManager if one is given: "
            "TaskManager(metadata=…, parity=True)."
        )
    _tell(evaluation_tracker, run)
    loaded, groups = evaluator.load_tasks(tasks, manager)
    if _leaves_the_run("simple_evaluate", model):
        return None  # type: ignore[return-value]  # as in the harness, and only under a launcher
    keeps_samples = log_samples or predict_only
    return _results(run, loaded, groups, write_out=write_out, log_samples=keeps_samples)


def evaluate(
    lm: LM,
    task_dict: Mapping[Any, Any],
    limit: float | None = None,
    samples: Mapping[str, Sequence[int]] | None = None,
    cache_requests: bool = False,
    rewrite_requests_cache: bool = False,
    bootstrap_iters: int | None = 100_000,
    write_out: bool = False,
    log_samples: bool = True,
    system_instruction: str | None = None,
    apply_chat_template: bool | str = False,
    fewshot_as_multiturn: bool = False,
    verbosity: str | None = None,
    confirm_run_unsafe_code: bool = False,
) -> dict[str, Any]:
    """Evaluate a model object on loaded tasks: what ``TaskManager.load`` or ``get_task_dict`` gave.

    Few-shot examples, generation arguments and seeds are those of the tasks: see
    ``ConfigurableTask.set_config`` and ``set_fewshot_seed``.
    """
    given = dict(locals())
    if verbosity is not None:
        set_verbosity(verbosity)
    model = _checked_model(lm, {})
    if _leaves_the_run("evaluate", model):
        return None  # type: ignore[return-value]  # as in the harness, and only under a launcher
    loaded = gathered(_flat(task_dict))
    tasks, groups = list(loaded["tasks"].values()), list(loaded["groups"].values())
    if not tasks:
        raise UsageError("No tasks: task_dict is empty.")
    run = run_of(
        {
            **given,
            "model": model,
            "bootstrap_iters": bootstrap_iters or 0,
            "seed": {**SEEDS, "fewshot_seed": None},
            "parity": any(task.parity for task in tasks),
        }
    )
    run = replace(run, options=replace(run.options, fewshot_seed=None))
    results = _results(run, tasks, groups, write_out=write_out, log_samples=log_samples)
    return {key: results[key] for key in ABOUT_TASKS if key in results}


def _results(
    run: Run,
    tasks: Sequence[ConfigurableTask],
    groups: Sequence[Group],
    *,
    write_out: bool,
    log_samples: bool,
) -> dict[str, Any]:
    kept: dict[str, list[dict[str, Any]]] = {}

    def keep(name: str, sample: dict[str, Any]) -> None:
        kept.setdefault(name, []).append(sample)

    outcome = evaluator.execute(
        run,
        tasks,
        groups,
        on_sample=keep if log_samples else None,
        on_prepared=print_prompts if write_out else None,
    )
    for samples in kept.values():
        _put_in_order(samples)
    outcome.task_hashes = {name: task_hash(some) for name, some in kept.items()}
    return {**outcome.as_dict(), **({"samples": kept} if log_samples else {})}


def _leaves_the_run(function: str, model: str | LM) -> bool:
    """Whether another process of ``torchrun`` does the run; reported once.

    A model object that does not say that it is one of several is asked in every process.
    """
    is_one_of_several = not isinstance(model, LM) or (model.rank > 0 and model.world_size == 1)
    note = bystander_note() if is_one_of_several else None
    if note is not None:
        warnings.warn(f"{function} returns None: {note}", LmEvalWarning, stacklevel=3)
    return note is not None


def _put_in_order(samples: list[dict[str, Any]]) -> None:
    """Filter by filter, by the docs: answers come in any order."""
    filters = list(dict.fromkeys(sample["filter"] for sample in samples))
    samples.sort(key=lambda sample: (filters.index(sample["filter"]), sample["doc_id"]))


def _tell(tracker: Any, run: Run) -> None:
    """Let an ``EvaluationTracker`` know which model is asked: its files go by that name."""
    if tracker is None:
        return
    if not hasattr(tracker, "general_config_tracker"):
        raise UsageError(
            f"evaluation_tracker is a {type(tracker).__name__}. Give an "
            "lm_eval.loggers.EvaluationTracker, or write the dict that is returned."
        )
    prompt = run.options.prompt
    tracker.general_config_tracker.log_experiment_args(
        model_source=run.model,
        model_args=run.model_args,
        system_instruction=prompt.system_instruction,
        chat_template=None,
        fewshot_as_multiturn=prompt.multiturn if prompt.as_chat else None,
    )


def _checked_model(model: Any, model_args: Mapping[str, Any]) -> str | LM:
    """The model as given, if it is a name or a model."""
    if isinstance(model, LM) and model_args:
        warnings.warn(
            f"model is a {type(model).__name__} object, so model_args make no difference to it.",
            LmEvalWarning,
            stacklevel=3,
        )
    if isinstance(model, str | LM):
        return model
    methods: dict[str, Any] = {name: getattr(model, name, None) for name in METHODS}
    if all(map(callable, methods.values())):
        own = {name: staticmethod(method) for name, method in methods.items()}
        return cast("LM", type(type(model).__name__, (LM,), own)())
    raise UsageError(
        f"model is a {type(model).__name__}. Give a backend's name, or an object whose class is a "
        "subclass of lm_eval.api.model.LM, or has its three methods."
    )


def _flat(task_dict: Mapping[Any, Any]) -> Iterator[ConfigurableTask | Group]:
    """Every task and group of what ``TaskManager.load`` or ``get_task_dict`` gave."""
    if not isinstance(task_dict, Mapping):
        raise UsageError(
            f"task_dict is a {type(task_dict).__name__}; expected what TaskManager.load returns."
        )
    if {"tasks", "groups"} <= task_dict.keys():
        yield from [*task_dict["tasks"].values(), *task_dict["groups"].values()]
        return
    for key, value in task_dict.items():
        if isinstance(key, Group):
            yield key
        elif isinstance(value, Mapping):
            yield from _flat(value)
        elif isinstance(value, ConfigurableTask | Group):
            yield value
        else:
            raise UsageError(
                f"task_dict holds a {type(value).__name__} under {key!r}; expected what "
                "TaskManager.load or get_task_dict returns."
            )
