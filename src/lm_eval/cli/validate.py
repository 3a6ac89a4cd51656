"""``lm-eval validate``: every field checked and real docs rendered, with no model and no task code."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from lm_eval.cli.arguments import split_list
from lm_eval.errors import CodeNotRunError, LmEvalError, UsageError
from lm_eval.evaluator import RunOptions, prepare
from lm_eval.reports.terminal import visible
from lm_eval.requests import PromptOptions
from lm_eval.runs import add_formats
from lm_eval.tasks.loader import TaskManager


def validate(args: argparse.Namespace) -> int:
    """Print a line for each task; exit code 1 if any of them cannot run."""
    add_formats(args.format_path)
    manager = TaskManager(args.include_path, run_code=args.run_code)
    if args.num_fewshot is not None and args.num_fewshot < 0:
        raise UsageError(f"--num_fewshot {args.num_fewshot} is below zero. Give 0 or more.")
    selectors = list(manager.names("task")) if args.all else split_list(args.tasks)
    if not selectors:
        raise UsageError("No tasks. Name some with --tasks, or check all with --all.")
    good = skipped = bad = 0
    for name, docs, error in _checked(manager, selectors, args.num_fewshot):
        if error is None:
            good += 1
            print(f"ok       {name}: {docs} docs rendered")
        elif isinstance(error, CodeNotRunError):
            skipped += 1
            print(f"skipped  {name}: {visible(str(error), keep=chr(10))}")
        else:
            bad += 1
            print(f"error    {name}: {visible(str(error), keep=chr(10))}")
    for problem in manager.problems:
        bad += args.all  # a broken file beside the tasks that were asked for is not theirs
        print(f"{'error' if args.all else 'note':<8} {visible(str(problem), keep=chr(10))}")
    parts = [f"{good} ok", f"{bad} with errors"]
    if skipped:
        parts.append(f"{skipped} not checked because they need --run_code")
    print(f"{good + bad + skipped} checked: {', '.join(parts)}.")
    return 1 if bad else 0


def _checked(
    manager: TaskManager, selectors: list[str], num_fewshot: int | None
) -> Iterator[tuple[str, int, LmEvalError | None]]:
    options = RunOptions(prompt=PromptOptions(num_fewshot=num_fewshot))
    for selector in selectors:
        try:
            tasks = manager.load([selector])["tasks"]
        except LmEvalError as error:
            yield selector, 0, error
            continue
        for task in tasks.values():
            try:
                yield task.name, len(prepare(task, options).docs), None
            except LmEvalError as error:
                yield task.name, 0, error
