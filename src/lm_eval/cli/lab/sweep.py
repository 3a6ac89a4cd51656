"""``lm-eval sweep``: tasks × many formats of a grammar → how much of a score is due to the format.

Flags become a ``Setup`` of each task: the list of formats, the items, the budget and the files. All
errors in the request are raised there, before a model is loaded.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lm_eval import evaluator
from lm_eval.cli.lab.options import IN_TERMINAL
from lm_eval.cli.run import check_output, task_manager
from lm_eval.config.arguments import parse_seeds, split_list
from lm_eval.errors import FormatError, OutputError, UsageError
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.lab.grammar.axes import AXES
from lm_eval.lab.grammar.sample import MOST_CHOICES, FormatList, sample_formats
from lm_eval.lab.report import print_report
from lm_eval.lab.stored.run import sweep_path
from lm_eval.lab.sweep import sweep as sweeping
from lm_eval.lab.sweep.cells import Asker, OpenedModel, SweptTask
from lm_eval.lab.sweep.report import check_folder, save_plots, sweep_report, sweep_scores_plot
from lm_eval.lab.sweep.sweep import MIN_ITEMS, Plan, Sweep
from lm_eval.models.base import LM
from lm_eval.models.loading import model_class
from lm_eval.reports.costs import Forecast, print_forecasts, total_estimate
from lm_eval.run.forecast import forecast
from lm_eval.run.plan import Run, run_of
from lm_eval.run.prepare import askable, check_samples
from lm_eval.support.files import (
    cache_folder,
    remove_abandoned,
    safe_model_name,
    safe_task_name,
    write_whole,
)
from lm_eval.support.numbers import counted
from lm_eval.support.secrets import hiding, known_secrets
from lm_eval.support.terminal import console, print_line
from lm_eval.tasks.index import split_selector
from lm_eval.tasks.task import ConfigurableTask

MIN_FORMATS = 2
DEFAULT_AXIS = AXES[0]
ANSWERS = "answers.sqlite"


def sweep(args: argparse.Namespace) -> int:
    """Sweep every task and print the results; with ``--dry_run``, print the costs alone."""
    check(args)
    run = with_answers(run_of(vars(args)))
    with hiding(run.model_args, run.options.prompt.gen_kwargs):
        tasks = load_tasks(args, run)
        check_samples(tasks, run.options)
        seed = seed_of(args.seed)
        with OpenedModel(run) as opened:
            ready = [setup(run, task, args, seed, opened) for task in tasks]
            if args.dry_run:
                print_dry_run(ready, run)
                return 0
            for prepared in ready:
                show(swept(prepared, run), args.plots, is_full=args.table == "full")
    return 0


def check(args: argparse.Namespace) -> None:
    """Raise errors that need nothing but the flags."""
    if not split_list(args.tasks):
        raise UsageError(
            "No tasks. Name some: `lm-eval sweep --tasks demo_mcq --formats 50`; `lm-eval ls tasks` "
            "lists them."
        )
    if args.formats is None:
        raise UsageError(
            "How many formats? Give --formats 50, or a file with a list that an earlier sweep saved."
        )
    if args.plots not in (None, IN_TERMINAL):
        check_folder(args.plots)
    check_output(args)


def seed_of(text: str) -> int:
    """The seed that draws formats and cells: the first number of ``--seed``."""
    seed = parse_seeds(text)["random_seed"] or 0
    if seed < 0:
        raise UsageError(
            f"--seed {text}: the first number seeds the choice of formats and must be 0 or more."
        )
    return seed


def load_tasks(args: argparse.Namespace, run: Run) -> list[ConfigurableTask]:
    """Load the tasks, each under the format that its sweep varies."""
    manager = task_manager(args, run)
    tasks, _ = evaluator.load_tasks(list(_selectors(split_list(args.tasks), args.base)), manager)
    return tasks


def _selectors(names: Sequence[str], base: str | None) -> Iterator[str]:
    for name in names:
        task, format_name = split_selector(name)
        if base is not None and format_name is not None:
            raise UsageError(
                f"--tasks {name} and --base {base} both name the format to start from. Give one of them."
            )
        yield name if base is None else f"{task}@{base}"


def swept(ready: Setup, run: Run) -> Sweep:
    """Run the sweep and write its summary."""
    files = {"formats": str(ready.list_path)}
    if run.use_cache is not None:
        files["answers"] = run.use_cache
    result = sweeping.sweep(ready.plan, ready.asker, output_path=run.output_path, files=files)
    return write_summary(result)


def show(result: Sweep, plots: str | None, *, is_full: bool = False) -> None:
    """Print the result and the paths of its files; draw or save the plots."""
    print_report(sweep_report(result, is_full=is_full), console())
    console().print()
    for name in ("formats", "answers", "results", "summary"):
        if name in result.files:
            print_line(f"{name.capitalize()}: {result.files[name]}")
    if plots == IN_TERMINAL:
        console().print()
        sweep_scores_plot(result).show(console())
    elif plots is not None:
        for path in save_plots(result, plots):
            print_line(f"Plot: {path}")


def print_dry_run(ready: Sequence[Setup], run: Run) -> None:
    """Print what the sweeps would ask, one line for each task, and the forecast of costs."""
    forecasts = []
    for prepared in ready:
        plan = prepared.plan
        tasks, asked = prepared.asker.tasks_of(plan.cells())
        estimate = total_estimate(forecast(asked, tasks))
        name = f"{plan.name}, {plan.num_formats} formats"
        forecasts.append(Forecast(name, plan.asked_cells, estimate))  # its docs are cells
        text = (
            f"{plan.name}: {plan.num_formats} formats ({plan.formats.axis}) × {plan.num_items} items = "
            f"{plan.all_cells:,} cells; {plan.asked_cells:,} would be asked."
        )
        print_line(text)
    console().print()
    print_forecasts(forecasts, console(), prices=run.prices)


# Before a model is asked


@dataclass(frozen=True)
class Setup:
    """A sweep of one task, ready to start."""

    plan: Plan
    asker: Asker
    list_path: Path


def setup(
    run: Run, task: ConfigurableTask, args: argparse.Namespace, seed: int, opened: OpenedModel
) -> Setup:
    """Prepare the sweep of one task; ``run`` has the model and the options."""
    chosen = askable(task, run.options)
    formats, path = format_list(task, chosen, args, seed, list_folder(run))
    if formats.axis == "shots" and run.options.prompt.num_fewshot is not None:
        raise UsageError(
            "The axis shots varies the number of few-shot examples, so --num_fewshot cannot be given "
            "with it."
        )
    clusters = {task.cluster_of(doc) for doc in chosen} - {None}
    check_items(task.name, len(chosen), len(clusters) or None)
    budget = parse_budget(args.budget, num_formats=len(formats), num_items=len(chosen))
    plan = Plan(
        name=task.name if task.format_name else f"{task.name}@{formats.base.name}",
        formats=formats,
        num_items=len(chosen),
        budget=budget,
        seed=seed,
    )
    asker = Asker(run, [SweptTask(task, sample) for sample in formats], chosen, opened)
    asker.check()
    return Setup(plan, asker, path)


def base_format(task: ConfigurableTask) -> PromptFormat:
    """The format that a sweep varies; a ``FormatError`` if the task has none."""
    if task.format is None:
        example = "cot" if task.config.doc_to_choice is None else "mcqa"
        raise FormatError(
            f"Task {task.name!r} is asked without a format, so there is nothing to vary. Name one to "
            f"start from, such as --base {example}; `lm-eval ls formats` lists them."
        )
    return task.format


def format_list(
    task: ConfigurableTask, docs: Sequence[int], args: argparse.Namespace, seed: int, folder: Path
) -> tuple[FormatList, Path]:
    """The list of formats and its path: the file named, one saved before, or a newly sampled list.

    If no format was named for the task, the sweep starts from the base of the file.
    """
    if re.fullmatch(r"[+-]?\d+", args.formats.strip()):
        count, most_choices = int(args.formats), _most_choices(task, docs)
        return _sampled(base_format(task), count, most_choices, args, seed, folder)
    path = Path(args.formats).expanduser()
    if not path.is_file():
        raise UsageError(
            f"--formats {args.formats!r} is neither a number of formats, such as 50, nor a file with "
            "a list of them."
        )
    formats = FormatList.load(path)
    named = task.format if task.format_name else None
    _check_list(formats, named or formats.base, args.axis, path)
    return formats, path


def _most_choices(task: ConfigurableTask, docs: Sequence[int]) -> int:
    """How many labels each format needs: ``MOST_CHOICES``, or more if a doc has more choices."""
    if not base_format(task).shows_labels:
        return MOST_CHOICES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are shown when the docs are asked
        return max([MOST_CHOICES, *(len(task.ask(doc).choices) for doc in docs)])


def _sampled(
    base: PromptFormat,
    count: int,
    most_choices: int,
    args: argparse.Namespace,
    seed: int,
    folder: Path,
) -> tuple[FormatList, Path]:
    if count < MIN_FORMATS:
        raise UsageError(
            f"--formats {count}: a sweep compares formats, so it needs at least {MIN_FORMATS}, the base "
            "format among them."
        )
    axis = args.axis or DEFAULT_AXIS
    name = f"formats_{safe_task_name(base.name)}_{axis}_{count}_seed{seed}"
    many = f"_{most_choices}choices" if most_choices > MOST_CHOICES else ""
    path = folder / f"{name}{many}_{base.fingerprint[:6]}.yaml"
    if path.is_file():
        saved = FormatList.load(path)
        _check_list(saved, base, args.axis, path)
        return saved, path
    formats = sample_formats(base, count, seed=seed, axes=(axis,), most_choices=most_choices)
    return formats, path if args.dry_run else formats.save(path)


def _check_list(formats: FormatList, base: PromptFormat, axis: str | None, path: Path) -> None:
    """Raise a ``UsageError`` if a list varies another format or axis, or lacks its base."""
    if formats.base.fingerprint != base.fingerprint:
        raise UsageError(
            f"{path} varies the format {formats.base.name!r} ({formats.base.fingerprint}), but the "
            f"task's base format is {base.name!r} ({base.fingerprint}). Start from the same one, such "
            f"as with --base {formats.base.name}, or sample a new list with --formats {len(formats)}."
        )
    if axis is not None and axis != formats.axis:
        raise UsageError(
            f"{path} varies the axis {formats.axis!r}, not {axis!r}. Leave --axis out, or sample "
            "a new list."
        )
    if len(formats) < MIN_FORMATS:
        raise UsageError(f"{path} holds {len(formats)} format; a sweep compares at least two.")
    if formats[0].format.fingerprint != base.fingerprint or formats[0].options:
        raise UsageError(
            f"{path} does not begin with its base format {base.name!r}, against which a sweep compares "
            "the others. Put it back in the first place."
        )


def check_items(name: str, num_items: int, num_clusters: int | None) -> None:
    """Raise a ``UsageError`` if there are too few items, or all belong to one cluster."""
    if num_items < MIN_ITEMS:
        raise UsageError(
            f"{name}: a sweep compares formats on at least {MIN_ITEMS} items; there {_are(num_items)}."
        )
    if num_clusters == 1:
        raise UsageError(
            f"{name}: all {num_items:,} items belong to one cluster, so nothing can be said about "
            "other clusters. Ask items of more clusters, such as with a larger --limit."
        )


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {count}"


def parse_budget(text: str | None, *, num_formats: int, num_items: int) -> int | None:
    """The number of cells that ``--budget`` asks for, None for all of them.

    ``text`` is ``2n`` (twice the items), a number of cells, ``full``, or None.
    """
    if text is None or text == "full":
        return None
    cells, total = _cells(text, num_items), num_formats * num_items
    if cells < num_formats:
        raise UsageError(
            f"--budget {text} is {counted(cells, 'cell')}, but {num_formats} formats need at least "
            f"{num_formats:,}, one each. Give --budget {num_formats} or more, or fewer --formats."
        )
    if cells > total:
        raise UsageError(
            f"--budget {text} is {cells:,} cells, but {num_formats} formats × {num_items} items have "
            f"only {total:,}. Leave --budget out to ask them all."
        )
    return cells


def _cells(text: str, num_items: int) -> int:
    times = re.fullmatch(r"(\d+(?:\.\d+)?)\s*n", text.strip().lower())
    if times is not None:
        return round(float(times[1]) * num_items)
    if re.fullmatch(r"\d+", text.strip()):
        return int(text)
    raise UsageError(
        f"--budget {text!r} is neither a number of cells such as 800, nor a multiple of the number of "
        "items such as 2n, nor full."
    )


# Files


def list_folder(run: Run) -> Path:
    """The folder for lists: the output folder, or the user's cache if there is none."""
    return cache_folder() / "sweeps" if run.output_path is None else _folder(run.output_path)


def with_answers(run: Run) -> Run:
    """The run with a file for its answers, so that later commands can reuse them.

    Backends whose answers cost nothing keep none, unless a file is named.
    """
    if run.use_cache is not None or not _is_worth_keeping(run):
        return run
    if run.output_path is not None:
        return replace(run, use_cache=str(_folder(run.output_path) / ANSWERS))
    file = f"{safe_model_name(run.model_name)}.sqlite"
    return replace(run, use_cache=str(cache_folder() / "sweeps" / file))


def _is_worth_keeping(run: Run) -> bool:
    model = run.model if isinstance(run.model, LM) else model_class(run.model)
    return bool(model.keeps_answers)


def _folder(output_path: str) -> Path:
    path = Path(output_path).expanduser()
    return path.parent if path.suffix == ".json" and not path.is_dir() else path


def write_summary(sweep: Sweep) -> Sweep:
    """Write ``sweep_<time>.json`` beside the results, if any; return the sweep with its path."""
    results = sweep.files.get("results")
    if results is None:
        return sweep
    path = sweep_path(Path(results))
    try:
        write_whole(path, known_secrets().to_json(sweep.to_dict(), indent=2) + "\n")
        for folder in (path.parent, path.parent.parent):  # results, and lists of formats
            remove_abandoned(folder)
    except OSError as error:
        raise OutputError(f"The summary cannot be written to {path}: {error.strerror}.") from None
    return replace(sweep, files={**sweep.files, "summary": str(path)})
