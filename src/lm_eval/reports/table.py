"""Results → a table of scores for people, with notes and what asking cost.

In: ``TaskResult``s, and prices if given. Out: Rich tables and paragraphs, with a warning if replies
could not be read. Names and replies are data: they go through ``visible`` and are never read as markup.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lm_eval.reports.costs import print_costs
from lm_eval.requests.options import skipped_line
from lm_eval.scoring.results import GroupResult, ReadingSummary, TaskResult
from lm_eval.stats.estimates import Estimate
from lm_eval.text.columns import Cells, Column, FittingTable
from lm_eval.text.numbers import interval, number, percent, value_of
from lm_eval.text.secrets import known_secrets
from lm_eval.text.terminal import Paragraph, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from lm_eval.answers.prices import Prices

WARN_ABOVE = 0.05
"""Share of unread replies from which a result gets a warning."""
NUM_EXAMPLES = 3
WORTH_REREADING = 0.2
"""Share of unread replies that another phrase must read for it to be named."""
REPLY_CHARS = 100

_HINTS = {
    "truncated": "The replies were cut off at the token limit. Allow longer ones, for example "
    "--gen_kwargs max_gen_toks=1024.",
    "refused": "The model declined to answer. That is a result in itself: look at the samples "
    "before you compare this score with others.",
    "ambiguous": "The replies name several answers. A format that asks for one fixed sentence, "
    "such as @cot or @generate, is easier to read.",
    "empty": "The model returned nothing. A stop string may end its reply at once: check `until` "
    "in --gen_kwargs, and the chat template.",
    "unreadable": "The model did not answer in the form that was asked for. Try another format "
    "(`lm-eval ls formats`), few-shot examples, or another reader.",
}


_MOVABLE = ("also", "unread", "score_read")
"""Columns that move to lines under the table if it is too wide, in this order."""


def _columns(score_read: str) -> tuple[Column, ...]:
    """``score_read`` is the heading of the score among the replies that could be read."""
    return (
        Column("task", "Task", wraps=True, stays=True),
        Column("format", "Format", wraps=True),
        Column("metric", "Metric", wraps=True, stays=True),
        Column("score", "Score", is_number=True, stays=True),
        Column("interval", "95 % interval", is_number=True, stays=True),
        Column("n", "n", is_number=True, stays=True),
        Column("shots", "Shots", is_number=True, stays=True),
        Column("read", "Read", is_number=True),
        Column("score_read", score_read, is_number=True),
        Column("unread", "Not read", wraps=True),
        Column("also", "Also", wraps=True),
    )


def results_table(
    results: Sequence[TaskResult], groups: Sequence[GroupResult] = ()
) -> FittingTable:
    """The table of scores alone; print it with a Rich console."""
    rows = [_task_row(result) for result in results]
    group_rows = [_group_row(group) for group in groups if group.metrics]
    return FittingTable(_columns(_read_heading(results)), (rows, group_rows), _MOVABLE)


def print_results(
    results: Sequence[TaskResult],
    console: Console,
    *,
    groups: Sequence[GroupResult] = (),
    prices: Prices | None = None,
) -> None:
    """Print the table, notes, what it cost, and a warning for each result with unread replies."""
    console.print(results_table(results, groups))
    for line in _note_lines(results):
        console.print(Paragraph("  ", line))
    print_costs(results, console, prices)
    for result in results:
        for renderable in _warning(result):
            console.print(renderable)


def _task_row(result: TaskResult) -> Cells:
    row = Cells(
        name=visible(result.name),
        task=visible(result.alias or result.task),
        format=visible(result.format or ""),
        metric=_metric_name(result.primary, _normalised(result), result.filter),
        n=str(result.num_docs),
        shots=str(result.num_fewshot),
        also=_others(result),
        **_score(result.metrics.get(result.primary)),
    )
    if result.readings is None:
        return row
    score_read = result.metrics.get(f"{result.primary}_read")
    return row.replace(
        read=percent(result.readings.read, result.readings.total),
        unread=_unread(result.readings.unread.items()),
        score_read=value_of(score_read),
    )


def _group_row(group: GroupResult) -> Cells:
    primary = group.primary if group.primary in group.metrics else next(iter(group.metrics))
    others = {name: e for name, e in group.metrics.items() if name != primary}
    return Cells(
        name=visible(group.name),
        task=visible(group.alias or group.name),
        format="",
        metric=_metric_name(primary, "", group.filter),
        n=str(group.metrics[primary].n),
        shots="",
        also=_listed(others),
        **_score(group.metrics[primary]),
    )


def _metric_name(metric: str, *remarks: str) -> str:
    shown = "; ".join(remark for remark in remarks if remark not in ("", "none"))
    return visible(f"{metric} ({shown})" if shown else metric)


def _normalised(result: TaskResult) -> str:
    """How choices were compared for the score, unless by their plain sums."""
    normalisation = result.normalisation
    return "" if normalisation is None or normalisation.name == "none" else normalisation.words


def _score(estimate: Estimate | None) -> dict[str, str]:
    return {"score": value_of(estimate), "interval": interval(estimate)}


def _others(result: TaskResult) -> str:
    shown = {result.primary}
    if result.readings is not None:
        shown |= {f"{result.primary}_read", "share_read"}
    return _listed({name: e for name, e in result.metrics.items() if name not in shown})


def _listed(metrics: dict[str, Estimate]) -> str:
    return ", ".join(f"{visible(name)} {number(e.value)}" for name, e in metrics.items())


def _read_heading(results: Sequence[TaskResult]) -> str:
    """``acc_read``; if results differ in their metric, a heading that fits all."""
    primaries = {result.primary for result in results if result.readings is not None}
    return f"{visible(primaries.pop())}_read" if len(primaries) == 1 else "if read"


def _unread(reasons: Iterable[tuple[str, int]]) -> str:
    """``9 truncated, 2 unreadable, 1 refused``, most frequent first."""
    ordered = sorted(reasons, key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{docs} {visible(reason)}" for reason, docs in ordered if docs)


def _note_lines(results: Sequence[TaskResult]) -> list[str]:
    lines = []
    for result in results:
        name = visible(result.name)
        if result.missing:
            lines.append(
                f"{name}: {result.missing} of {result.num_docs + result.missing} docs got no "
                "answer from the model and are left out of every score. Run again to fill them in."
            )
        if result.skipped:
            lines.append(
                f"{name}: {skipped_line(result.skipped)}. They are left out of every score; `lm-eval "
                "validate` lists them."
            )
        lines += [f"{name} {line}" for line in part_lines(result)]
        lines += [f"{name}: {visible(note)}" for note in result.notes]
    return lines


MOST_PARTS = 8
"""Parts of a task's docs that are all shown; of more, only the lowest and the highest are."""


def part_lines(result: TaskResult, figure: Callable[[float], str] = number) -> Iterator[str]:
    """``by subject: law 0.310 (n 50), physics 0.540 (n 40)``; ``figure`` writes a score."""
    for name, parts in result.parts.items():
        scores = {
            part: metrics[result.primary]
            for part, metrics in parts.items()
            if result.primary in metrics
        }
        if not scores:
            continue

        def shown(part: str, scores: Mapping[str, Estimate] = scores) -> str:
            return f"{visible(part)} {figure(scores[part].value)} (n {scores[part].n})"

        if len(scores) <= MOST_PARTS:
            yield f"by {visible(name)}: {', '.join(map(shown, scores))}"
        else:
            ordered = sorted(scores, key=lambda part: scores[part].value)
            yield (
                f"by {visible(name)}: {len(scores)} parts, from {shown(ordered[0])} to "
                f"{shown(ordered[-1])}; `score_by` in the results file has all"
            )


def _is_loud(readings: ReadingSummary | None) -> bool:
    if readings is None or not readings.total:
        return False
    return (readings.total - readings.read) / readings.total > WARN_ABOVE


def _warning(result: TaskResult) -> Iterator[RenderableType]:
    from rich.text import Text

    readings = result.readings
    if readings is None or not _is_loud(readings):
        return
    yield Text()
    yield Paragraph("WARNING  ", _warning_text(result, readings), "bold yellow")
    for line in _example_lines(readings):
        yield Paragraph("  ", line)
    yield Paragraph("  → ", _reread_hint(result, readings) or _hint(readings))


def _warning_text(result: TaskResult, readings: ReadingSummary) -> str:
    name, metric = visible(result.name), visible(result.primary)
    unread = readings.total - readings.read
    reasons = _unread(readings.unread.items())
    return (
        f"{name}: {unread} of {readings.total} replies ({percent(unread, readings.total)}) could "
        f"not be read{': ' + reasons if reasons else ''}. They count as not right in {metric}; "
        f"{metric}_read leaves them out."
    )


def _example_lines(readings: ReadingSummary) -> list[str]:
    return [
        f"doc {doc_id}, {visible(reason)}: {_quoted(reply)}"
        for doc_id, reason, reply in readings.examples[:NUM_EXAMPLES]
    ]


def _quoted(reply: str) -> str:
    shown = visible(known_secrets().hide(reply), REPLY_CHARS)
    return f"“{shown}”" if reply.strip() else "(nothing)"


def _hint(readings: ReadingSummary) -> str:
    """What to do about the most frequent reason."""
    main = max(readings.unread, key=lambda reason: readings.unread[reason], default="unreadable")
    return _HINTS.get(main, _HINTS["unreadable"])


def _reread_hint(result: TaskResult, readings: ReadingSummary) -> str:
    """The command that would read more of the stored replies, if another phrase does."""
    unread = readings.total - readings.read
    ((phrase, count),) = readings.by_phrase.most_common(1) or [("", 0)]
    if count < max(2, unread * WORTH_REREADING):
        return ""
    scorer = shlex.quote(f"{readings.reader},phrase={phrase}")
    return (
        f"{count} of the {unread} say “{phrase}” instead of the phrase asked for. To read them that "
        f"way: `lm-eval reread RUN --tasks {visible(result.name)} --scorer {scorer}`, where RUN is the "
        "folder given with --output_path."
    )
