"""``lm-eval run``: arguments → a run → its scores on the screen, and where its files are."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lm_eval import evaluator
from lm_eval.config.arguments import parse_pairs, split_list
from lm_eval.errors import LmEvalWarning, UsageError
from lm_eval.registry import MODELS
from lm_eval.reports.samples import write_out
from lm_eval.run.plan import Outcome, Prepared, Run, run_of
from lm_eval.support.files import check_output_file
from lm_eval.support.secrets import hiding, known_secrets, redacted_text
from lm_eval.support.terminal import console, print_line, print_written, visible
from lm_eval.tasks.groups import Group
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask

if TYPE_CHECKING:
    from lm_eval.cli.gates import Requirement


def run(args: argparse.Namespace) -> int:
    """Evaluate, and show what came out; with ``--dry_run``, only what it would cost."""
    names = split_list(args.tasks)
    if not names:
        raise UsageError(
            "No tasks. Name some: `lm-eval run --tasks 'demo_mcq@*'`; `lm-eval ls tasks` lists them."
        )
    check_output(args)
    asked = run_of(vars(args))
    wanted = _requirements(args)
    with hiding(asked.model_args, asked.options.prompt.gen_kwargs):
        tasks, groups = evaluator.load_tasks(names, task_manager(args, asked))

        def show(prepared: Sequence[Prepared]) -> None:
            if wanted:
                from lm_eval.cli.gates import check_known

                check_known(wanted, prepared, groups)
            if args.show_config:
                show_config(prepared)
            if args.write_out:
                write_out(prepared)

        if args.dry_run:
            _print_forecasts(asked, tasks, groups, show)
            return 0
        outcome = evaluator.execute(asked, tasks, groups, on_prepared=show)
        # The files are written by now: a closed pipe must not cost the results.
        _print_outcome(outcome, asked, args)
    return _gate(outcome, wanted, args) if wanted or args.summary else 0


def _requirements(args: argparse.Namespace) -> list[Requirement]:
    """The conditions of ``--require``; ``--junit`` without any is an error."""
    if args.summary and args.predict_only:
        raise UsageError(
            "--summary needs scores, and --predict_only makes none. Remove one of them."
        )
    for path in filter(None, (args.junit, args.summary)):
        check_output_file(path)
    if not args.require:
        if args.junit:
            raise UsageError(
                "--junit writes the conditions of --require, and there are none. Add some, such as "
                "--require 'demo_mcq@mcqa:acc>=0.5'."
            )
        return []
    from lm_eval.cli.gates import requirements

    if args.predict_only:
        raise UsageError(
            "--require needs scores, and --predict_only makes none. Remove one of them."
        )
    return requirements(args.require)


def _gate(outcome: Outcome, wanted: Sequence[Requirement], args: argparse.Namespace) -> int:
    """Print which conditions hold; the exit code says whether all of them do."""
    from lm_eval.cli.gates import FAILED, case_of, checked, write_junit, write_summary

    results = checked(wanted, outcome)
    if results:
        print_line("")
    for result in results:
        print_line(result.line())
    if args.junit:
        seconds = outcome.info.end_time - outcome.info.start_time
        cases = [case_of(result) for result in results]
        print_written(write_junit(args.junit, cases, seconds=seconds))
    if args.summary:
        print_written(write_summary(args.summary, outcome, results))
    return 0 if all(result.holds for result in results) else FAILED


def task_manager(args: argparse.Namespace, run: Run) -> TaskManager:
    """Loads the tasks of ``run`` and ``sweep``; formats of ``--format_path`` are added first.

    Tasks get the model's arguments, without secrets, and ``--metadata``.
    """
    if args.format_path:
        from lm_eval.formats.list_file import add_formats

        add_formats(args.format_path)
    return evaluator.task_manager(
        run.model_args,
        parity=run.parity,
        include_path=args.include_path,
        metadata=parse_pairs(args.metadata, flag="--metadata"),
    )


def _print_forecasts(
    asked: Run,
    tasks: Sequence[ConfigurableTask],
    groups: Sequence[Group],
    show: Callable[[Sequence[Prepared]], None],
) -> None:
    """What the run would ask and cost."""
    from lm_eval.reports.costs import print_forecasts
    from lm_eval.run.forecast import forecast

    forecasts = forecast(asked, tasks, groups, on_prepared=show)
    print_forecasts(forecasts, console(), prices=asked.prices)


def _print_outcome(outcome: Outcome, asked: Run, args: argparse.Namespace) -> None:
    """Print the scores, what else the run found, and where its files are."""
    if args.predict_only:
        from lm_eval.reports.costs import print_costs

        print_costs(outcome.results, console(), asked.prices)
    elif args.table == "markdown":
        _print_markdown(outcome)
    else:
        from lm_eval.screen.page import print_screen

        print_screen(
            outcome,
            console(),
            prices=asked.prices,
            compares=args.compare == "true",
            is_full=args.table == "full",
        )
    if asked.options.prompt.permute is not None and args.table != "markdown":
        from lm_eval.orders.results import print_orders

        print_orders(outcome.results, console())
    warn_about_prices(outcome)
    if args.table == "markdown" or args.predict_only:
        _print_files(outcome)


def _print_files(outcome: Outcome) -> None:
    """Print how many answers were reused, and where the files are."""
    if outcome.info.answers:
        from lm_eval.screen.page import reuse_words

        print_line(reuse_words(outcome))
    if outcome.path is not None:
        print_written(outcome.path)


def _print_markdown(outcome: Outcome) -> None:
    """Print the scores as the harness does, for scripts that read its table."""
    from lm_eval.support.markdown import make_table

    results = outcome.as_dict()
    for column in ("results", "groups"):
        if column in results:
            print(visible(make_table(results, column), keep="\n"))


def warn_about_prices(outcome: Outcome) -> None:
    """Warn if prices were given but the model counted no tokens."""
    if outcome.info.prices is None:
        return
    from lm_eval.reports.costs import cost_table

    if cost_table(outcome.results) is None:
        warnings.warn(
            f"Model {outcome.info.model!r} counted no tokens in this run, so --prices had no effect.",
            LmEvalWarning,
            stacklevel=2,
        )


def check_output(args: argparse.Namespace) -> None:
    """Refuse flags about files if no files are written, and an unknown model."""
    if args.output_path is not None and not args.output_path.strip():
        raise UsageError("--output_path is empty. Name a folder.")
    if args.predict_only and not args.output_path:
        raise UsageError("--predict_only saves answers and so needs --output_path.")
    if args.log_samples and not args.output_path:
        raise UsageError("--log_samples writes files and so needs --output_path.")
    if args.use_cache is not None and not args.use_cache.strip():
        raise UsageError("--use_cache is empty. Name a file for the answers.")
    if args.model is not None and args.model not in MODELS:
        raise MODELS.unknown(args.model)
    check_multiturn(args, as_chat=args.apply_chat_template)


def check_multiturn(args: argparse.Namespace, *, as_chat: bool | None) -> None:
    """Refuse turns of examples where there is no chat."""
    if args.fewshot_as_multiturn and not as_chat:
        raise UsageError("--fewshot_as_multiturn needs --apply_chat_template.")


def show_config(prepared: Sequence[Prepared]) -> None:
    """Print the config of each task, as the results file will hold it."""
    for task in (each.task for each in prepared):
        print(f"── {visible(task.name)}")
        shown = known_secrets().to_json(task.config.to_dict(), indent=2)
        print(visible(redacted_text(shown), keep=chr(10)))
