"""``lm-eval diff``: why two stored runs have different scores.

Two runs on one screen: their scores with the paired test, a line for each topic, the same or different,
and what explains the difference.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lm_eval.config.arguments import split_list
from lm_eval.errors import UsageError, listing
from lm_eval.lab.diff.facts import FactDiff, in_order
from lm_eval.lab.diff.items import ItemDiff, Sample, answer_text, prompt_texts
from lm_eval.lab.diff.runs import ResultDiff, RunDiff, conclusion, diff_runs
from lm_eval.lab.report import ReportLine, Section, print_report, write_report
from lm_eval.lab.show.phrases import at_index, difference_words, first_difference, quoted
from lm_eval.lab.stored.select import one_run
from lm_eval.stats.estimates import Estimate
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.numbers import (
    counted,
    number,
    p_value,
    percent,
    signed,
    value_of,
    with_interval,
)
from lm_eval.support.terminal import console, print_written, visible

_COLUMNS = (
    Column("name", "Result", wraps=True, stays=True),
    Column("first", "A", is_number=True, stays=True),
    Column("second", "B", is_number=True, stays=True),
    Column("difference", "A − B", is_number=True, stays=True),
    Column("p", "p", is_number=True),
    Column("items", "items", is_number=True),
    Column("prompts", "prompts", is_number=True),
    Column("answers", "answers", is_number=True),
    Column("readings", "readings", is_number=True),
    Column("scoring", "scoring", is_number=True),
)
MOST_ROWS = 12
MOST_CHANGES = 4
LONG_FIELD = 50
Line = tuple[str, str]
"""A topic (empty if the line continues the previous one) and the text about it."""


def diff(args: argparse.Namespace) -> int:
    """Compare two runs and print what explains their difference."""
    report = diff_runs(
        one_run(args.run_a),
        one_run(args.run_b),
        names=split_list(args.tasks),
        formats=_formats(args.formats),
        show=args.show,
    )
    shown = diff_report(report, show=args.show)
    written = args.output_path and write_report(args.output_path, shown, report.to_dict())
    print_report(shown, console())
    if written:
        print_written(written)
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


# The report


def diff_report(report: RunDiff, *, show: int) -> list[Section]:
    """Two runs; of several results, the one with the largest difference is shown in full."""
    named = [
        f"{side}  {run.model}  {run.path}" for side, run in zip("AB", report.runs, strict=True)
    ]
    sections = [Section(lines=[ReportLine(None, visible(text)) for text in named])]
    result = max(report.results, key=_size)
    if len(report.results) > 1:
        sections.append(_all_results(report.results, result))
    left_out = [
        f"Only in {side}: {listing(names, 6)}."
        for side, names in zip("AB", report.left_out, strict=True)
        if names
    ]
    said = [ReportLine(None, text) for text in conclusion(result, report.findings)]
    return [*sections, *_result(result, report, show), Section(lines=said, notes=left_out)]


def _result(result: ResultDiff, report: RunDiff, show: int) -> list[Section]:
    lines = list(fact_lines(in_order([*report.findings, *result.findings]), show))
    scores = [ReportLine(None, _scores(result))]
    if result.items is not None:
        shared = len(result.items.paired[0])
        lines += [*item_lines(result.items), *read_line(result.items)]
        lines += [("verdicts", verdict_line(result.items))] if shared else []
        words = result.no_test
        if result.paired is not None:
            words = difference_words(result.paired, "A − B", "higher in A", "higher in B")
        if words:
            items = "item" if shared == 1 else counted(shared, "item")
            scores.append(ReportLine(None, f"On the {items} of both: {words}"))
    labelled = [ReportLine(topic, text) for topic, text in lines]
    return [Section(lines=scores), Section(lines=labelled)]


def _all_results(results: Sequence[ResultDiff], shown: ResultDiff) -> Section:
    ordered = sorted(results, key=_size, reverse=True)
    lines = []
    if len(ordered) > MOST_ROWS:
        lines.append(f"… and {len(ordered) - MOST_ROWS} more with less.")
    if any(result.parts for result in results):
        lines.append(
            "items … scoring: how much of the difference comes from items that one run lacks, from "
            "other prompts, other answers to the same prompt, other readings of the same answer, other "
            "scores of the same reading. p is about the items of both."
        )
    why = "the largest" if _size(shown) else "the first"
    lines.append(f"In full: {_title(shown)}, {why}. Choose with --tasks.")
    table = FittingTable(_COLUMNS, [[_row(result) for result in ordered[:MOST_ROWS]]])
    return Section(table=table, lines=[ReportLine(None, line) for line in lines])


def _row(result: ResultDiff) -> Cells:
    first, second = result.scores
    return Cells(
        name=_title(result),
        first=value_of(first),
        second=value_of(second),
        difference=signed(result.difference, 3),
        p="" if result.paired is None else p_value(result.paired.p),
        **{name: signed(value, 3) for name, value in result.parts.items()},
    )


def _size(result: ResultDiff) -> float:
    return abs(result.difference or 0.0)


def _title(result: ResultDiff) -> str:
    first, second = map(visible, result.names)
    return first if first == second else f"{first} and {second}"


def _scores(result: ResultDiff) -> str:
    first, second = result.metrics
    metric = first if first == second else f"{first} and {second}"
    shown = [_score(side, score) for side, score in zip("AB", result.scores, strict=True)]
    total = "" if result.difference is None else f"; A − B {signed(result.difference, 3)}"
    return f"{_title(result)}, {visible(metric)}: {', '.join(shown)}{total}"


def _score(side: str, score: Estimate | None) -> str:
    if score is None:
        return f"{side} has none"
    count = f" on {counted(score.n, 'item')}" if score.n else ""
    return f"{side} {with_interval(score)}{count}"


# Lines by topic


def fact_lines(findings: Sequence[FactDiff], show: int) -> Iterator[Line]:
    """One line for each topic of the settings."""
    for finding in findings:
        if not finding.changes:
            yield finding.topic, f"same{f': {visible(finding.same, 70)}' if finding.same else ''}"
            continue
        most = MOST_CHANGES * max(show, 1)
        shown = "; ".join(visible(change.words()) for change in finding.changes[:most])
        more = len(finding.changes) - most
        yield finding.topic, shown + (f"; and {more} more" if more > 0 else "")


def item_lines(items: ItemDiff) -> Iterator[Line]:
    """One line for each step from the items to the verdicts, with the first examples."""
    counts = items.counts
    yield from _items(items)
    if not counts["shared"]:
        return
    shots = _of(counts["shots"], counts["shared"], "have other ones")
    yield "examples", "not stored separately" if counts["no_shots"] else shots
    yield from _prompts(items)
    if counts["targets"]:
        yield "targets", _of(counts["targets"], counts["shared"], "differ")
        for a, b in items.examples["targets"][:1]:
            yield "", f"doc {a['doc_id']}: {_short(a.get('target'))} → {_short(b.get('target'))}"
    if not counts["same_prompts"]:
        return
    if counts["tokens"]:
        yield "tokens", _of(counts["tokens"], counts["same_prompts"], "are split differently")
        for a, b in items.examples["tokens"][:1]:
            yield "", f"doc {a['doc_id']}: {a['tokens']} → {b['tokens']} tokens"
    yield "answers", _of(counts["answers"], counts["same_prompts"], "differ after the same prompt")
    yield from _answers(items)
    if counts["same_answers"]:
        yield (
            "readings",
            _of(counts["readings"], counts["same_answers"], "differ for the same answer"),
        )
    for a, b in items.examples.get("readings", ()):
        yield "", f"doc {a['doc_id']}: {quoted(answer_text(a), 60)}"
        yield "", f"read as {_reading(a)} → {_reading(b)}"


def read_line(items: ItemDiff) -> Iterator[Line]:
    """How many answers could be read in each run."""
    counts = items.counts
    if counts["with_reading"]:
        shares = [
            percent(counts[f"read_{side}"], counts[f"replies_{side}"])
            if counts[f"reads_{side}"]
            else "nothing to parse"
            for side in "ab"
        ]
        yield "parsed", shares[0] if shares[0] == shares[1] else f"{shares[0]} → {shares[1]}"


def verdict_line(items: ItemDiff) -> str:
    """Which docs score higher in which run."""
    first, second = items.flips
    if not first and not second:
        return "the same on every shared item"
    sides = (("A", first), ("B", second))
    return "; ".join(
        f"{len(docs)} higher in {side}{f' (docs {listing(map(str, docs), 8)})' if docs else ''}"
        for side, docs in sides
    )


def _items(items: ItemDiff) -> Iterator[Line]:
    counts = items.counts
    parts = [f"{counts['shared']} in both"]
    for side in "ab":
        if counts[f"only_{side}"]:
            parts.append(f"{counts[f'only_{side}']} in {side.upper()} only")
    if counts["changed"]:
        parts.append(f"{counts['changed']} under the same number with other content")
    if counts["moved"]:
        parts.append(f"{counts['moved']} of these are in the other run under another number")
    if counts["unscored"]:
        parts.append(f"{counts['unscored']} of those in both without a score in one of them")
    yield "items", ", ".join(parts)
    for a, b in items.examples.get("changed", ()):
        yield "", f"doc {a['doc_id']}, {_first_field(a.get('doc'), b.get('doc'))}"


def _first_field(first: Any, second: Any) -> str:
    if not isinstance(first, Mapping) or not isinstance(second, Mapping):
        return f"{_short(first)} → {_short(second)}"
    for key in dict.fromkeys([*first, *second]):
        if first.get(key) != second.get(key):
            change = _field_change(str(first.get(key)), str(second.get(key)))
            return f"{visible(str(key), 30)}{change}"
    return "the same fields, hashed differently"


def _field_change(first: str, second: str) -> str:
    """Two texts in full if they are short, otherwise around the first character that differs."""
    if max(len(first), len(second)) <= LONG_FIELD:
        return f": {quoted(first, LONG_FIELD)} → {quoted(second, LONG_FIELD)}"
    index = first_difference(first, second)
    texts = [at_index(text, index, LONG_FIELD // 2) for text in (first, second)]
    return f", from character {index} on: “{texts[0]}” → “{texts[1]}”"


def _prompts(items: ItemDiff) -> Iterator[Line]:
    counts = items.counts
    if not counts["no_prompts"]:
        yield "prompts", _of(counts["prompts"], counts["shared"], "differ")
        for a, b in items.examples.get("prompts", ()):
            yield from _prompt_example(a, b)
        return
    differing = _of(counts["prompts"], counts["shared"], "are made differently")
    yield "prompts", f"not stored; by what they are made from: {differing}"
    for a, b in items.examples.get("prompts", ()):
        yield "", f"{_short(a.get('prompt_key'))} → {_short(b.get('prompt_key'))}"


def _prompt_example(a: Sample, b: Sample) -> Iterator[Line]:
    ours, theirs = prompt_texts(a), prompt_texts(b)
    pairs = zip(ours, theirs, strict=False)
    pair = next(((first, second) for first, second in pairs if first != second), None)
    if pair is None:
        yield "", f"doc {a['doc_id']}: {len(ours)} → {len(theirs)} requests"
        return
    index = first_difference(*pair)
    yield "", f"doc {a['doc_id']}, from character {index} on:"
    for side, text in zip("AB", pair, strict=True):
        yield "", f"{side}  {at_index(text, index)}"


def _answers(items: ItemDiff) -> Iterator[Line]:
    if items.num_numbers:
        yield "", f"log-likelihoods are at most {number(items.largest_change)} apart"
    for a, b in items.examples.get("answers", ()):
        answers = f"{quoted(answer_text(a), 60)} → {quoted(answer_text(b), 60)}"
        yield "", f"doc {a['doc_id']}: {answers}"


def _reading(sample: Sample) -> str:
    reading = sample.get("reading")
    if not isinstance(reading, Mapping):
        return _short(sample.get("filtered_resps"))
    if reading.get("no_answer") is not None:
        return f"nothing ({visible(str(reading['no_answer']))})"
    return f"{_short(reading.get('answer'))} by {visible(str(reading.get('rule')))}"


def _of(count: int, total: int, verb: str) -> str:
    same = "the same" if total == 1 else f"the same on all {total}"
    return f"{count} of {total} {verb}" if count else same


def _short(value: Any) -> str:
    return quoted(value if isinstance(value, str) else str(value), 50)
