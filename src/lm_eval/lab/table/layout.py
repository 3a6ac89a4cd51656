"""Stored runs → a ``ScoreTable``: which scores, in which rows and columns, against which baseline.

With a baseline, each score is paired with its counterpart, item by item. A score that has none on the
same items is not compared, and a note says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lm_eval.errors import ComparisonError, UsageError, did_you_mean, listing
from lm_eval.lab.compare.values import Pair
from lm_eval.lab.stored.measurement import Measurement, align, doc_of, primary_metric, taken
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
    parts_of_samples,
    scores_by,
    scores_of,
    value_in,
)
from lm_eval.lab.stored.select import (
    Choice,
    SelectedResult,
    groups_in,
    is_among,
    selected,
    tasks_below,
)
from lm_eval.lab.table.values import BaselineTest, ScoreCell, ScoreTable, caption
from lm_eval.stats.estimates import DEFAULT_SEED
from lm_eval.stats.multiplicity import holm

_COLUMNS = (FORMAT, MODEL, SHOTS, METRIC)
"""The first of these in which scores differ makes the columns, unless others are asked for."""


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
    return table.with_caption(caption(table, list(tests.values()))), [*notes, *without]


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


# Against a baseline


_BASE, _OTHER = "baseline", "other"


class Baseline:
    """Tests scores against those with one value in one dimension, such as the format ``mcqa``."""

    def __init__(self, name: str, scores: Sequence[StoredScore]) -> None:
        self.dimension, self.name = _dimension_of(name, scores)
        self._by_key = {
            self._key(score): score
            for score in scores
            if value_in(score, self.dimension) == self.name
        }

    def counterpart(self, score: StoredScore) -> StoredScore | None:
        """The baseline's score that differs in nothing else; None for the baseline itself."""
        if value_in(score, self.dimension) == self.name:
            return None
        return self._by_key.get(self._key(score))

    def _key(self, score: StoredScore) -> tuple[str, ...]:
        others = (each for each in DIMENSIONS if each != self.dimension)
        return tuple(value_in(score, dimension) for dimension in others)


def _dimension_of(name: str, scores: Sequence[StoredScore]) -> tuple[str, str]:
    """The dimension that has this value; ``format=mcqa`` says which, if several have it."""
    stated, is_stated, value = name.partition("=")
    if is_stated and stated in DIMENSIONS:
        known = {stated: _values(scores, stated)}
    else:
        value = name
        known = {dimension: _values(scores, dimension) for dimension in DIMENSIONS}
    among = [dimension for dimension, values in known.items() if value in values]
    if len(among) == 1:
        return among[0], value
    if among:
        raise UsageError(
            f"--baseline {name!r} may be a {' or a '.join(among)}. Say which: "
            f"{' or '.join(f'--baseline {dimension}={value}' for dimension in among)}."
        )
    there = [each for values in known.values() if len(values) > 1 for each in values]
    raise UsageError(
        f"--baseline {name!r} is in none of these runs.{did_you_mean(value, there)} They have: "
        f"{listing(there, 5)}."
    )


def _values(scores: Sequence[StoredScore], dimension: str) -> list[str]:
    values = dict.fromkeys(value_in(score, dimension) for score in scores)
    return [value for value in values if value]


def against_baseline(
    baseline: Baseline, scores: Sequence[StoredScore], source: ItemSource
) -> tuple[dict[int, BaselineTest], list[str]]:
    """Index in ``scores`` → its test, and notes on what could not be compared."""
    pairs: dict[int, Pair] = {}
    why_not: dict[str, list[str]] = {}
    for index, score in enumerate(scores):
        base = baseline.counterpart(score)
        if base is None:
            continue
        try:
            pairs[index] = _paired(source.measurement(base), source.measurement(score))
        except ComparisonError as error:
            why_not.setdefault(str(error), []).append(_title(score))
    adjusted = holm([pair.p_adjusted for pair in pairs.values()])
    remaining = holm([pair.p_remaining for pair in pairs.values()])
    tests = {
        index: _test(pair, p_adjusted, p_remaining)
        for (index, pair), p_adjusted, p_remaining in zip(
            pairs.items(), adjusted, remaining, strict=True
        )
    }
    notes = [
        f"{listing(titles, 5)} {'is' if len(titles) == 1 else 'are'} not compared with "
        f"{baseline.name}: {why}"
        for why, titles in why_not.items()
    ]
    return tests, notes


def _title(score: StoredScore) -> str:
    return score.name if score.part is None else f"{score.name} ({score.part})"


def _paired(base: Measurement, other: Measurement) -> Pair:
    """The two as a pair on the same items."""
    from lm_eval.lab.compare.statistics import pairs  # late: it needs numpy

    aligned = align([replace(base, condition=_BASE), replace(other, condition=_OTHER)])
    (pair,) = pairs(
        aligned, (_BASE, _OTHER), None, adjust="holm", seed=DEFAULT_SEED, lists_flips=False
    )
    return pair


def _test(pair: Pair, p_adjusted: float, p_remaining: float) -> BaselineTest:
    result = pair.result if pair.first == _OTHER else pair.result.reversed()
    return BaselineTest(result, p_adjusted, max(p_adjusted, p_remaining))


class ItemSource:
    """The items behind scores, read from disk once."""

    def __init__(self, results: Sequence[SelectedResult], field: str | None) -> None:
        self._results = {(str(result.run.path), result.name): result for result in results}
        self._field = field
        self._measured: dict[tuple[str, str, str], Measurement] = {}
        self._parts: dict[tuple[str, str], Mapping[str, str]] = {}

    def measurement(self, score: StoredScore) -> Measurement:
        """The items of a score; an error if the run does not have them."""
        key = (score.run, score.name, score.metric)
        if key not in self._measured:
            self._measured[key] = self._group(score) if score.is_group else self._task(score)
        measured = self._measured[key]
        if score.part is None:
            return measured
        parts = self._parts_of(score)
        return taken(
            measured, [item for item in measured.items if parts[doc_of(item)] == score.part]
        )

    def _task(self, score: StoredScore) -> Measurement:
        return self._results[score.run, score.name].measured([score.metric])

    def _group(self, score: StoredScore) -> Measurement:
        run = next(result.run for (path, _), result in self._results.items() if path == score.run)
        leaves = tasks_below(run.results, score.name)
        members = [self._results.get((score.run, leaf)) for leaf in leaves]
        measured = [member.measured([score.metric]) for member in members if member is not None]
        for group in groups_in(run.results, measured):
            if group.name == score.name:
                return group
        raise ComparisonError("the score of the group is not the mean over the items of its tasks.")

    def _parts_of(self, score: StoredScore) -> Mapping[str, str]:
        key = (score.run, score.name)
        if key not in self._parts:
            self._parts[key] = dict(self._read_parts(self._results[key], score))
        return self._parts[key]

    def _read_parts(self, result: SelectedResult, score: StoredScore) -> Iterator[tuple[str, str]]:
        """Doc id → the part it is in."""
        assert self._field is not None
        columns = result.run.items(result.name, score.filter)
        if self._field in columns.parts:
            parts = columns.parts[self._field]
            yield from zip(map(str, columns.doc_ids), parts, strict=True)
            return
        for part, sample in parts_of_samples(result, self._field, score.filter):
            yield str(sample.get("doc_id")), part
