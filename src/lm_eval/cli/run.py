"""``lm-eval run``: arguments → a run → its scores on the screen, and where its files are."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from lm_eval import evaluator
from lm_eval.answers.ask import allowed_failures
from lm_eval.config.arguments import (
    check_num_fewshot,
    parse_batch_size,
    parse_pairs,
    parse_samples,
    parse_seeds,
    split_list,
)
from lm_eval.errors import LmEvalWarning, UsageError
from lm_eval.registry import MODELS
from lm_eval.reports.samples import write_out
from lm_eval.requests import PromptOptions, allowed_count, check_limit
from lm_eval.run.plan import BATCH_LOOK_S, Outcome, Prepared, Run, RunOptions
from lm_eval.tasks.fewshot import DEFAULT_SEED
from lm_eval.tasks.groups import Group
from lm_eval.tasks.loader import TaskManager
from lm_eval.tasks.task import ConfigurableTask
from lm_eval.text.files import check_output_file
from lm_eval.text.secrets import hiding, known_secrets, redacted_text
from lm_eval.text.terminal import console, print_line, print_written, visible

if TYPE_CHECKING:
    from lm_eval.cli.gates import Requirement
    from lm_eval.orders.permutation import Permutation


def run(args: argparse.Namespace) -> int:
    """Evaluate, and show what came out; with ``--dry_run``, only what it would cost."""
    names = split_list(args.tasks)
    if not names:
        raise UsageError(
            "No tasks. Name some: `lm-eval run --tasks 'demo_mcq@*'`; `lm-eval ls tasks` lists them."
        )
    check_output(args)
    asked = run_of(args)
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
    from lm_eval.text.markdown import make_table

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


def run_of(args: argparse.Namespace) -> Run:
    """The run that the flags ask for."""
    seeds = parse_seeds(args.seed)
    run = Run(
        model=args.model,
        model_args=parse_pairs(args.model_args, flag="--model_args"),
        batch_size=parse_batch_size(args.batch_size),
        max_batch_size=args.max_batch_size,
        device=args.device,
        trust_remote_code=args.trust_remote_code,
        options=run_options(args, seeds),
        seeds=seeds,
        parity=args.parity,
        output_path=args.output_path,
        use_cache=args.use_cache,
        command=args.command_line,
        batch_api=_batch_seconds(args.batch_api),
    )
    return run.with_prices(args.prices)


def _batch_seconds(value: str | float | None) -> float | None:
    """The seconds between two looks at batches; None: requests are sent one by one."""
    if value in (None, "false", False):
        return None
    try:
        seconds = BATCH_LOOK_S if value in ("true", True) else float(str(value))
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"--batch_api {value}: give a number of seconds above 0, or none.")
    return seconds


def run_options(args: argparse.Namespace, seeds: Mapping[str, int | None]) -> RunOptions:
    """The options that tasks see."""
    if args.limit is not None and args.samples is not None:
        raise UsageError("--limit and --samples both choose docs. Give one of them.")
    if args.limit is not None:
        check_limit(args.limit)
    allowed_failures(args.max_failed, 0)
    allowed_count(args.max_skipped, 0, flag="--max_skipped", what="docs")
    prompt = prompt_options(args, as_chat=args.apply_chat_template)
    seed = seeds["fewshot_seed"]
    return RunOptions(
        prompt=prompt,
        limit=args.limit,
        samples=parse_samples(args.samples),
        fewshot_seed=DEFAULT_SEED if seed is None else seed,
        predict_only=args.predict_only,
        runs_unsafe_code=args.confirm_run_unsafe_code,
        max_failed=args.max_failed,
        max_skipped=args.max_skipped,
        show_redacted=args.show_redacted,
    )


def prompt_options(args: argparse.Namespace, *, as_chat: bool | None) -> PromptOptions:
    """How questions are asked, from the flags that ``run`` and ``preview`` share."""
    check_num_fewshot(args.num_fewshot)
    multiturn = args.fewshot_as_multiturn
    wants_multiturn = multiturn == "true"
    if multiturn is not None and wants_multiturn and not as_chat:
        raise UsageError("--fewshot_as_multiturn needs --apply_chat_template.")
    return PromptOptions(
        num_fewshot=args.num_fewshot,
        as_chat=as_chat,
        multiturn=wants_multiturn if multiturn is not None else True,
        system_instruction=args.system_instruction,
        gen_kwargs=parse_pairs(getattr(args, "gen_kwargs", None), flag="--gen_kwargs"),
        permute=_permutation(args.permute),
    )


def _permutation(text: str | None) -> Permutation | None:
    if text is None:
        return None
    from lm_eval.orders.permutation import parse_permutation

    return parse_permutation(text)


def show_config(prepared: Sequence[Prepared]) -> None:
    """Print the config of each task, as the results file will hold it."""
    for task in (each.task for each in prepared):
        print(f"── {visible(task.name)}")
        shown = known_secrets().to_json(task.config.to_dict(), indent=2)
        print(visible(redacted_text(shown), keep=chr(10)))
