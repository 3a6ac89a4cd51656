"""``lm-eval reread``: stored answers, or the collection of odd ones, read with another reader."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from lm_eval.cli.arguments import split_list
from lm_eval.errors import UsageError
from lm_eval.formats.list_file import add_formats
from lm_eval.formats.readers import BoundReader
from lm_eval.lab.reread.items import ReadAgain, given_reader, reader_words
from lm_eval.lab.reread.odd_answers import print_corpus, read_corpus
from lm_eval.lab.reread.report import print_reread
from lm_eval.lab.reread.results import rereadable, rereads
from lm_eval.lab.stored.select import one_run
from lm_eval.text.encode import to_json
from lm_eval.text.files import output_file
from lm_eval.text.terminal import console, print_written

Sink = Callable[[dict[str, Any]], None]
Report = Callable[[], None]
"""Prints what was found, after the file is written: `| head` must not cost the file."""


def reread(args: argparse.Namespace) -> int:
    """Read again, and show what changes."""
    if args.show < 0:
        raise UsageError(f"--show {args.show} is below zero. Give 0 or more.")
    if args.corpus == (args.run is not None):
        raise UsageError(
            "Give a run whose answers are read again (`lm-eval reread RUN --scorer choice`), or "
            "--corpus for the collection of odd answers (`lm-eval reread --corpus --scorer choice`)."
        )
    if args.corpus and (args.tasks or args.format):
        raise UsageError(
            "--tasks and --format choose among the results of a run; --corpus is read as a whole. "
            "Leave them out."
        )
    add_formats(args.format_path)
    reader = given_reader(args.scorer or (), args.like)
    with _written(args.output_path) as write:
        report = (
            _reread_corpus(args, reader, write) if args.corpus else _reread_run(args, reader, write)
        )
    report()
    if args.output_path:
        print_written(args.output_path)
    return 0


def _reread_corpus(args: argparse.Namespace, reader: BoundReader, write: Sink) -> Report:
    rows = list(read_corpus(reader))
    for row in rows:
        write(row.to_dict())
    return lambda: print_corpus(rows, reader_words(reader), console(), show=args.show)


def _reread_run(args: argparse.Namespace, reader: BoundReader, write: Sink) -> Report:
    run = one_run(args.run)

    def on_item(name: str, item: ReadAgain) -> None:
        write({"name": name, **item.to_dict()})

    parts = [
        result
        for name in rereadable(run, split_list(args.tasks), split_list(args.format))
        for result in rereads(
            run,
            name,
            reader,
            reader_words(reader),
            show=args.show,
            include_path=args.include_path,
            on_item=on_item,
        )
    ]

    def report() -> None:
        for result in parts:
            print_reread(result, console())

    return report


@contextmanager
def _written(path: str | None) -> Iterator[Sink]:
    """What takes rows for the file of ``--output_path``, which is replaced only when all is done."""
    if path is None:
        yield lambda _: None
        return
    if not path.endswith(".jsonl"):
        raise UsageError(f"--output_path {path!r}: give a file that ends in .jsonl.")
    with output_file(path) as file:
        yield lambda row: print(to_json(row), file=file)
