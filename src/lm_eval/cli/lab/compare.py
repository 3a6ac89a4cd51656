"""``lm-eval compare``: stored runs → which differences between formats or models are real."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from lm_eval.cli.lab.options import IN_TERMINAL, choice_of
from lm_eval.errors import ComparisonError, UsageError
from lm_eval.lab.compare.statistics import Options
from lm_eval.lab.compare.statistics import compare as compared
from lm_eval.lab.compare.values import ComparisonReport
from lm_eval.lab.stored.run import open_runs
from lm_eval.lab.stored.select import chosen
from lm_eval.text.files import write_output

FEWEST_RESAMPLES, MOST_RESAMPLES = 100, 1_000_000
WRITTEN = (".json", ".md")


def compare(args: argparse.Namespace) -> int:
    """Compare, print the report, and write what was asked for."""
    from lm_eval.lab.compare.tables import print_comparison, show_scores, write_plots
    from lm_eval.text.terminal import console, print_written

    _check(args)
    measurements, notes = chosen(open_runs(args.runs), choice_of(args))
    try:
        report = compared(measurements, options_of(args))
    except ComparisonError as error:
        raise ComparisonError(" ".join([str(error), *notes])) from None
    report = replace(report, notes=(*notes, *report.notes))
    # Files come first: whoever reads only the top of the report (`| head`) gets them all the same.
    paths = []
    if args.plots not in (None, IN_TERMINAL):
        paths = write_plots(report, Path(args.plots).expanduser())
    if args.output_path is not None:
        paths.append(write(report, Path(args.output_path).expanduser(), flips=args.flips))
    print_comparison(report, console(), flips=args.flips)
    if args.plots == IN_TERMINAL:
        show_scores(report, console())
    for path in paths:
        print_written(path)
    return 0


def options_of(args: argparse.Namespace) -> Options:
    """How the flags ask to compare them."""
    return Options(
        intersect=args.intersect,
        resamples=args.resamples,
        seed=args.seed,
        default=args.default,
        method=args.method,
        flips=args.flips is not None,
    )


def write(report: ComparisonReport, path: Path, *, flips: int | None = None) -> Path:
    """Write the comparison as JSON or Markdown, by the file's suffix."""
    from lm_eval.lab.compare.tables import comparison_markdown
    from lm_eval.text.encode import to_json

    text = (
        comparison_markdown(report, flips=flips)
        if path.suffix == ".md"
        else to_json(report.to_dict(), indent=1) + "\n"
    )
    write_output(path, text)
    return path


def _check(args: argparse.Namespace) -> None:
    """Refuse flags that cannot be followed before any work is done."""
    if args.resamples < FEWEST_RESAMPLES:
        raise UsageError(
            f"--resamples {args.resamples} is too few for an interval. Give {FEWEST_RESAMPLES} or more."
        )
    if args.resamples > MOST_RESAMPLES:
        raise UsageError(
            f"--resamples {args.resamples} is too many. Give {MOST_RESAMPLES} or fewer: beyond "
            "10000, the digits shown hardly change."
        )
    if args.flips is not None and args.flips < 1:
        raise UsageError(f"--flips {args.flips}: give the number of docs to list, 1 or more.")
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed} is below zero. Give 0 or more.")
    path = args.output_path
    if path is not None and Path(path).suffix not in WRITTEN:
        raise UsageError(
            f"--output_path {path!r}: name a file that ends in .json (everything) or .md (the report)."
        )
