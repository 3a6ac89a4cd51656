"""``lm-eval reread``: stored answers, or the collection of odd ones, read with another reader.

A result of a run is shown with its scores before and after, the test, and the verdicts that flip.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lm_eval.config.arguments import split_list
from lm_eval.errors import UsageError
from lm_eval.formats.list_file import add_formats
from lm_eval.formats.readers import BoundReader
from lm_eval.lab.report import ReportLine, Section, print_report
from lm_eval.lab.reread.corpus import OddAnswer, read_corpus
from lm_eval.lab.reread.items import ReadAgain, Verdict, given_reader, reader_words
from lm_eval.lab.reread.results import NOT_PARSED, Reread, Side, rereadable, rereads
from lm_eval.lab.show.phrases import difference_words, marked, quoted
from lm_eval.lab.stored.select import one_run
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.encode import to_json
from lm_eval.support.files import output_file
from lm_eval.support.numbers import counted, interval, number, percent
from lm_eval.support.terminal import console, print_written, visible

Sink = Callable[[dict[str, Any]], None]


def reread(args: argparse.Namespace) -> int:
    """Read again, and show what changes."""
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
    print_report(report, console())  # after the file is written: `| head` must not cost the file
    if args.output_path:
        print_written(args.output_path)
    return 0


def _reread_corpus(args: argparse.Namespace, reader: BoundReader, write: Sink) -> list[Section]:
    rows = list(read_corpus(reader))
    for row in rows:
        write(row.to_dict())
    return corpus_report(rows, reader_words(reader), show=args.show)


def _reread_run(args: argparse.Namespace, reader: BoundReader, write: Sink) -> list[Section]:
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

    return [section for result in parts for section in reread_report(result)]


@contextmanager
def _written(path: str | None) -> Iterator[Sink]:
    """Writes rows to the file of ``--output_path``, which is replaced only when all is done."""
    if path is None:
        yield lambda _: None
        return
    if not path.endswith(".jsonl"):
        raise UsageError(f"--output_path {path!r}: give a file that ends in .jsonl.")
    with output_file(path) as file:
        yield lambda row: print(to_json(row), file=file)


# The report of a result


_RESULT_COLUMNS = (
    Column("name", "", stays=True),
    Column("score", "Score", is_number=True, stays=True),
    Column("interval", "95 % interval", is_number=True, stays=True),
    Column("read", "Parsed", is_number=True, stays=True),
    Column("score_read", "if parsed", is_number=True, stays=True),
    Column("reader", "Reader", wraps=True, stays=True),
)
MOST_RULES = 6


def reread_report(result: Reread) -> list[Section]:
    """One result."""
    docs = result.paired.n
    to_docs = f" to {counted(docs, 'doc')}" if docs != result.total else ""
    part = f", {result.part}" if result.part else ""
    measure = f"{result.metric} of {counted(result.total, 'stored answer')}{to_docs}"
    sides = {"before": result.before, "after": result.after}
    rows = [_side_row(name, side, result.total) for name, side in sides.items()]
    lines = [
        ReportLine("Change", difference_words(result.paired, "after − before", "higher", "lower")),
        ReportLine("Parsed", _reading_words(result)),
        *(ReportLine(f"Rules {name}", _rules(side.rules)) for name, side in sides.items()),
    ]
    return [
        Section(
            visible(f"{result.name} ({result.model}){part}: {measure}"),
            FittingTable(_RESULT_COLUMNS, [rows]),
            lines,
            result.notes,
        ),
        _flips(result),
    ]


def _side_row(name: str, side: Side, total: int) -> Cells:
    return Cells(
        name=name,
        score=number(side.score.value),
        interval=interval(side.score),
        read=percent(side.read, total),
        score_read=number(side.score_read),
        reader=visible(side.reader),
    )


def _flips(result: Reread) -> Section:
    """The verdicts that flip, with the text of the first."""
    if not result.num_flips:
        return Section(lines=[ReportLine(None, "No verdict flips.")])
    shown, lines = len(result.flips), []
    for item in result.flips:
        change = f"{_score(item.before)} → {_score(item.after)} (right: {visible(item.right, 60)})"
        lines.append(ReportLine(visible(item.item), change))
        for name, verdict in (("before", item.before), ("after", item.after)):
            lines.append(ReportLine(f"  {name}", _verdict(item.reply, verdict)))
    if shown < result.num_flips:
        lines.append(
            ReportLine(None, f"… and {result.num_flips - shown} more: --show {result.num_flips}.")
        )
    return Section(f"Verdicts that flip: {result.num_flips}", lines=lines)


def _reading_words(result: Reread) -> str:
    both, total = result.read_by_both, result.total
    only_after, only_before = result.after.read - both, result.before.read - both
    parts = [
        f"by both: {both} of {total}, {result.same_answer} of them as the same answer",
        f"by the new reader alone: {only_after}",
        f"by the old one alone: {only_before}",
        f"by neither: {total - both - only_after - only_before}",
    ]
    text = "; ".join(parts) + "."
    if result.scores_of_both is None:
        return text
    before, after = map(number, result.scores_of_both)
    return f"{text} On those that both parsed, the score is {before} before and {after} after."


def _rules(rules: Mapping[str, int]) -> str:
    shown = [f"{visible(rule)} {count}" for rule, count in rules.items()]
    more = f" and {len(shown) - MOST_RULES} more" if len(shown) > MOST_RULES else ""
    return ", ".join(shown[:MOST_RULES]) + more


def _score(verdict: Verdict) -> str:
    return {0.0: "wrong", 1.0: "right"}.get(verdict.score, number(verdict.score))


def _verdict(reply: str, verdict: Verdict) -> str:
    if not verdict.is_read:
        return f"{NOT_PARSED}{visible(str(verdict.reason))}, in {quoted(reply)}"
    answer = f"{visible(str(verdict.answer), 60)}, by {visible(str(verdict.rule))}"
    if verdict.span is None:
        return f"{answer}, in {quoted(reply)}"
    return f"{answer}, in “{marked(reply, verdict.span)}”"


# The collection of odd answers


_TABLE_COLUMNS = (
    Column("name", "Table", stays=True),
    Column("total", "Answers", is_number=True, stays=True),
    Column("expected", "As expected", is_number=True, stays=True),
    Column("otherwise", "Otherwise", is_number=True, stays=True),
    Column("unread", "Not parsed", is_number=True, stays=True),
)


def corpus_report(rows: Sequence[OddAnswer], reader: str, *, show: int) -> list[Section]:
    """The counts of each table, and the first answers that were read otherwise or not at all."""
    tables = dict.fromkeys(row.table for row in rows)
    lines = [_table_row(name, [row for row in rows if row.table == name]) for name in tables]
    about = (
        "As expected: the answer that the collection has, or none if it has none. Each table is made "
        "for one reader and its phrase; other readers do not read most of it."
    )
    sections = [
        Section(
            f"{len(rows)} odd answers, read by {visible(reader)}",
            FittingTable(_TABLE_COLUMNS, [lines, [_table_row("all", rows)]]),
            [ReportLine(None, about)],
        )
    ]
    for outcome, title in (("otherwise", "Parsed otherwise"), ("not parsed", "Not parsed")):
        odd = [row for row in rows if row.outcome == outcome]
        if odd[:show]:
            said = [ReportLine(None, _answer_words(row)) for row in odd[:show]]
            sections.append(Section(f"{title}: {len(odd)}", lines=said))
    return sections


def _table_row(name: str, rows: Iterable[OddAnswer]) -> Cells:
    counts = Counter(row.outcome for row in rows)
    return Cells(
        name=visible(name),
        total=str(sum(counts.values())),
        expected=str(counts["as expected"]),
        otherwise=str(counts["otherwise"]),
        unread=str(counts["not parsed"]),
    )


def _answer_words(row: OddAnswer) -> str:
    expected = f"none ({row.why_none})" if row.expected is None else row.expected
    got = f"none ({row.reason})" if row.answer is None else f"{row.answer} (by {row.rule})"
    return (
        f"{visible(row.table)}: {quoted(row.text, 60)} expected {visible(expected, 40)}, "
        f"read {visible(got, 40)}"
    )
