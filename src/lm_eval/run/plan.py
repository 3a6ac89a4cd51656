"""A run as the command line and Python scripts share it: tasks and a model in, results out.

In: loaded tasks and a ``Run``, which says what is asked of which model. Out: an ``Outcome``, whose
``as_dict`` is what a results file holds. The files, if any, are written here too.
"""

from __future__ import annotations

import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lm_eval.answers.prices import Prices, read_prices
from lm_eval.answers.resume import (
    RunStore,
    model_identity,
    opened_cache,
    opened_run_store,
    run_key,
)
from lm_eval.config.yaml import PathLike
from lm_eval.errors import LmEvalWarning, UsageError
from lm_eval.evaluator import adapt, check_groups, group_results, run_all
from lm_eval.models.base import LM
from lm_eval.models.loading import model_parameters, name_of, opened_model, plain_arguments
from lm_eval.reports.items import RunItems
from lm_eval.reports.samples import written_sample
from lm_eval.reports.writer import ResultWriter, RunInfo, results_dict
from lm_eval.run.prepare import Prepared, RunOptions, prepare_all
from lm_eval.run.scorers import SampleSink
from lm_eval.scoring.results import GroupResult, TaskResult
from lm_eval.tasks.groups import Group
from lm_eval.tasks.task import ConfigurableTask
from lm_eval.text.secrets import hidden, hiding, secrets_in

PARTIAL_FILES = "partial files"
SEEDS: Mapping[str, int | None] = {
    "random_seed": 0,
    "numpy_seed": 1234,
    "torch_seed": 1234,
    "fewshot_seed": 1234,
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is asked of which model."""

    model: str | LM | None = None
    """A backend's name or a model that is made already; None: the embedded model."""
    model_args: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int | str | None = None
    max_batch_size: int | None = None
    device: str | None = None
    options: RunOptions = field(default_factory=RunOptions)
    seeds: Mapping[str, int | None] = field(default_factory=lambda: dict(SEEDS))
    output_path: str | None = None
    use_cache: str | None = None
    """A file of answers that runs share; None: the run keeps its answers until it is finished."""
    command: Sequence[str] = ()
    """The command line, for repeating the run."""
    trust_remote_code: bool = False
    parity: bool = False
    """Whether the tasks were loaded with the differences from EleutherAI's harness undone."""
    prices: Prices | None = None
    """What the model charges, where that is known."""

    @property
    def model_name(self) -> str:
        """What the model is called in file names and results."""
        if isinstance(self.model, LM):
            return type(self.model).__name__
        return name_of(self.model, self.model_args)

    @property
    def backend(self) -> str:
        return type(self.model).__name__ if isinstance(self.model, LM) else self.model or "gguf"


@dataclass
class Outcome:
    """What came out of a run."""

    results: list[TaskResult]
    groups: list[GroupResult]
    info: RunInfo
    task_hashes: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None
    """The results file, where one was written."""
    items: RunItems = field(default_factory=RunItems)
    """The scores item by item, where files were written or a task has several formats."""
    reused: int = 0
    """Answers that were kept from earlier runs, or from an earlier part of this one."""
    asked: int = 0
    """Answers that the model gave now and that are kept; 0 where nothing is kept."""

    def as_dict(self) -> dict[str, Any]:
        """Everything a results file holds."""
        return results_dict(
            self.results, run=self.info, groups=self.groups, task_hashes=self.task_hashes
        )


def execute(
    run: Run,
    tasks: Sequence[ConfigurableTask],
    groups: Sequence[Group] = (),
    *,
    on_sample: SampleSink | None = None,
    on_prepared: Callable[[Sequence[Prepared]], None] | None = None,
    opened: Callable[[], LM] | None = None,
) -> Outcome:
    """Run tasks. Everything that can be wrong with them is found before a model is loaded.

    ``on_sample`` gets each sample as it is scored, ``on_prepared`` the requests before they are sent.
    ``opened`` gives the run's model, which then stays open, where several runs share one.
    """
    started = time.time()
    groups = [] if run.options.predict_only else groups
    model_args = backend_arguments(run)
    seed_all(run.seeds)
    with hiding(secrets_in(model_args)), ExitStack() as stack:
        prepared = prepare_all(tasks, run.options)
        check_groups(groups)
        writer = stack.enter_context(opened_writer(run.output_path, run.model_name))
        given = run.model if opened is None else opened()
        with opened_model(given, model_args) as model:
            prepared, options = adapt(prepared, model, run.options)
            if on_prepared is not None:
                on_prepared(prepared)
            keeper = stack.enter_context(_keeper(run, prepared, options, model, model_args, writer))
            items = RunItems()
            sink = _sink(on_sample, writer, items if writer or _is_compared(tasks) else None)
            results = run_all(prepared, model, options, on_sample=sink, kept=keeper.kept)
            info = run_info(run, options, model_args, model, started)
            for note in model.warnings:
                warnings.warn(f"Model {run.model_name}: {note}", LmEvalWarning, stacklevel=2)
        outcome = Outcome(results, group_results(groups, results), info, items=items)
        if keeper.kept is not None:
            outcome.reused, outcome.asked = keeper.kept.found, keeper.kept.added
            if outcome.reused or keeper.kept.is_shared:
                info.answers = {"total": keeper.total or 0, "reused": outcome.reused}
        if writer is not None:
            outcome.task_hashes = writer.task_hashes()
            outcome.path = writer.finish(outcome.as_dict(), items.to_dict())
            writer.remove_partial(keeper.earlier(PARTIAL_FILES))
        keeper.finish(is_complete=not any(result.missing for result in results))
        return outcome


def priced(run: Run, path: PathLike | None) -> Run:
    """The run with its model's prices from a file; as it is where no file is given."""
    if path is None:
        return run
    return replace(run, prices=read_prices(path).of(run.model_name))


def _keeper(
    run: Run,
    prepared: Sequence[Prepared],
    options: RunOptions,
    model: LM,
    model_args: Mapping[str, Any],
    writer: ResultWriter | None,
) -> RunStore:
    """Where the answers of a run are kept."""
    total = sum(one.num_requests for one in prepared)
    backend = None if isinstance(run.model, LM) else run.backend
    identity = model_identity(model, backend, model_args)
    secrets = secrets_in(model_args)
    if run.use_cache is not None:
        return RunStore(opened_cache(run.use_cache, identity, model, secrets), total)
    if identity is None or not model.keeps_answers:
        return RunStore(None, total)
    folder = None if writer is None else writer.folder
    key = run_key(identity, prepared, options, seeds=run.seeds, parity=run.parity)
    keeper = RunStore(opened_run_store(folder, key, identity, secrets), total)
    if writer is not None:
        keeper.note(PARTIAL_FILES, writer.time)
    return keeper


def _is_compared(tasks: Sequence[ConfigurableTask]) -> bool:
    """Whether some task is asked under several formats."""
    return len({task.task_name for task in tasks}) < len(tasks)


def _sink(
    on_sample: SampleSink | None, writer: ResultWriter | None, items: RunItems | None
) -> SampleSink | None:
    """What each sample is handed to; None where nobody wants them."""
    if writer is None and items is None:
        return on_sample

    def sink(name: str, sample: dict[str, Any]) -> None:
        if on_sample is not None:
            on_sample(name, sample)
        if items is not None:
            items.add(name, sample)
        if writer is not None:
            writer.add_sample(name, written_sample(sample))

    return sink


def seed_all(seeds: Mapping[str, int | None]) -> None:
    """Seed Python's random numbers, and those of numpy and torch where the process has loaded them.

    A seed that either cannot take is an error, whether it is loaded or not.
    """
    for name, most in (("numpy", 2**32 - 1), ("torch", 2**64 - 1)):
        seed = seeds[f"{name}_seed"]
        if seed is not None and not 0 <= seed <= most:
            raise UsageError(
                f"The seed of {name} is {seed}, but must be a whole number from 0 to {most}. --seed "
                "takes one for all, or those of python, numpy, torch and few-shot sampling."
            )
    random.seed(seeds["random_seed"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seeds["numpy_seed"])
    if "torch" in sys.modules and seeds["torch_seed"] is not None:
        sys.modules["torch"].manual_seed(seeds["torch_seed"])


def backend_arguments(run: Run) -> dict[str, Any]:
    """The model's arguments, with batch size and device where the backend takes them."""
    model_args = dict(run.model_args)
    given = {
        "batch_size": run.batch_size,
        "max_batch_size": run.max_batch_size,
        "device": run.device,
        "trust_remote_code": run.trust_remote_code or None,
    }
    for name, value in given.items():
        if value is None or name in model_args:
            continue
        taken = [] if isinstance(run.model, LM) else model_parameters(run.model)
        if taken is None or name in taken:
            model_args[name] = value
        else:
            warnings.warn(
                f"Model {run.backend!r} takes no {name}, so --{name} has no effect.",
                LmEvalWarning,
                stacklevel=2,
            )
    return model_args


# Files


def run_info(
    run: Run, options: RunOptions, model_args: Mapping[str, Any], model: LM, started: float
) -> RunInfo:
    """What the results say about the run as a whole."""
    prompt = options.prompt
    seeds: Any = run.seeds
    return RunInfo(
        model=run.backend,
        model_name=run.model_name,
        model_args=None if isinstance(run.model, LM) else plain_arguments(model_args),
        model_facts=model.describe(),
        batch_size=run.batch_size,
        device=run.device,
        limit=options.limit,
        use_cache=run.use_cache,
        bootstrap_iters=options.bootstrap_iters,
        gen_kwargs=dict(prompt.gen_kwargs) or None,
        system_instruction=prompt.system_instruction,
        chat_template=_chat_template(model) if prompt.as_chat else None,
        fewshot_as_multiturn=prompt.multiturn if prompt.as_chat else None,
        parity=run.parity,
        prices=run.prices,
        start_time=started,
        end_time=time.time(),
        extra={} if prompt.permute is None else {"permute": str(prompt.permute)},
        command=[hidden(part, secrets_in(model_args)) for part in run.command],
        **seeds,
    )


def _chat_template(model: LM) -> str | None:
    """The source of the model's chat template; an attribute, or a method as in the harness."""
    found = getattr(model, "chat_template", None)
    found = found(True) if callable(found) else found
    return None if found is None else str(found)


@contextmanager
def opened_writer(output_path: str | None, model_name: str) -> Iterator[ResultWriter | None]:
    """The writer of a run's files, or None; a run that fails at once leaves no empty folder."""
    if output_path is None:
        yield None
        return
    path = Path(output_path).expanduser()
    existing = {folder for folder in (path, *path.parents) if folder.exists()}
    with ResultWriter(path, model_name) as writer:
        try:
            yield writer
        except BaseException:
            with suppress(OSError):  # a folder with files in it stays
                for folder in (writer.folder, *writer.folder.parents):
                    if folder not in existing:
                        folder.rmdir()
            raise
