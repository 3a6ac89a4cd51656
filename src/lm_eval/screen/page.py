"""The result screen: heading, scores, findings, remarks, and what to type next.

In: the ``Outcome`` of a run. Out: what ``lm-eval run`` prints. Nothing here can make a run fail: its
files are written by then, and what cannot be compared is reported in one line.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lm_eval.requests.options import skipped_line
from lm_eval.requests.values import Usage
from lm_eval.run.plan import Outcome
from lm_eval.scoring.results import ChoiceTally, ReadingSummary, TaskResult
from lm_eval.screen.scores import ScoreRow, score_lines, score_rows, short
from lm_eval.text.numbers import (
    amount,
    cost_digits,
    count,
    counted,
    duration,
    joined,
    percent,
    tokens,
)
from lm_eval.text.secrets import known_secrets
from lm_eval.text.terminal import Paragraph, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from lm_eval.answers.prices import Prices
    from lm_eval.lab.compare.values import Comparison


DOT = " · "
MOST_REMARKS = 6
MOST_SCORES = 30
"""With more scores than these, groups are shown instead of their tasks."""
COMMAND = 9
"""The width of the words before commands: ``Details`` and two spaces."""
COPIED = ("Saved", "Look", "Details", "Try")
"""Words before what is copied and so never broken into lines."""


def print_screen(
    outcome: Outcome, console: Console, *, prices: Prices | None = None, compares: bool = True
) -> None:
    """Print the results of a run; ``compares`` says whether formats are compared."""
    results = outcome.results
    if not results:
        return
    names_tasks = len({result.task for result in results}) > 1
    rows = score_rows(results, outcome.groups, names_tasks=names_tasks)
    blocks = _comparisons(outcome) if compares else ()
    console.print(Paragraph("", heading(outcome), "bold"))
    console.print()
    shown, folded = _folded(rows)
    _print_scores(shown, console)
    if folded:
        console.print(Paragraph("", folded))
    if blocks:
        from lm_eval.screen.findings import print_findings

        print_findings(blocks, console)
    _print_remarks(list(remarks(results, blocks, names_tasks=names_tasks)), console)
    console.print()
    for label, text in _endings(outcome, prices, blocks, console.width):
        console.print(_command(label, text), soft_wrap=label in COPIED)


def _comparisons(outcome: Outcome) -> Sequence[Comparison]:
    """The formats of each task that has several, compared."""
    if len({result.name for result in outcome.results}) == len({r.task for r in outcome.results}):
        return ()
    from lm_eval.screen.findings import comparison_of

    return comparison_of(outcome)


def _command(label: str, text: str) -> RenderableType:
    from rich.text import Text

    if label in COPIED:
        return Text(f"{label:{COMMAND}}{text}")
    return Paragraph(f"{label:{COMMAND}}", text)


# Heading


def heading(outcome: Outcome) -> str:
    """``demo_mcq · 80 items · 0-shot · SmolLM2-135M-Instruct, chat template · 8 min 35 s``."""
    results, info = outcome.results, outcome.info
    tasks = list(dict.fromkeys(result.task for result in results))
    parts = [visible(tasks[0]) if len(tasks) == 1 else counted(len(tasks), "task")]
    parts.append(_items(results, "first " if info.limit is not None else ""))
    shots = {result.num_fewshot for result in results}
    parts.append(f"{shots.pop()}-shot" if len(shots) == 1 else "")
    asked = ", chat template" if info.chat_template is not None else ""
    parts.append(f"{visible(info.model_name or info.model)}{asked}")
    parts.append(duration(info.end_time - info.start_time))
    return DOT.join(filter(None, parts))


def _items(results: Sequence[TaskResult], which: str) -> str:
    """``80 items``, ``first 50 of 284 items``; empty where results differ, which their table shows."""
    counts = {(result.num_docs, result.num_docs_total) for result in results}
    if len(counts) > 1:
        return ""
    asked, total = counts.pop()
    left_out = results[0].missing + sum(results[0].skipped.values())
    if asked + left_out >= total:
        return counted(asked, "item")
    return f"{which}{asked:,} of {counted(total, 'item')}"


# Scores


def _folded(rows: Sequence[ScoreRow]) -> tuple[Sequence[ScoreRow], str]:
    """The rows to show, and a line for the others: of a large family its groups alone."""
    groups = [row for row in rows if row.is_group]
    if len(rows) <= MOST_SCORES or not groups:
        return rows, ""
    tasks = [row for row in rows if not row.is_group and row.estimate is not None]
    ordered = sorted(tasks, key=lambda row: row.estimate.value if row.estimate else 0.0)
    low, high = (
        f"{short(row.estimate.value if row.estimate else None)} ({row.name})"
        for row in (ordered[0], ordered[-1])
    )
    return groups, f"{counted(len(tasks), 'score')} from {low} to {high}; --table full lists them."


def _print_scores(rows: Sequence[ScoreRow], console: Console) -> None:
    from rich.text import Text

    lines = score_lines(rows, console.width, console.encoding)
    first_group = next((place for place, row in enumerate(rows) if row.is_group), None)
    for place, line in enumerate(lines):
        if first_group and place == first_group + 1 and len(lines) == len(rows) + 1:
            console.print()
        console.print(Text(line, style="dim" if place == 0 and len(lines) > len(rows) else ""))


# Remarks and commands


def _print_remarks(lines: Sequence[str], console: Console) -> None:
    if not lines:
        return
    console.print()
    for line in lines[:MOST_REMARKS]:
        console.print(Paragraph("! ", line, "yellow"))
    if len(lines) > MOST_REMARKS:
        more = counted(len(lines) - MOST_REMARKS, "more note")
        console.print(Paragraph("! ", f"{more}: `notes` in the results file has them.", "yellow"))


def _endings(
    outcome: Outcome, prices: Prices | None, blocks: Sequence[Comparison], width: int
) -> Iterator[tuple[str, str]]:
    """The lines at the bottom: a word, and what comes after it."""
    also = _also(outcome.results)
    if also:
        yield "Also", also
    cost = _cost(outcome.results, prices)
    if cost:
        yield "Cost", cost
    if outcome.info.answers:
        yield "Kept", reuse_words(outcome)
    if outcome.path is None:
        yield "Keep", "add --output_path DIR to save scores, prompts and replies"
        return
    path = visible(str(outcome.path))
    look = f"lm-eval view {shlex.quote(visible(str(outcome.path.parent)))}"
    both = f"{path}    Look  {look}"
    if COMMAND + len(both) <= width:
        yield "Saved", both
    else:
        yield "Saved", path
        yield "Look", look
    if blocks:
        yield "Details", f"lm-eval compare {shlex.quote(path)} --flips"
    command = reread_command(outcome.results, shlex.quote(str(outcome.path)))
    if command:
        yield "Try", command


ALSO_CHARS = 64
"""What fits on one line of 100 columns."""


def _also(results: Sequence[TaskResult]) -> str:
    """Further metrics of formats: ``cloze acc_norm .175, acc_bytes .175``."""
    is_one_task = len({result.task for result in results}) == 1
    parts = []
    for result in results:
        if result.format is None:
            continue
        known = {result.primary, f"{result.primary}_read"}
        others = [
            f"{visible(metric)} {short(estimate.value)}"
            for metric, estimate in result.metrics.items()
            if metric not in known
        ]
        if others:
            name = result.format if is_one_task else result.name
            parts.append(f"{visible(name)} {', '.join(others)}")
    shown = 1
    while shown < len(parts) and len("; ".join(parts[: shown + 1])) <= ALSO_CHARS:
        shown += 1
    more = "; more with --table full" if len(parts) > shown else ""
    return "; ".join(parts[:shown]) + more


def _cost(results: Sequence[TaskResult], prices: Prices | None) -> str:
    """``1,200 requests, 340,112 + 12,345 tokens, USD 0.43``; empty where nothing was counted."""
    by_name = {result.name: result.usage for result in results if result.usage is not None}
    usage = Usage.total(by_name.values())
    parts = []
    if usage.requests:
        retries = f" ({count(usage.retries)} sent again)" if usage.retries else ""
        parts.append(f"{counted(usage.requests, 'request')}{retries}")
    if usage.tokens_in or usage.tokens_out:
        cached = f" ({count(usage.tokens_cached)} cached)" if usage.tokens_cached else ""
        parts.append(f"{tokens(usage.tokens_in, usage.tokens_out)} tokens in and out{cached}")
    if parts and prices:
        cost = prices.cost(usage)
        parts.append(f"{prices.currency} {amount(cost, cost_digits(cost))}")
    return ", ".join(parts)


def reuse_words(outcome: Outcome) -> str:
    """How many answers were not asked for, because an earlier run or start of this one had them."""
    counts, cache = outcome.info.answers, outcome.info.use_cache
    where = (
        "there already, from before this run stopped"
        if cache is None
        else f"taken from {visible(str(cache))}"
    )
    return f"{counts['reused']:,} of {counts['total']:,} answers were {where}."


# What a reader of the scores should know, a line each: bias, replies without an answer, docs left out


UNREAD_ABOVE = 0.05
"""Share of replies without an answer from which a line reports it."""
MOST_ROWS = 4
"""Rows that are named in one kind of remark."""
WORTH_REREADING = 0.2
"""Share of unread replies that another phrase must read for it to be named."""
BIAS_Z, BIAS_SHARE = 3.5, 0.1
"""A label is called preferred where it is chosen this many standard errors, and by this share of the
items, more often than it is right and than someone who guesses would choose it."""
QUOTE_CHARS = 22
_SHOWN = {"shown": "shown", "scored": "scored unseen", "hidden": "hidden"}
REASONS = {
    "truncated": "cut off",
    "refused": "refused",
    "ambiguous": "several answers",
    "empty": "empty",
    "unreadable": "no answer found",
}


def remarks(
    results: Sequence[TaskResult], comparisons: Sequence[Comparison], *, names_tasks: bool
) -> Iterator[str]:
    """The lines, in order of weight."""

    def name(result: TaskResult) -> str:
        return visible(result.name if names_tasks or result.format is None else result.format)

    yield from _left_out(results, name)
    for result in results:
        if result.parts:
            from lm_eval.reports.table import part_lines

            yield from (f"{name(result)} {line}" for line in part_lines(result))
    yield from _preferred(results, name)
    yield from _unread(results, name)
    yield from _different_questions(comparisons, names_tasks=names_tasks)
    for result in results:
        yield from (f"{name(result)}: {visible(note)}" for note in result.notes)


def _different_questions(comparisons: Sequence[Comparison], *, names_tasks: bool) -> Iterator[str]:
    """Which formats show the choices; said once where it is the same for several tasks."""
    by_text: dict[str, list[str]] = {}
    for comparison in comparisons:
        by_text.setdefault(_choices_shown(comparison), []).append(visible(comparison.task))
    by_text.pop("", None)
    for text, tasks in by_text.items():
        yield f"{tasks[0]}: {text}" if names_tasks and len(by_text) > 1 else text


def _choices_shown(comparison: Comparison) -> str:
    """``Choices: shown under mcqa, hidden under cot.``, empty where all do the same."""
    from lm_eval.lab.compare.words import some_names

    parts = [
        f"{_SHOWN[kind]} under {some_names(rows)}"
        for kind, rows in comparison.rows_by_choices().items()
    ]
    return f"Choices: {', '.join(parts)}." if parts else ""


def _left_out(results: Sequence[TaskResult], name: Callable[[TaskResult], str]) -> Iterator[str]:
    for result in results:
        if result.missing:
            yield (
                f"{name(result)}: {result.missing} of {result.num_docs + result.missing} docs got no "
                "answer from the model and are in no score. Run again to fill them in."
            )
    yield from dict.fromkeys(
        f"{visible(result.task)}: {skipped_line(result.skipped)}. Skipped docs are in no score; "
        "`lm-eval validate` lists them."
        for result in results
        if result.skipped
    )


def _preferred(results: Sequence[TaskResult], name: Callable[[TaskResult], str]) -> Iterator[str]:
    """``mcqa chose C for 40 of 80 items; each label is right 20 times.``."""
    biased = []
    for result in results:
        label = None if result.tally is None else preferred_label(result.tally)
        if label is not None and result.tally is not None:
            biased.append((result, result.tally, label))
    if not biased:
        return
    parts = [
        f"{name(result)} chose {visible(label)} for {tally.chosen[label]:,} of {tally.chosen.total():,}"
        f"{' items' if place == 0 else ''}"
        for place, (result, tally, label) in enumerate(biased[:MOST_ROWS])
    ]
    more = (
        f", and {len(biased) - MOST_ROWS} more show a preference" if len(biased) > MOST_ROWS else ""
    )
    yield f"{', '.join(parts)}{more}; {_right_words(biased)}."


def _right_words(found: Sequence[tuple[TaskResult, ChoiceTally, str]]) -> str:
    counts = {count for _, tally, _ in found for count in tally.right.values()}
    if len(counts) == 1:
        return f"each label is right {counts.pop():,} times"
    rights = joined(
        [f"{visible(label)} {tally.right[label]:,}" for _, tally, label in found[:MOST_ROWS]]
    )
    return (
        f"right are {rights} times" if len(found) > 1 else f"it is right {rights.split()[-1]} times"
    )


def preferred_label(tally: ChoiceTally) -> str | None:
    """The label that is chosen far more often than it is right; None where there is none."""
    chosen, right = tally.chosen.total(), tally.right.total()
    if not chosen or not right or len(tally.right) < 2:
        return None
    best, most = None, 0.0
    for label, times in tally.chosen.items():
        expected = max(tally.right[label] / right, 1 / len(tally.right))
        share = times / chosen
        error = math.sqrt(max(expected * (1 - expected), 0.25 / chosen) / chosen)
        if share - expected > max(BIAS_Z * error, BIAS_SHARE, most):
            best, most = label, share - expected
    return best


def _unread(results: Sequence[TaskResult], name: Callable[[TaskResult], str]) -> Iterator[str]:
    """``cot: 43 of 80 without an answer (26 no answer found, 17 cut off), such as doc 2: “ C”.``."""
    loud = [
        (result, result.readings)
        for result in results
        if result.readings is not None and is_loud(result.readings)
    ]
    loud.sort(key=lambda pair: pair[1].share_read)
    for result, readings in loud[:MOST_ROWS]:
        unread = readings.total - readings.read
        reasons = ", ".join(
            f"{count:,} {REASONS.get(reason, visible(reason))}"
            for reason, count in sorted(readings.unread.items(), key=lambda one: (-one[1], one[0]))
        )
        counted = f"{unread:,} of {readings.total:,} replies without an answer"
        yield f"{name(result)}: {counted} ({reasons}){_example(readings)}."
    rest = loud[MOST_ROWS:]
    if rest:
        shares = [percent(r.total - r.read, r.total) for _, r in rest]
        between = shares[-1] if shares[0] == shares[-1] else f"{shares[-1]} to {shares[0]}"
        yield f"{len(rest)} more: {between} of replies without an answer."


def is_loud(readings: ReadingSummary) -> bool:
    """Whether enough replies lack an answer to say so."""
    return bool(readings.total) and 1 - readings.share_read > UNREAD_ABOVE


def _example(readings: ReadingSummary) -> str:
    if not readings.examples:
        return ""
    doc_id, _, reply = readings.examples[0]
    if not reply.strip():
        return ""
    return f", such as doc {doc_id}: “{visible(known_secrets().hide(reply).strip(), QUOTE_CHARS)}”"


def reread_command(results: Sequence[TaskResult], folder: str) -> str:
    """The command that reads most more of the stored replies; empty where another phrase does not."""
    best: tuple[int, str] = (0, "")
    for result in results:
        readings = result.readings
        if readings is None or not readings.by_phrase:
            continue
        ((phrase, count),) = readings.by_phrase.most_common(1)
        unread = readings.total - readings.read
        if count >= max(2, unread * WORTH_REREADING) and count > best[0]:
            scorer = shlex.quote(f"{readings.reader},phrase={phrase}")
            best = (
                count,
                f"lm-eval reread {folder} --tasks {shlex.quote(result.name)} --scorer {scorer}",
            )
    return visible(best[1])
