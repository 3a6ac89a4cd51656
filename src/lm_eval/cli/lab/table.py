"""``lm-eval table``: stored runs → their scores as Markdown, LaTeX, CSV, HTML or JSON."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lm_eval.cli.lab.options import choice_of
from lm_eval.config.arguments import split_list
from lm_eval.errors import UsageError
from lm_eval.lab.stored.run import open_runs
from lm_eval.lab.table.layout import TableRequest, make_table
from lm_eval.lab.table.targets import SUFFIXES, render
from lm_eval.support.files import write_output
from lm_eval.support.terminal import never_fail_on_encoding, print_written, visible


def table(args: argparse.Namespace) -> int:
    """Make the table, and print it or write it to a file."""
    target = _target(args.to, args.output_path)
    request = TableRequest(
        rows=split_list(args.rows),
        columns=split_list(args.columns),
        choice=choice_of(args),
        by=args.by,
        baseline=args.baseline,
    )
    made, notes = make_table(open_runs(args.runs), request)
    text = render(made, target)
    if args.output_path is None:
        never_fail_on_encoding(sys.stdout)
        print(text, end="")
    else:
        path = Path(args.output_path).expanduser()
        write_output(path, text)
        print_written(path)
    sys.stdout.flush()
    for note in notes:  # apart from the table, which may go into a file
        print(f"lm-eval: note: {visible(note)}", file=sys.stderr)
    return 0


def _target(asked: str | None, path: str | None) -> str:
    """What ``--to`` says, or the end of the file's name."""
    if asked is not None:
        return asked
    if path is None:
        return "md"
    suffix = Path(path).suffix
    if suffix not in SUFFIXES:
        raise UsageError(
            f"--output_path {path!r}: name a file that ends in {', '.join(SUFFIXES)}, or say what to "
            "write with --to md, latex, csv, html or json."
        )
    return SUFFIXES[suffix]
