"""Results → a table for people, with a warning under it where replies could not be read.

In: ``TaskResult``s. Out: something Rich can print, or Markdown. Names and replies are data: they go
through ``visible`` and are never read as markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lm_eval.reports.terminal import visible
from lm_eval.scoring.results import GroupResult, ReadingSummary, TaskResult
from lm_eval.stats.intervals import Estimate

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

WARN_ABOVE = 0.05
"""Share of unread replies from which a result gets a warning."""
NUM_EXAMPLES = 3
REPLY_CHARS = 100
NOTHING = "–"

_HINTS = {
    "truncated": "The replies were cut off at the token limit. Allow longer ones, for example "
    "--gen_kwargs max_gen_toks=1024.",
    "refused": "The model declined to answer. That is a result of its own; look at the samples "
    "before you compare this score with others.",
    "ambiguous": "The replies name several answers. A format that asks for one fixed sentence, "
    "such as @cot or @generate, is easier to read.",
    "empty": "The model said nothing. A stop string may end its reply at once: look at `until` "
    "in --gen_kwargs, and at the chat template.",
    "unreadable": "The model did not answer in the form that was asked for. Try another format "
    "(`lm-eval ls formats`), few-shot examples, or another reader.",
}
_MARKDOWN_SPECIAL = re.compile(r"([\\`*\[\]<>|&#~$])")


@dataclass(frozen=True)
class _Row:
    """One line of the table, as text."""

    name: str
    task: str
    format: str
    metric: str
    score: str
    interval: str
    n: str
    shots: str
    read: str = ""
    unread: str = ""
    score_read: str = ""
    also: str = ""


@dataclass(frozen=True)
class _Column:
    field: str
    heading: str
    is_number: bool = False


_COLUMNS = (
    _Column("task", "Task"),
    _Column("format", "Format"),
    _Column("metric", "Metric"),
    _Column("score", "Score", is_number=True),
    _Column("interval", "95 % interval", is_number=True),
    _Column("n", "n", is_number=True),
    _Column("shots", "Shots", is_number=True),
    _Column("read", "Read", is_number=True),
    _Column("score_read", "", is_number=True),  # its heading depends on the metric
    _Column("unread", "Not read"),
    _Column("also", "Also"),
)
_MOVABLE = ("also", "unread", "score_read")
"""Columns that move to lines under the table where it is too wide, in this order."""
_WRAPPING = ("task", "format", "metric", "also", "unread")


def results_table(
    results: Sequence[TaskResult], groups: Sequence[GroupResult] = ()
) -> ResultsTable:
    """The table alone; print it with a Rich console."""
    return ResultsTable(results, groups)


def print_results(
    results: Sequence[TaskResult],
    console: Console,
    *,
    groups: Sequence[GroupResult] = (),
    warn: bool = True,
) -> None:
    """Print the table, then notes, then a warning for each result with unread replies."""
    console.print(results_table(results, groups))
    for line in _note_lines(results):
        console.print(_Paragraph("  ", line))
    for result in results if warn else ():
        for renderable in _warning(result):
            console.print(renderable)


def results_markdown(results: Sequence[TaskResult], groups: Sequence[GroupResult] = ()) -> str:
    """The same content as Markdown, for a README or an issue."""
    table = ResultsTable(results, groups)
    columns = table.columns()
    lines = [
        _markdown_line(column.heading for column in columns),
        _markdown_line("---:" if column.is_number else "---" for column in columns),
    ]
    for row in (*table.rows, *table.group_rows):
        lines.append(_markdown_line(_markdown(getattr(row, c.field)) for c in columns))
    lines += [f"\n{_markdown(line)}" for line in _note_lines(results)]
    for result in results:
        lines += _markdown_warning(result)
    return "\n".join(lines) + "\n"


class ResultsTable:
    """A Rich renderable that drops to fewer columns, and lines below, where space is short."""

    def __init__(self, results: Sequence[TaskResult], groups: Sequence[GroupResult]) -> None:
        self.rows = [_task_row(result) for result in results]
        self.group_rows = [_group_row(group) for group in groups if group.metrics]
        self._score_read = _read_heading(results)

    def columns(self, without: Iterable[str] = ()) -> list[_Column]:
        """The columns that hold anything, less ``without``."""
        rows = [*self.rows, *self.group_rows]
        named = [self._named(column) for column in _COLUMNS if column.field not in without]
        always = {"task", "metric", "score", "interval", "n", "shots"}
        return [c for c in named if c.field in always or any(getattr(r, c.field) for r in rows)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        unlimited = options.update(width=1000)
        for num_moved in range(len(_MOVABLE) + 1):
            moved = _MOVABLE[:num_moved]
            table = self._table(moved)
            if table.__rich_measure__(console, unlimited).maximum <= options.max_width:
                break
        yield table
        lines = self._lines(moved)
        yield from ["", *lines] if lines else []

    def _named(self, column: _Column) -> _Column:
        return column if column.heading else replace(column, heading=self._score_read)

    def _table(self, without: Sequence[str]) -> Table:
        from rich import box
        from rich.table import Table

        columns = self.columns(without)
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
        for column in columns:
            table.add_column(
                column.heading,
                justify="right" if column.is_number else "left",
                no_wrap=column.field not in _WRAPPING,
                overflow="fold",
            )
        _fill(table, columns, self.rows)
        if self.group_rows:
            table.add_section()
            _fill(table, columns, self.group_rows)
        return table

    def _lines(self, moved: Sequence[str]) -> list[RenderableType]:
        """For each row, what its moved columns hold."""
        columns = [self._named(column) for column in _COLUMNS if column.field in moved]
        lines: list[RenderableType] = []
        for row in (*self.rows, *self.group_rows):
            cells = [(c.heading.lower(), getattr(row, c.field)) for c in columns]
            text = "; ".join(f"{heading}: {cell}" for heading, cell in cells if cell)
            if text:
                lines.append(_Paragraph("  ", f"{row.name}  {text}"))
        return lines


def _fill(table: Table, columns: Sequence[_Column], rows: Sequence[_Row]) -> None:
    from rich.text import Text

    for row in rows:
        table.add_row(*(Text(getattr(row, column.field)) for column in columns))


def _task_row(result: TaskResult) -> _Row:
    row = _Row(
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
    return replace(
        row,
        read=percent(result.readings.read, result.readings.total),
        unread=_unread(result.readings.unread.items()),
        score_read=number(score_read.value) if score_read else NOTHING,
    )


def _group_row(group: GroupResult) -> _Row:
    primary = group.primary if group.primary in group.metrics else next(iter(group.metrics))
    others = {name: e for name, e in group.metrics.items() if name != primary}
    return _Row(
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
    said = "; ".join(remark for remark in remarks if remark not in ("", "none"))
    return visible(f"{metric} ({said})" if said else metric)


def _normalised(result: TaskResult) -> str:
    """How choices were compared for the score, where that is not by their plain sums."""
    found = result.normalisation
    return "" if found is None or found.name == "none" else found.words


def _score(estimate: Estimate | None) -> dict[str, str]:
    if estimate is None:
        return {"score": NOTHING, "interval": NOTHING}
    return {"score": number(estimate.value), "interval": interval(estimate)}


def _others(result: TaskResult) -> str:
    shown = {result.primary}
    if result.readings is not None:
        shown |= {f"{result.primary}_read", "share_read"}
    return _listed({name: e for name, e in result.metrics.items() if name not in shown})


def _listed(metrics: dict[str, Estimate]) -> str:
    return ", ".join(f"{visible(name)} {number(e.value)}" for name, e in metrics.items())


def _read_heading(results: Sequence[TaskResult]) -> str:
    """``acc_read``; where results differ in their metric, a heading that fits all."""
    primaries = {result.primary for result in results if result.readings is not None}
    return f"{visible(primaries.pop())}_read" if len(primaries) == 1 else "if read"


def number(value: float, digits: int = 3) -> str:
    """A score as people read it: ``0.512``, ``12.34``, ``1.23e+05``."""
    if abs(value) >= 1000:
        return f"{value:.4g}"
    return f"{value:.{digits if abs(value) < 10 else max(1, digits - 1)}f}"


def interval(estimate: Estimate) -> str:
    """``[0.45, 0.57]``; with a third digit where the interval is narrow."""
    if estimate.low is None or estimate.high is None:
        return NOTHING
    digits = 2 if estimate.high - estimate.low >= 0.05 else 3
    return f"[{number(estimate.low, digits)}, {number(estimate.high, digits)}]"


def percent(part: int, whole: int) -> str:
    """``80 %``. Only all is 100 %, and only none is 0 %."""
    if not whole:
        return NOTHING
    share = 100 * part / whole
    if part < whole and share > 99:
        return "> 99 %" if share >= 99.5 else "99 %"
    if part > 0 and share < 0.5:
        return "< 1 %"
    return f"{share:.0f} %"


def _unread(reasons: Iterable[tuple[str, int]]) -> str:
    """``9 truncated, 2 unreadable, 1 refused``, most frequent first."""
    ordered = sorted(reasons, key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {visible(reason)}" for reason, count in ordered if count)


def _note_lines(results: Sequence[TaskResult]) -> list[str]:
    lines = []
    for result in results:
        name = visible(result.name)
        if result.missing:
            lines.append(
                f"{name}: {result.missing} of {result.num_docs + result.missing} docs got no "
                "answer from the model and count nowhere. Run again to fill them in."
            )
        lines += [f"{name}: {visible(note)}" for note in result.notes]
    return lines


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
    yield _Paragraph("WARNING  ", _warning_text(result, readings), "bold yellow")
    for line in _example_lines(readings):
        yield _Paragraph("  ", line)
    yield _Paragraph("  → ", _hint(readings))


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
    return f"“{visible(reply, REPLY_CHARS)}”" if reply.strip() else "(nothing)"


def _hint(readings: ReadingSummary) -> str:
    """What to do about the most frequent reason."""
    main = max(readings.unread, key=lambda reason: readings.unread[reason], default="unreadable")
    return _HINTS.get(main, _HINTS["unreadable"])


@dataclass(frozen=True)
class _Paragraph:
    """A Rich renderable: ``text`` behind ``first``, its later lines indented as far."""

    first: str
    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        width = max(20, options.max_width - len(self.first))
        start = self.first
        for line in Text(self.text).wrap(console, width, overflow="fold"):
            yield Text((start + line.plain).rstrip(), style=self.style)
            start = " " * len(self.first)


def _markdown(text: str) -> str:
    return _MARKDOWN_SPECIAL.sub(r"\\\1", text)


def _markdown_line(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(cells)} |"


def _markdown_warning(result: TaskResult) -> list[str]:
    readings = result.readings
    if readings is None or not _is_loud(readings):
        return []
    return [
        f"\n> **Warning.** {_markdown(_warning_text(result, readings))}",
        *(f"> - {_markdown(line)}" for line in _example_lines(readings)),
        f">\n> {_markdown(_hint(readings))}",
    ]
