"""``lm-eval diff``: why two stored runs have different scores."""

from __future__ import annotations

import argparse

from lm_eval.cli.arguments import split_list
from lm_eval.errors import UsageError
from lm_eval.lab.diff.report import print_diff
from lm_eval.lab.diff.runs import diff_runs
from lm_eval.lab.stored.select import one_run
from lm_eval.text.encode import to_json
from lm_eval.text.files import write_output
from lm_eval.text.terminal import console, print_written


def diff(args: argparse.Namespace) -> int:
    """Compare two runs and print what explains their difference."""
    if args.show < 0:
        raise UsageError(f"--show {args.show} is below zero. Give 0 or more.")
    report = diff_runs(
        one_run(args.run_a),
        one_run(args.run_b),
        names=split_list(args.tasks),
        formats=_formats(args.formats),
        show=args.show,
    )
    if args.output_path:
        write_output(args.output_path, to_json(report.to_dict(), indent=2) + "\n")
    print_diff(report, console(), show=args.show)
    if args.output_path:
        print_written(args.output_path)
    return 0


def _formats(text: str | None) -> tuple[str, str] | None:
    names = split_list(text)
    if text is None:
        return None
    if len(names) != 2:
        raise UsageError(
            f"--formats {text!r}: give two names, the format in the first run and the one in the "
            "second, as in --formats mcqa,cot."
        )
    return names[0], names[1]
