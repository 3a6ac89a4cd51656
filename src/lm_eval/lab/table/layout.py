"""Stored runs → a ``ScoreTable``: which scores, in which rows and columns, and what the caption says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lm_eval.errors import ComparisonError, UsageError, did_you_mean, listing
from lm_eval.lab.compare.values import ALPHA, CONFOUNDED, REAL
from lm_eval.lab.stored.measurement import primary_metric
from lm_eval.lab.stored.run import StoredRun
from lm_eval.lab.stored.scores import (
    DIMENSIONS,
    FORMAT,
    METRIC,
    MODEL,
    PART,
    SHOTS,
    TASK,
    StoredScore,
    group_scores,
    scores_by,
    scores_of,
    value_in,
)
from lm_eval.lab.stored.select import Choice, SelectedResult, is_among, selected
from lm_eval.lab.table.baseline import Baseline, ItemSource, against_baseline
from lm_eval.lab.table.values import MARKS, BaselineTest, ScoreCell, ScoreTable
from lm_eval.text.numbers import joined, percent

_COLUMNS = (FORMAT, MODEL, SHOTS, METRIC)
"""The first of these in which scores differ makes the columns, unless others are asked for."""
_NAMED = 6
"""Tasks named in a caption; of more, only the range of n is given."""


@dataclass(frozen=True, kw_only=True)
class TableRequest:
    """Which scores a table shows, and how they are arranged."""

    rows: Sequence[str] = ()
    """Dimensions; empty: all in which the scores differ and that are not columns."""
    columns: Sequence[str] = ()
    choice: Choice = field(default_factory=Choice)
    by: str | None = None
    """A field of the docs to score by."""
    baseline: str | None = None


def make_table(runs: Sequence[StoredRun], request: TableRequest) -> tuple[ScoreTable, list[str]]:
    """The requested table, and notes on what is left out or not compared."""
    rows, columns = (_dimensions(names, request.by) for names in (request.rows, request.columns))
    both = [dimension for dimension in rows if dimension in columns]
    if both:
        raise UsageError(f"{both[0]!r} cannot make both the rows and the columns. Name it once.")
    results, notes = selected(runs, request.choice)
    shows_all = METRIC in (*rows, *columns)
    scores, without = _scores(runs, results, request, shows_all=shows_all)
    rows, columns = _axes(scores, rows, columns, request.by)
    tests: Mapping[int, BaselineTest] = {}
    baseline = None
    if request.baseline is not None:
        from lm_eval.stats.numeric import LAB_PACKAGES, require

        require(*LAB_PACKAGES)
        known = Baseline(request.baseline, scores)
        source = ItemSource(results, request.by)
        tests, why_not = against_baseline(known, scores, source)
        without += why_not
        baseline = known.name
    cells = {
        (_key(score, rows), _key(score, columns)): ScoreCell(score, tests.get(index))
        for index, score in enumerate(scores)
    }
    table = ScoreTable(
        rows,
        columns,
        tuple(dict.fromkeys(row for row, _ in cells)),
        _ordered(columns, list(dict.fromkeys(column for _, column in cells))),
        cells,
        part_name=request.by,
        baseline=baseline,
    )
    table = replace(table, sizes=_sizes(table))
    return table.with_caption(_caption(table, list(tests.values()))), [*notes, *without]


def _dimensions(names: Sequence[str], by: str | None) -> tuple[str, ...]:
    """The dimensions of ``--rows`` or ``--columns``; the field of ``--by`` is one under its own name."""
    known = [*(name for name in DIMENSIONS if name != PART), *([by] if by else [])]
    for name in names:
        if name not in known:
            hint = " To score by a field of the docs, add --by FIELD." if by is None else ""
            raise UsageError(
                f"{name!r} cannot make rows or columns.{did_you_mean(name, known)} Choose from "
                f"{listing(known)}.{hint}"
            )
    return tuple(dict.fromkeys(PART if name == by else name for name in names))


def _key(score: StoredScore, dimensions: Sequence[str]) -> tuple[str, ...]:
    return tuple(value_in(score, dimension) for dimension in dimensions)


# Which scores


def _scores(
    runs: Sequence[StoredRun],
    results: Sequence[SelectedResult],
    request: TableRequest,
    *,
    shows_all: bool,
) -> tuple[list[StoredScore], list[str]]:
    """The scores to show: groups first, then tasks, or parts of their docs."""
    notes: list[str] = []
    groups = [] if request.by else _groups(runs, results, request.choice, shows_all=shows_all)
    named = {score.task for score in groups} & set(request.choice.tasks)
    scores = list(groups)
    for result in results:
        if named and not is_among(request.choice.tasks, result.task, result.name):
            continue  # a group that is named replaces its tasks
        of_result = scores_of(result, result.model)
        if not of_result:
            notes.append(f"{result.name} ({result.model}) has no score and is left out.")
        for score in _wanted(of_result, result, request.choice.metrics, shows_all=shows_all):
            scores += [score] if request.by is None else scores_by(result, score, request.by)
    if not scores:
        raise ComparisonError(
            "These runs hold no score that was asked for. Give other runs, or fewer of --tasks, "
            "--formats and --models."
        )
    return scores, notes


def _wanted(
    scores: Sequence[StoredScore],
    result: SelectedResult,
    metrics: Sequence[str],
    *,
    shows_all: bool,
) -> list[StoredScore]:
    """The score of a result, the first of ``metrics`` that it has, or all."""
    if metrics and scores:
        if shows_all:
            kept = [score for score in scores if score.metric in metrics]
            if kept:
                return kept
        run = result.run
        metric, filter_name = primary_metric(run.results, result.name, str(run.path), metrics)
        return [s for s in scores if (s.metric, s.filter) == (metric, filter_name)]
    return list(scores) if shows_all else list(scores[:1])


def _groups(
    runs: Sequence[StoredRun],
    results: Sequence[SelectedResult],
    choice: Choice,
    *,
    shows_all: bool,
) -> list[StoredScore]:
    """The scores of groups in the runs that the results come from; of several alike, the newest."""
    models = {str(result.run.path): result.model for result in results}
    times = {str(result.run.path): result.time for result in results}
    mains = {(str(r.run.path), r.name): scores_of(r, r.model)[:1] for r in results}
    usual = {path: score[0].metric for (path, _), score in mains.items() if score}
    kept: dict[tuple[str, ...], StoredScore] = {}
    for run in runs:
        path = str(run.path)
        if path not in models:
            continue
        for score in group_scores(run, models[path]):
            is_asked = is_among(choice.tasks, score.task, score.name) and is_among(
                choice.formats, score.format
            )
            metrics = choice.metrics or (usual.get(path, score.metric),)
            if not is_asked or not (shows_all or score.metric in metrics):
                continue
            key = _key(score, DIMENSIONS)
            if key not in kept or times[path] >= times[kept[key].run]:
                kept[key] = score
    return list(kept.values())


# Rows and columns


def _axes(
    scores: Sequence[StoredScore],
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    by: str | None,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The dimensions of rows and columns; an error if two scores would share a cell."""
    varying = [d for d in DIMENSIONS if len({value_in(score, d) for score in scores}) > 1]
    if METRIC in varying and METRIC not in (*rows, *columns):
        varying.remove(METRIC)  # results show scores of different names: the caption says which
    if not columns:
        free = [d for d in _COLUMNS if d not in rows]
        columns = tuple([d for d in free if d in varying] or free)[:1]
    if not rows:
        rows = tuple(d for d in varying if d not in columns) or (
            (TASK,) if TASK not in columns else ()
        )
    left = [d for d in varying if d not in (*rows, *columns)]
    if left:
        dimension = left[0]
        values = list(dict.fromkeys(value_in(score, dimension) for score in scores))
        name = by or PART if dimension == PART else dimension
        choose = {TASK: "--tasks", MODEL: "--models", FORMAT: "--formats"}.get(dimension)
        other = f", or choose one with {choose}" if choose else ""
        raise UsageError(
            f"A cell would hold several scores: these also differ in {name} ({listing(values, 5)}). Add "
            f"{name} to --rows or --columns{other}."
        )
    return rows, columns


def _ordered(
    dimensions: Sequence[str], keys: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """Columns in the order of the runs; numbers of shots by size."""
    if SHOTS not in dimensions:
        return tuple(keys)
    at = list(dimensions).index(SHOTS)
    first = {key[:at]: index for index, key in reversed(list(enumerate(keys)))}

    def position(key: tuple[str, ...]) -> tuple[int, int]:
        shots = key[at].partition("-")[0]
        return first[key[:at]], int(shots) if shots else -1

    return tuple(sorted(keys, key=position))


def _sizes(table: ScoreTable) -> tuple[int, ...] | None:
    """n of each row, if rows differ in it and all cells of a row have the same."""
    by_row: dict[tuple[str, ...], set[int]] = {}
    for (row, _), cell in table.cells.items():
        by_row.setdefault(row, set()).add(cell.score.estimate.n)
    counts = [by_row[row] for row in table.rows]
    if any(len(sizes) > 1 for sizes in counts) or len(set().union(*counts)) == 1:
        return None
    return tuple(next(iter(sizes)) for sizes in counts)


# The caption


def _caption(table: ScoreTable, tests: Sequence[BaselineTest]) -> str:
    """What every reader needs to know: metric, n, shots, model, format fingerprints, marks."""
    scores = [cell.score for cell in table.in_order()]
    parts = [_metrics(table, scores), _shared(table, scores), _formats(scores), _read(scores)]
    if table.baseline is not None:
        parts.append(_marks(table, tests))
    return " ".join(filter(None, parts))


def _metrics(table: ScoreTable, scores: Sequence[StoredScore]) -> str:
    """``acc with 95 % intervals.``"""
    intervals = " with 95 % intervals" if any(s.estimate.low is not None for s in scores) else ""
    if METRIC in (*table.row_dimensions, *table.column_dimensions):
        return f"Scores{intervals}."
    names: dict[str, list[str]] = {}
    for score in scores:
        names.setdefault(score.metric, []).append(score.name)
    if len(names) == 1:
        return f"{next(iter(names))}{intervals}."
    usual = max(names, key=lambda metric: len(names[metric]))
    others = [
        f"{metric} for {listing(list(dict.fromkeys(of)), 5)}"
        for metric, of in names.items()
        if metric != usual
    ]
    return f"{usual}{intervals}; {'; '.join(others)}."


def _shared(table: ScoreTable, scores: Sequence[StoredScore]) -> str:
    """What all scores have in common and no heading says, and how many items there are."""
    shown = (*table.row_dimensions, *table.column_dimensions)
    values = {d: list(dict.fromkeys(value_in(score, d) for score in scores)) for d in DIMENSIONS}
    parts = [
        f"{word}{values[dimension][0]}"
        for dimension, word in ((TASK, "Task "), (MODEL, "model "), (SHOTS, ""))
        if dimension not in shown and len(values[dimension]) == 1 and values[dimension][0]
    ]
    parts += [_items(table, scores)]
    text = ", ".join(filter(None, parts))
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _items(table: ScoreTable, scores: Sequence[StoredScore]) -> str:
    sizes = {score.estimate.n for score in scores}
    if table.sizes is not None or sizes == {0}:
        return ""
    if len(sizes) == 1:
        return f"n = {sizes.pop():,}"
    by_task: dict[str, set[int]] = {}
    for score in scores:
        by_task.setdefault(score.task, set()).add(score.estimate.n)
    if len(by_task) <= _NAMED and all(len(counts) == 1 for counts in by_task.values()):
        return "n = " + joined([f"{min(counts):,} ({task})" for task, counts in by_task.items()])
    return f"n = {min(sizes):,} to {max(sizes):,}"


def _formats(scores: Sequence[StoredScore]) -> str:
    """``Formats: mcqa v1 (4afebfa622db), cot v2 (…).``"""
    known: dict[tuple[str, str], list[str]] = {}
    for score in scores:
        if score.fingerprint:
            version = "" if score.version is None else f" v{score.version}"
            prints = known.setdefault((score.format, version), [])
            if score.fingerprint not in prints:
                prints.append(score.fingerprint)
    if not known:
        return ""
    texts = [f"{name}{version} ({listing(prints, 3)})" for (name, version), prints in known.items()]
    return f"{'Formats' if len(texts) > 1 else 'Format'}: {'; '.join(texts)}."


def _read(scores: Sequence[StoredScore]) -> str:
    """How many replies had an answer, unless nearly all of them did."""
    low = [s for s in scores if s.share_read is not None and s.share_read < 0.95]
    if not low:
        return ""
    worst = min(low, key=lambda score: score.share_read or 0.0)
    share = percent(worst.share_read or 0.0, 1.0)
    if len({score.name for score in low}) == 1:
        return f"An answer was found in {share} of the replies of {worst.name}."
    return f"An answer was found in {share} or more of the replies (least: {worst.name})."


def _marks(table: ScoreTable, tests: Sequence[BaselineTest]) -> str:
    """What the marks mean, and which test they come from."""
    base = table.baseline
    if not tests:
        return f"No score could be compared with {base} item by item."
    names = " or ".join(dict.fromkeys(test.test for test in tests))
    count = f", Holm-adjusted for {len(tests)} comparisons" if len(tests) > 1 else ""
    verdicts = {test.verdict for test in tests}
    level = f"p < {ALPHA:.2f}".replace("0.", ".")
    how = f"paired {names}{count}, {level}"
    if not verdicts & {REAL, CONFOUNDED}:
        return f"No score differs from {base} ({how})."
    texts = [f"{MARKS[REAL]} differs from {base} ({how})"] if REAL in verdicts else []
    if CONFOUNDED in verdicts:
        more = "the same, but" if texts else f"differs from {base} ({how}), but"
        texts.append(f"{MARKS[CONFOUNDED]} {more} replies without an answer may explain it")
    return f"{'; '.join(texts)}."
