"""The result screen: heading, scores, findings, remarks, and what to type next.

In: the ``Outcome`` of a run. Out: what ``lm-eval run`` prints. Nothing here can make a run fail: its
files are written by then, and what cannot be compared is reported in one line.
"""

from __future__ import annotations

import math
import shlex
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lm_eval.errors import LmEvalError, LmEvalWarning, MissingExtraError
from lm_eval.reports.costs import print_costs
from lm_eval.reports.results_file import RunInfo
from lm_eval.requests.values import Usage
from lm_eval.run.plan import Outcome
from lm_eval.scoring.results import GroupResult, TaskResult
from lm_eval.screen.remarks import part_scores, remarks, reread_command
from lm_eval.stats.estimates import Estimate
from lm_eval.support.columns import Cells, Column, FittingTable
from lm_eval.support.numbers import (
    Glyphs,
    Scale,
    amount,
    cost_digits,
    count,
    counted,
    duration,
    glyphs_for,
    interval,
    number,
    percent,
    scale_for,
    tokens,
)
from lm_eval.support.terminal import Paragraph, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from lm_eval.answers.prices import Prices
    from lm_eval.lab.compare.values import Comparison
    from lm_eval.reports.items import ItemColumns


MIN_PICTURE, MAX_PICTURE = 16, 48
GAP = "  "
LENIENT = "acc_lenient"
"""Stands in a row of its own below the score by the format's own reading."""
DOT = " · "
MARK = "! "
"""What remarks begin with."""
MAX_REMARKS = 6
MAX_PARTS = 4
"""Lines with scores by a field of the docs."""
MAX_SCORES = 30
"""With more scores than these, groups are shown instead of their tasks."""
COMMAND = 9
"""The width of the words before commands: ``Details`` and two spaces."""
COPIED = ("Saved", "Look", "Details", "Try")
"""Words before what is copied and so never broken into lines."""


def print_screen(
    outcome: Outcome,
    console: Console,
    *,
    prices: Prices | None = None,
    compares: bool = True,
    is_full: bool = False,
) -> None:
    """Print the results of a run; ``compares`` says whether formats are compared.

    If it ``is_full``, nothing is left out, and every score has its whole name.
    """
    results = outcome.results
    if not results:
        return
    names_tasks = is_full or len({result.task for result in results}) > 1
    rows = score_rows(results, outcome.groups, names_tasks=names_tasks)
    blocks = _comparisons(outcome) if compares else ()
    console.print(Paragraph("", heading(outcome), "bold"))
    console.print()
    shown, folded = (rows, "") if is_full else _folded(rows, outcome)
    _print_scores(shown, console, is_full=is_full)
    if folded:
        console.print(Paragraph("", folded))
    if blocks:
        from lm_eval.lab.compare.findings import print_findings

        print_findings(blocks, console)
    names = {"names_tasks": names_tasks, "is_full": is_full}
    lines = list(remarks(results, blocks, width=console.width - len(MARK), **names))
    _print_remarks(lines, len(lines) if is_full else MAX_REMARKS, console)
    if is_full:
        print_costs(results, console, prices)
    console.print()
    parts = list(part_scores(results, **names))
    if not is_full and len(parts) > MAX_PARTS:
        parts[MAX_PARTS:] = [f"{len(parts) - MAX_PARTS} more with --table full"]
    _print_lines("Parts", parts, console)
    also = _also(results, names_tasks=names_tasks)
    also += _also_of_groups(outcome.groups) if is_full else []
    _print_lines("Also", also if is_full else _on_one_line([] if folded else also), console)
    cost = "" if is_full else _cost(results, prices)
    for label, text in _endings(outcome, cost, blocks, console.width):
        console.print(_command(label, text), soft_wrap=label in COPIED)


def _print_lines(label: str, lines: Sequence[str], console: Console) -> None:
    """Print lines below each other, the first after their label."""
    for index, line in enumerate(lines):
        console.print(_command("" if index else label, line))


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
    each = " each" if len(tasks) > 1 else ""
    parts.append(_items(results, info, each))
    shots = {result.num_fewshot for result in results}
    parts.append(f"{shots.pop()}-shot" if len(shots) == 1 else "")
    asked = ", chat template" if info.chat_template is not None else ""
    parts.append(f"{visible(info.model_name or info.model)}{asked}")
    parts.append(duration(info.end_time - info.start_time))
    return DOT.join(filter(None, parts))


def _items(results: Sequence[TaskResult], info: RunInfo, each: str) -> str:
    """``80 items``, ``first 50 of 284 items``, ``20 of each, drawn at random, seed 0``; may be empty."""
    limit, sample = info.options.get("limit"), info.options.get("sample")
    first, drawn = ("first ", "") if sample is None else ("", f", {sample}")
    counts = {(result.num_docs, result.num_docs_total) for result in results}
    if len(counts) > 1:
        share = f"{100 * limit:g} %" if limit and limit < 1 else f"{limit or 0:,g}"
        return f"{first}{share} of each{drawn}" if limit else ""
    asked, total = counts.pop()
    left_out = results[0].missing + sum(results[0].skipped.values())
    if asked + left_out >= total:
        return f"{counted(asked, 'item')}{each}"
    first = first if limit is not None else ""
    return f"{first}{asked:,} of {counted(total, 'item')}{each}{drawn}"


# The comparison of formats


def _comparisons(outcome: Outcome) -> Sequence[Comparison]:
    """The formats of each task that has several, compared; a warning if that cannot be done."""
    tasks = {result.name: result.task for result in outcome.results}
    counts = Counter(tasks.values())
    names = [name for name, task in tasks.items() if counts[task] > 1]
    if not names:
        return ()
    try:
        return _compared(outcome, names)
    except MissingExtraError as error:
        _warn_uncompared(f". {error.what} Install it: {error.install}.", outcome)
    except LmEvalError as error:
        _warn_uncompared(f": {error}", outcome)
    except Exception as error:  # a defect here must not cost anybody a run
        _warn_uncompared(f" ({type(error).__name__}: {error}).", outcome)
    return ()


def _compared(outcome: Outcome, names: Sequence[str]) -> Sequence[Comparison]:
    from lm_eval.lab.compare.statistics import Options, compare
    from lm_eval.lab.stored.measurement import measurement, with_items
    from lm_eval.lab.stored.select import comparable, groups_in
    from lm_eval.reports.results_file import scores_dict

    results = scores_dict(outcome.results, outcome.groups)
    known = [] if outcome.items is None else outcome.items.columns()
    by_name = {(columns.name, columns.filter): columns for columns in known}

    def items(name: str, filter_name: str) -> ItemColumns:
        return by_name[name, filter_name]

    model = outcome.info.model_name or outcome.info.model
    measurements, _ = with_items(
        partial(measurement, results, items, name, "", model) for name in names
    )
    groups = comparable(list(groups_in(results, measurements)))
    if outcome.path is not None:  # `lm-eval compare` has the tasks of a group one by one
        inside = {task for group in groups for task in group.members}
        measurements = [row for row in measurements if row.task not in inside]
    return compare([*groups, *measurements], Options(details=False)).blocks


def _warn_uncompared(why: str, outcome: Outcome) -> None:
    run = str(outcome.path or "DIR")
    after = "" if outcome.path else ", after a run with --output_path DIR"
    warnings.warn(
        f"The formats were not compared{why} To compare them later{after}: `lm-eval compare {run}`.",
        LmEvalWarning,
        stacklevel=3,
    )


# Scores


def _folded(rows: Sequence[ScoreRow], outcome: Outcome) -> tuple[Sequence[ScoreRow], str]:
    """The rows to show, and a line for the others: of a large family its groups alone."""
    members = {member for group in outcome.groups if group.metrics for member in group.members}
    inside = {result.task for result in outcome.results if result.name in members}
    tasks = [row for row in rows if row.task in inside and row.estimate is not None]
    if len(rows) <= MAX_SCORES or not tasks:
        return rows, ""
    ordered = sorted(tasks, key=lambda row: row.estimate.value if row.estimate else 0.0)
    low, high = (
        f"{number(row.estimate.value if row.estimate else None)} ({row.name})"
        for row in (ordered[0], ordered[-1])
    )
    shown = [row for row in rows if row.task not in inside]
    return shown, f"{counted(len(tasks), 'score')} from {low} to {high}; --table full lists them."


def _print_scores(rows: Sequence[ScoreRow], console: Console, *, is_full: bool) -> None:
    from rich.text import Text

    lines = score_lines(rows, console.width, console.encoding, is_full=is_full)
    first_group = next((index for index, row in enumerate(rows) if row.is_group), None)
    for index, line in enumerate(lines):
        if first_group and index == first_group + 1 and len(lines) == len(rows) + 1:
            console.print()
        console.print(Text(line, style="dim" if index == 0 and len(lines) > len(rows) else ""))


# The lines of scores: the picture takes what the figures leave, and goes first if space is short


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
        if room >= MIN_PICTURE and _share_a_scale(rows):
            heading, bars = _picture(rows, min(room, MAX_PICTURE), encoding)
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


# Remarks and commands


def _print_remarks(lines: Sequence[str], most: int, console: Console) -> None:
    if not lines:
        return
    console.print()
    for line in lines[:most]:
        console.print(Paragraph(MARK, line, "yellow"))
    if len(lines) > most:
        more = counted(len(lines) - most, "more remark")
        console.print(Paragraph(MARK, f"{more} with --table full.", "yellow"))


def _endings(
    outcome: Outcome, cost: str, blocks: Sequence[Comparison], width: int
) -> Iterator[tuple[str, str]]:
    """The lines at the bottom: a word, and what comes after it."""
    if cost:
        yield "Cost", cost
    if outcome.info.answers:
        yield "Kept", reuse_words(outcome)
    if outcome.path is None:
        yield "Keep", "add --output_path DIR to save scores, prompts and replies"
        return
    run = short_name(outcome.path)
    folder = run.parent if run == outcome.path else run
    commands = {"Look": f"lm-eval view {_quoted(folder)}"}
    if blocks:
        commands["Details"] = f"lm-eval compare {_quoted(run)} --flips"
    yield from _side_by_side({"Saved": visible(str(outcome.path)), **commands}, width)
    command = reread_command(outcome.results, _quoted(run))
    if command:
        yield "Try", command


def _quoted(path: Path) -> str:
    return shlex.quote(visible(str(path)))


def short_name(path: Path) -> Path:
    """What commands call a run: the results file, or a folder above it that holds no other run."""
    name = path
    for folder in (path.parent, path.parent.parent):
        if not folder.name or not _holds_only(name, folder):
            break
        name = folder
    return name


def _holds_only(name: Path, folder: Path) -> bool:
    """Whether the folder holds no run but the one called ``name``."""
    from lm_eval.lab.stored.run import is_results

    try:
        others = (entry for entry in folder.iterdir() if entry != name)
        return not any(entry.is_dir() or is_results(entry) for entry in others)
    except OSError:
        return False


def _side_by_side(entries: Mapping[str, str], width: int) -> Iterator[tuple[str, str]]:
    """Entries on as few lines as they fit, the last ones together."""
    *first, last = [[entry] for entry in entries.items()]
    lines = [last]
    for [entry] in reversed(first):
        if COMMAND + len(_beside([entry, *lines[0]])) <= width and len(lines) == 1:
            lines[0].insert(0, entry)
        else:
            lines.insert(0, [entry])
    for line in lines:
        yield line[0][0], _beside(line)


def _beside(entries: Sequence[tuple[str, str]]) -> str:
    """``PATH    Look  lm-eval view DIR``: the word of the first entry comes before all this."""
    (_, text), *others = entries
    return "".join([text, *(f"    {word}  {other}" for word, other in others)])


ALSO_CHARS = 64
"""What fits on one line of 100 columns."""


def _also(results: Sequence[TaskResult], *, names_tasks: bool) -> list[str]:
    """Further metrics of formats: ``cloze acc_norm .175, acc_bytes .175``."""
    parts = []
    for result in results:
        if result.format is None:
            continue
        known = {result.primary, f"{result.primary}_read", LENIENT}
        others = [
            f"{visible(metric)} {number(estimate.value)}"
            for metric, estimate in result.metrics.items()
            if metric not in known
        ]
        if others:
            name = result.name if names_tasks else result.format
            parts.append(f"{visible(name)} {', '.join(others)}")
    return parts


def _also_of_groups(groups: Sequence[GroupResult]) -> list[str]:
    """The further metrics of groups; the first has a row of its own."""
    lines = []
    for group in groups:
        others = [
            f"{visible(metric)} {number(estimate.value)}"
            for metric, estimate in group.metrics.items()
            if metric != group.primary
        ]
        if others:
            lines.append(f"{visible(group.name)} {', '.join(others)}")
    return lines


def _on_one_line(parts: Sequence[str]) -> list[str]:
    """As many of the parts as fit, with the first in any case."""
    if not parts:
        return []
    shown = 1
    while shown < len(parts) and len("; ".join(parts[: shown + 1])) <= ALSO_CHARS:
        shown += 1
    more = "; more with --table full" if len(parts) > shown else ""
    return ["; ".join(parts[:shown]) + more]


def _cost(results: Sequence[TaskResult], prices: Prices | None) -> str:
    """``1,200 requests, 340,112 + 12,345 tokens, USD 0.43``; empty if nothing was counted."""
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
    counts, cache = outcome.info.answers, outcome.info.options.get("use_cache")
    where = (
        "there already, from before this run stopped"
        if cache is None
        else f"taken from {visible(str(cache))}"
    )
    return f"{counts['reused']:,} of {counts['total']:,} answers were {where}."
