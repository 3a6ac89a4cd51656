"""``lm-eval sweep``: tasks × many formats of a grammar → how much of a score is the format."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from lm_eval import evaluator
from lm_eval.cli.arguments import parse_seeds, split_list
from lm_eval.cli.lab_commands import IN_TERMINAL
from lm_eval.cli.run import check_output, run_of, task_manager
from lm_eval.errors import UsageError
from lm_eval.lab.sweep import sweep as sweeping
from lm_eval.lab.sweep.cells import OpenedModel
from lm_eval.lab.sweep.setup import Setup, Wanted, setup, with_answers, write_summary
from lm_eval.lab.sweep.sweep import Sweep
from lm_eval.lab.sweep.tables import check_folder, save_plots, sweep_scores_plot
from lm_eval.run.forecast import forecast
from lm_eval.run.plan import Run
from lm_eval.run.prepare import check_samples
from lm_eval.tasks.index import split_selector
from lm_eval.tasks.task import ConfigurableTask
from lm_eval.text.secrets import hiding, secrets_in


def sweep(args: argparse.Namespace) -> int:
    """Sweep every task and print the results; with ``--dry_run``, print the costs alone."""
    check(args)
    run = with_answers(run_of(args))
    with hiding(secrets_in(run.model_args)):
        tasks = load_tasks(args, run)
        check_samples(tasks, run.options)
        wanted = Wanted(
            formats=args.formats,
            axis=args.axis,
            budget=args.budget,
            search=args.search,
            seed=seed_of(args.seed),
            saves=not args.dry_run,
        )
        with OpenedModel(run) as opened:
            ready = [setup(run, task, wanted, opened) for task in tasks]
            if args.dry_run:
                print_dry_run(ready, run)
                return 0
            for prepared in ready:
                show(swept(prepared, run), args.plots)
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
    if args.search is not None and args.max_failed != "0":
        raise UsageError(
            "--search compares formats on the same items and needs every answer, so --max_failed cannot "
            "be given with it."
        )
    if args.search is None and args.search_method is not None:
        raise UsageError(
            "--search_method says how to search, but not what for: add --search best, worst or both."
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


def show(result: Sweep, plots: str | None) -> None:
    """Print the result and the paths of its files; draw or save the plots."""
    from lm_eval.lab.sweep.tables import print_sweep
    from lm_eval.text.terminal import console, print_line

    print_sweep(result, console())
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
    from lm_eval.reports.table import Forecast, print_forecasts, total_estimate
    from lm_eval.text.terminal import console, print_line

    forecasts = []
    for prepared in ready:
        plan = prepared.plan
        tasks, asked = prepared.asker.tasks_of(plan.cells())
        estimate = total_estimate(forecast(asked, tasks))
        name = f"{plan.name}, {plan.num_formats} formats"
        forecasts.append(Forecast(name, plan.most_cells, estimate))  # its docs are cells
        text = (
            f"{plan.name}: {plan.num_formats} formats ({plan.formats.axis}) × {plan.num_items} items = "
            f"{plan.all_cells:,} cells; {'' if plan.search is None else 'at most '}"
            f"{plan.most_cells:,} would be asked"
        )
        if plan.search is not None:
            choosing, again = plan.search_cells
            text += f": {choosing:,} to search, {again:,} to score what it finds"
        print_line(f"{text}.")
    console().print()
    print_forecasts(forecasts, console(), prices=run.prices)
