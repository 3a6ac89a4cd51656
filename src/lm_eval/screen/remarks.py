"""What a reader of the scores should know, a line each: docs left out, bias, unread replies."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lm_eval.requests.options import skipped_line
from lm_eval.scoring.results import ChoiceTally, ReadingSummary, TaskResult
from lm_eval.support.numbers import joined, number, percent
from lm_eval.support.secrets import known_secrets
from lm_eval.support.terminal import visible

if TYPE_CHECKING:
    from lm_eval.lab.compare.values import Comparison

UNREAD_ABOVE = 0.05
"""Share of replies without an answer from which a line reports it."""
MAX_ROWS = 4
"""Rows that are named in one kind of remark."""
MAX_PARTS = 8
"""Parts of a task's docs that are all shown; of more, only the lowest and the highest are."""
MANY_ROWS, FEW_ROWS = 6, 2
"""With more scores than the first, this many rows are named whose replies lack answers."""
MIN_REREAD = 0.2
"""Share of unread replies that another phrase must read for it to be named."""
BIAS_Z, BIAS_SHARE = 3.5, 0.1
"""A label is called preferred if it is chosen this many standard errors, and by this share of the
items, more often than it is right and than someone who guesses would choose it."""
QUOTE_CHARS, LONG_QUOTE_CHARS = 22, 100
REASONS = {
    "truncated": "cut off",
    "refused": "refused",
    "ambiguous": "several answers",
    "empty": "empty",
    "unreadable": "no answer found",
}


def remarks(
    results: Sequence[TaskResult],
    comparisons: Sequence[Comparison],
    *,
    names_tasks: bool,
    width: int,
    is_full: bool = False,
) -> Iterator[str]:
    """The remarks, in order of weight.

    Examples are left out if a remark fills its line, unless it ``is_full``: then nothing is.
    """

    def name(result: TaskResult) -> str:
        return visible(result.name if names_tasks or result.format is None else result.format)

    yield from _left_out(results, name)
    yield from _preferred(results, name, len(results) if is_full else MAX_ROWS)
    yield from _unread(results, name, None if is_full else width)
    yield from _hidden_choices(results)
    yield from _different_questions(comparisons, names_tasks=names_tasks)
    for result in results:
        yield from (f"{name(result)}: {visible(note)}" for note in result.notes)


def part_scores(
    results: Sequence[TaskResult], *, names_tasks: bool, is_full: bool = False
) -> Iterator[str]:
    """The scores by a field of the docs: ``mcqa by subject: law .310 (n 50), physics .540 (n 40)``."""
    for result in results:
        name = visible(result.name if names_tasks or result.format is None else result.format)
        for field, parts in result.parts.items():
            scores = {
                part: metrics[result.primary]
                for part, metrics in parts.items()
                if result.primary in metrics
            }
            texts = {
                part: f"{visible(part)} {number(score.value)} (n {score.n})"
                for part, score in scores.items()
            }
            if is_full or len(scores) <= MAX_PARTS:
                listed = ", ".join(texts.values())
            else:
                ordered = sorted(scores, key=lambda part: scores[part].value)
                low, high = texts[ordered[0]], texts[ordered[-1]]
                listed = f"{len(scores)} parts, from {low} to {high}; --table full lists them"
            if scores:
                yield f"{name} by {visible(field)}: {listed}"


def _hidden_choices(results: Sequence[TaskResult]) -> Iterator[str]:
    """The tasks without a format whose choices are scored and not shown, in one remark."""
    names = [
        r.task
        for r in results
        if r.format is None and r.scores_choices and r.shows_choices is False
    ]
    names = list(dict.fromkeys(map(visible, names)))
    if names:
        are = f"and {len(names) - 1} more are" if len(names) > 1 else "is"
        yield (
            f"{names[0]} {are} asked without a format: choices are scored and not shown. "
            f"{names[0]}@mcqa shows them."
        )


def _different_questions(comparisons: Sequence[Comparison], *, names_tasks: bool) -> Iterator[str]:
    """Which formats show the choices; said once if it is the same for several tasks."""
    by_text: dict[str, list[str]] = {}
    for comparison in comparisons:
        by_text.setdefault(_choices_shown(comparison), []).append(visible(comparison.task))
    by_text.pop("", None)
    for text, tasks in by_text.items():
        yield f"{tasks[0]}: {text}" if names_tasks and len(by_text) > 1 else text


def _choices_shown(comparison: Comparison) -> str:
    """``Choices: shown under mcqa, hidden under cot.``, empty if all do the same."""
    from lm_eval.lab.compare.details import choices_shown

    text = choices_shown(comparison)
    return f"Choices: {text}." if text else ""


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


def _preferred(
    results: Sequence[TaskResult], name: Callable[[TaskResult], str], most: int
) -> Iterator[str]:
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
        f"{' items' if index == 0 else ''}"
        for index, (result, tally, label) in enumerate(biased[:most])
    ]
    more = f", and {len(biased) - most} more show a preference" if len(biased) > most else ""
    yield f"{', '.join(parts)}{more}; {_right_words(biased, most)}."


def _right_words(biased: Sequence[tuple[TaskResult, ChoiceTally, str]], most: int) -> str:
    counts = {count for _, tally, _ in biased for count in tally.right.values()}
    if len(counts) == 1:
        return f"each label is right {counts.pop():,} times"
    rights = joined(
        [f"{visible(label)} {tally.right[label]:,}" for _, tally, label in biased[:most]]
    )
    return (
        f"right are {rights} times"
        if len(biased) > 1
        else f"it is right {rights.split()[-1]} times"
    )


def preferred_label(tally: ChoiceTally) -> str | None:
    """The label that is chosen far more often than it is right; None if there is none."""
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


def _unread(
    results: Sequence[TaskResult], name: Callable[[TaskResult], str], width: int | None
) -> Iterator[str]:
    """``cot: 43 of 80 without an answer (26 no answer found, 17 cut off), such as doc 2: “ C”.``.

    Without a width, every result has its line and every example that was kept.
    """
    loud = [
        (result, result.readings)
        for result in results
        if result.readings is not None and has_many_unparsed(result.readings)
    ]
    loud.sort(key=lambda pair: pair[1].share_read)
    most = MAX_ROWS if len(results) <= MANY_ROWS else FEW_ROWS
    most += len(loud) == most + 1  # a line that counts one more would be as long
    most = len(loud) if width is None else most
    for result, readings in loud[:most]:
        unread = readings.total - readings.read
        text = f"{name(result)}: {unread:,} of {readings.total:,} replies without an answer"
        text += _reasons(readings)
        with_examples = f"{text}{_examples(readings, is_full=width is None)}."
        yield with_examples if width is None or len(with_examples) <= width else f"{text}."
    others = loud[most:]
    if others:
        shares = [percent(r.total - r.read, r.total) for _, r in others]
        between = shares[-1] if shares[0] == shares[-1] else f"{shares[-1]} to {shares[0]}"
        yield f"{len(others)} more: {between} of replies without an answer."


def _reasons(readings: ReadingSummary) -> str:
    """`` (26 no answer found, 17 cut off)``; a single reason is neither counted nor said twice."""
    counts = sorted(readings.unread.items(), key=lambda entry: (-entry[1], entry[0]))
    words = [REASONS.get(reason, visible(reason)) for reason, _ in counts]
    if len(counts) == 1:
        return "" if "unreadable" in readings.unread else f" ({words[0]})"
    return f" ({', '.join(f'{n:,} {word}' for (_, n), word in zip(counts, words, strict=True))})"


def has_many_unparsed(readings: ReadingSummary) -> bool:
    """Whether enough replies lack an answer to say so."""
    unread = readings.total - readings.read
    return bool(readings.total) and unread / readings.total > UNREAD_ABOVE


def _examples(readings: ReadingSummary, *, is_full: bool) -> str:
    """``, such as doc 2: “ C”``: the first example, or all of them."""
    length = LONG_QUOTE_CHARS if is_full else QUOTE_CHARS
    quotes = [
        f"doc {doc_id}: “{visible(known_secrets().hide(reply).strip(), length)}”"
        for doc_id, _, reply in readings.examples[: None if is_full else 1]
        if reply.strip()
    ]
    return f", such as {', '.join(quotes)}" if quotes else ""


def reread_command(results: Sequence[TaskResult], folder: str) -> str:
    """The command that reads the most unread replies; empty if no other phrase reads enough."""
    best: tuple[int, str] = (0, "")
    for result in results:
        readings = result.readings
        if readings is None or not readings.by_phrase:
            continue
        ((phrase, count),) = readings.by_phrase.most_common(1)
        unread = readings.total - readings.read
        if count >= max(2, unread * MIN_REREAD) and count > best[0]:
            scorer = shlex.quote(f"{readings.reader},phrase={phrase}")
            best = (
                count,
                f"lm-eval reread {folder} --tasks {shlex.quote(result.name)} --scorer {scorer}",
            )
    return visible(best[1])
