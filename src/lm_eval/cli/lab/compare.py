"""``lm-eval compare``: stored runs → which differences between formats or models are real."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval.cli.lab.options import IN_TERMINAL, choice_of
from lm_eval.errors import ComparisonError, UsageError, listing
from lm_eval.lab.compare.statistics import Options
from lm_eval.lab.compare.statistics import compare as compared
from lm_eval.lab.report import print_report, to_markdown, write_report
from lm_eval.lab.stored.run import open_runs
from lm_eval.lab.stored.select import chosen
from lm_eval.support.files import write_output
from lm_eval.support.numbers import number, p_equals

if TYPE_CHECKING:
    from lm_eval.cli.gates import GateCase
    from lm_eval.lab.compare.regression import ResultChange

WRITTEN = (".json", ".md")


def compare(args: argparse.Namespace) -> int:
    """Compare, print the report, and write what was asked for."""
    from lm_eval.lab.compare.tables import sections, show_scores, write_plots
    from lm_eval.support.terminal import console, print_written

    _check(args)
    if args.fail_if_worse is not None:
        return _gate(args)
    measurements, notes = chosen(open_runs(args.runs), choice_of(args))
    try:
        report = compared(measurements, options_of(args))
    except ComparisonError as error:
        raise ComparisonError(" ".join([str(error), *notes])) from None
    report = replace(report, notes=(*notes, *report.notes))
    # Files come first, so that `| head` on the report still gets them.
    paths = []
    if args.plots not in (None, IN_TERMINAL):
        paths = write_plots(report, Path(args.plots).expanduser())
    if args.output_path is not None:
        whole = sections(report, flips=args.flips)
        paths.append(write_report(args.output_path, whole, report.to_dict()))
    print_report(sections(report, flips=args.flips, explains=args.explain), console())
    if args.plots == IN_TERMINAL:
        show_scores(report, console())
    for path in paths:
        print_written(path)
    return 0


def _gate(args: argparse.Namespace) -> int:
    """Print what changed from the first run to the second; exit code 3 if something is worse."""
    from lm_eval.cli.gates import FAILED, write_junit
    from lm_eval.lab.compare.regression import regression_report, regressions
    from lm_eval.support.terminal import console, print_written

    before, after = (open_runs([run]) for run in args.runs)
    report = regressions(
        before,
        after,
        choice_of(args),
        level=args.fail_if_worse,
        method=args.method,
        intersect=args.intersect,
        seed=args.seed,
    )
    shown, paths = regression_report(report), []
    if args.output_path is not None:
        paths.append(write_report(args.output_path, shown, report.to_dict()))
    if args.junit:
        paths.append(write_junit(args.junit, [_case(change) for change in report.changes]))
    if args.summary:
        paths.append(Path(args.summary).expanduser())
        write_output(paths[-1], to_markdown(shown, level=3))
    print_report(shown, console())
    for path in paths:
        print_written(path)
    return FAILED if report.worse else 0


def _case(change: ResultChange) -> GateCase:
    """A result as a test case, which fails if the result is worse."""
    from lm_eval.cli.gates import GateCase
    from lm_eval.lab.compare.regression import WORSE

    failure = (
        f"{change.metric} fell from {number(change.before.value)} to {number(change.after.value)}, "
        f"{p_equals(change.p_adjusted)}"
    )
    is_worse = change.verdict == WORSE
    return GateCase(change.name, f"{change.name} is not worse", failure if is_worse else None)


def options_of(args: argparse.Namespace) -> Options:
    """The settings of the comparison, from the flags."""
    return Options(
        intersect=args.intersect,
        resamples=args.resamples,
        seed=args.seed,
        default=args.default,
        method=args.method,
        flips=args.flips is not None,
    )


def _check(args: argparse.Namespace) -> None:
    """Refuse impossible flags before any work is done."""
    _check_gate(args)
    path = args.output_path
    if path is not None and Path(path).suffix not in WRITTEN:
        raise UsageError(
            f"--output_path {path!r}: name a file that ends in .json (everything) or .md (the report)."
        )


_OF_REPORTS = ("flips", "plots", "default")
"""Flags of the whole report, which --fail_if_worse does not print."""


def _check_gate(args: argparse.Namespace) -> None:
    """Refuse what does not go with ``--fail_if_worse``, and its own flags without it."""
    if args.fail_if_worse is None:
        for flag in ("junit", "summary"):
            if getattr(args, flag):
                raise UsageError(
                    f"--{flag} writes what --fail_if_worse finds. Add --fail_if_worse; the whole report "
                    "goes to a file with --output_path report.md."
                )
        return
    if len(args.runs) != 2:
        raise UsageError(
            "--fail_if_worse compares exactly two runs, the one before and the one after: `lm-eval "
            f"compare OLD NEW --fail_if_worse`. Given: {listing(args.runs, 5)}."
        )
    for flag in _OF_REPORTS:
        if getattr(args, flag) is not None:
            raise UsageError(
                f"--{flag} is for the whole report, which --fail_if_worse does not print. Leave one of "
                "them out."
            )
