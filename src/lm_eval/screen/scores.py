"""The scores of a run as lines: name, score, interval, a picture of both, and what was parsed.

In: the results of a run. Out: lines of a given width. The picture takes what the figures leave, and goes
first if space is short; then the shares of what was parsed; then every name gets a separate line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lm_eval.scoring.results import GroupResult, TaskResult
from lm_eval.stats.estimates import Estimate
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.numbers import Glyphs, Scale, glyphs_for, interval, number, percent, scale_for
from lm_eval.support.terminal import visible

LEAST_PICTURE, MOST_PICTURE = 16, 48
GAP = "  "
LENIENT = "acc_lenient"
"""Stands in a row of its own below the score by the format's own reading."""


@dataclass(frozen=True)
class ScoreRow:
    """One score to show."""

    name: str
    metric: str
    estimate: Estimate | None
    task: str = ""
    num_docs: int = 0
    num_fewshot: int | None = None
    chance: float | None = None
    parsed: tuple[int, int] | None = None
    """Replies in which an answer was found, of all; None if nothing is read from text."""
    if_parsed: float | None = None
    at_most: float | None = None
    """The score if all other replies were right."""
    is_format: bool = False
    """Whether the name is that of a format alone."""
    is_group: bool = False


def score_rows(
    results: Sequence[TaskResult], groups: Sequence[GroupResult] = (), *, names_tasks: bool
) -> list[ScoreRow]:
    """A row for each result, the best format of each task first, then one for each group.

    A task without a format has a row for each of its metrics. ``names_tasks`` says whether names have
    to tell tasks apart, or formats alone.
    """
    tasks = list(dict.fromkeys(result.task for result in results))
    rows: list[ScoreRow] = []
    for task in tasks:
        formats = [result for result in results if result.task == task]
        rows += [
            row
            for result in sorted(formats, key=_rank)
            for row in _rows_of(result, names_tasks=names_tasks)
        ]
    return rows + [_group_row(group) for group in groups if group.metrics]


def _rank(result: TaskResult) -> float:
    """The better a format's score, the lower; results of plain tasks stay in their order."""
    estimate = result.metrics.get(result.primary)
    if estimate is None or result.format is None:
        return 0.0
    return -estimate.value if result.higher_is_better.get(result.primary, True) else estimate.value


def _rows_of(result: TaskResult, *, names_tasks: bool) -> list[ScoreRow]:
    name = result.name if names_tasks or result.format is None else result.format
    alias = result.alias if result.alias not in (result.name, "") and names_tasks else name
    row = ScoreRow(
        name=visible(alias),
        task=result.task,
        metric=_metric_name(result, result.primary),
        estimate=result.metrics.get(result.primary),
        num_docs=result.num_docs,
        num_fewshot=result.num_fewshot,
        chance=_chance(result),
        is_format=result.format is not None and not names_tasks,
    )
    if result.format is None:
        return [
            replace(row, metric=_metric_name(result, metric), estimate=estimate)
            for metric, estimate in result.metrics.items()
        ] or [row]
    lenient = result.metrics.get(LENIENT)
    beside = [] if lenient is None else [replace(row, metric=LENIENT, estimate=lenient)]
    return [_with_readings(row, result), *beside]


def _with_readings(row: ScoreRow, result: TaskResult) -> ScoreRow:
    readings, estimate = result.readings, row.estimate
    if readings is None or not readings.total:
        return row
    unread = readings.total - readings.read
    among = result.metrics.get(f"{result.primary}_read")
    is_share = result.higher_is_better.get(result.primary, True) and (
        estimate is not None and 0 <= estimate.value <= 1
    )
    row = replace(row, parsed=(readings.read, readings.total))
    if not unread:
        return row
    return replace(
        row,
        if_parsed=None if among is None else among.value,
        at_most=min(1.0, estimate.value + unread / readings.total)
        if is_share and estimate is not None
        else None,
    )


def _chance(result: TaskResult) -> float | None:
    """What guessing scores; nothing beside a score that is not a share of right answers."""
    is_accuracy = result.primary.partition("_")[0] in ("acc", "exact")
    return result.tally.chance if result.tally is not None and is_accuracy else None


def _metric_name(result: TaskResult, metric: str) -> str:
    normalisation = result.normalisation if metric == result.primary else None
    remarks = [
        normalisation.words if normalisation is not None and normalisation.name != "none" else "",
        result.filter if result.filter != "none" else "",
    ]
    said = "; ".join(filter(None, remarks))
    return visible(f"{metric} ({said})" if said else metric)


def _group_row(group: GroupResult) -> ScoreRow:
    primary = group.primary if group.primary in group.metrics else next(iter(group.metrics))
    estimate = group.metrics[primary]
    name = group.alias or group.name
    filtered = f" ({group.filter})" if group.filter != "none" else ""
    return ScoreRow(
        name=visible(name),
        metric=visible(primary + filtered),
        estimate=estimate,
        num_docs=estimate.n,
        num_fewshot=group.num_fewshot,
        is_group=True,
    )


def score_lines(
    rows: Sequence[ScoreRow], width: int, encoding: str = "utf-8", *, is_full: bool = False
) -> list[str]:
    """The heading and a line for each row, none wider than ``width`` if possible.

    If it ``is_full``, no column of figures is left out for lack of space.
    """
    cells = [_cells(row) for row in rows]
    figures, parsed = _figures(rows), _parsed_columns(rows)
    # The share parsed says most, and goes last.
    for after in (parsed,) if is_full else (parsed, parsed[:1], []):
        table = FittingTable([*figures, *after], [cells], has_rule=False)
        room = width - table.width - 1
        if room >= LEAST_PICTURE and _share_a_scale(rows):
            heading, bars = _picture(rows, min(room, MOST_PICTURE), encoding)
            picture = Column("picture", heading, stays=True)
            drawn = [cell.replace(picture=bar) for cell, bar in zip(cells, bars, strict=True)]
            return FittingTable([*figures, picture, *after], [drawn], has_rule=False).lines(None)
        if room >= -len(GAP):
            return table.lines(None)
    return FittingTable([*figures, *parsed], [cells], has_rule=False).lines(width)


def _cells(row: ScoreRow) -> Cells:
    return Cells(
        name=row.name,
        metric=row.metric,
        items=f"{row.num_docs:,}",
        shots="" if row.num_fewshot is None else f"{row.num_fewshot}",
        value=number(row.estimate.value if row.estimate is not None else None),
        interval=interval(row.estimate),
        parsed=percent(*row.parsed) if row.parsed else "",
        if_parsed="" if row.if_parsed is None else number(row.if_parsed),
        at_most="" if row.at_most is None else number(row.at_most),
    )


def _share_a_scale(rows: Sequence[ScoreRow]) -> bool:
    """Whether a picture says something: intervals of one metric, or of shares alone."""
    estimates = [row.estimate for row in rows if row.estimate is not None]
    are_shares = all(0 <= estimate.value <= 1 for estimate in estimates)
    has_interval = any(estimate.low is not None for estimate in estimates)
    return has_interval and (are_shares or len({row.metric for row in rows}) == 1)


def _name_heading(rows: Sequence[ScoreRow]) -> str:
    is_one_task = len({row.task for row in rows}) == 1 and not any(row.is_group for row in rows)
    return "Format" if is_one_task and rows[0].is_format else "Task"


def _figures(rows: Sequence[ScoreRow]) -> list[Column]:
    """The columns before the picture; what all rows share is in the heading of the screen."""
    metrics = {row.metric for row in rows}
    columns = [Column("name", _name_heading(rows), stays=True)]
    if len(metrics) > 1:
        columns.append(Column("metric", "Metric"))
    if len({row.num_docs for row in rows}) > 1:
        columns.append(Column("items", "Items", is_number=True))
    if len({row.num_fewshot for row in rows if not row.is_group}) > 1:
        columns.append(Column("shots", "Shots", is_number=True))
    heading = "Score" if len(metrics) > 1 else metrics.pop()
    return [*columns, Column("value", heading, is_number=True), Column("interval", "95 % CI")]


def _parsed_columns(rows: Sequence[ScoreRow]) -> list[Column]:
    metrics = {row.metric for row in rows if row.parsed}
    what = metrics.pop() if len(metrics) == 1 else "score"
    return [
        Column("parsed", "Parsed", is_number=True),
        Column("if_parsed", f"{what} if parsed", is_number=True),
        Column("at_most", "At most", is_number=True),
    ]


def _picture(rows: Sequence[ScoreRow], columns: int, encoding: str) -> tuple[str, list[str]]:
    """A bar for each row on one scale, with a mark where guessing would be, and their heading."""
    glyphs = glyphs_for(encoding)
    chances = {round(row.chance, 4) for row in rows if row.chance is not None}
    ends = [
        end
        for row in rows
        if row.estimate is not None
        for end in (row.estimate.value, row.estimate.low, row.estimate.high)
    ]
    scale = scale_for([*ends, *chances], columns)
    lines = [_bar(row, scale, glyphs) for row in rows]
    heading = ""
    if len(chances) == 1:
        heading = _above(f"chance {number(chances.pop(), 2)}", scale, rows)
    elif chances:
        heading = f"{_mark(glyphs)} chance"
    return f"{heading:{columns}}", lines


def _above(text: str, scale: Scale, rows: Sequence[ScoreRow]) -> str:
    """The text, centred above the mark of chance."""
    chance = next(row.chance for row in rows if row.chance is not None)
    start = scale.column(chance) - len(text) // 2
    return " " * min(max(0, start), scale.columns - len(text)) + text


def _bar(row: ScoreRow, scale: Scale, glyphs: Glyphs) -> str:
    if row.estimate is None or not math.isfinite(row.estimate.value):
        return ""
    bar = scale.bar(row.estimate.low, row.estimate.high, row.estimate.value, glyphs)
    if row.chance is None:
        return bar
    at = scale.column(row.chance)
    cells = list(f"{bar:{at + 1}}")
    if cells[at] == " ":
        cells[at] = _mark(glyphs)
    return "".join(cells)


def _mark(glyphs: Glyphs) -> str:
    return "┊" if glyphs.line == "─" else ":"
