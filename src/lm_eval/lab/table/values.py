"""The values of a table: scores in rows and columns, and a caption about all of them.

The dimensions in which the scores differ make the rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lm_eval.errors import listing
from lm_eval.lab.compare.values import ALPHA, CONFOUNDED, INCONCLUSIVE, REAL
from lm_eval.lab.stored.scores import (
    DIMENSIONS,
    METRIC,
    MODEL,
    PART,
    SHOTS,
    TASK,
    StoredScore,
    value_in,
)
from lm_eval.stats.paired import Paired
from lm_eval.support.encode import AsDict
from lm_eval.support.numbers import joined, number, percent

MARKS: Mapping[str, str] = {REAL: "*", CONFOUNDED: "†"}
_NAMED = 6
"""Tasks named in a caption; of more, only the range of n is given."""


@dataclass(frozen=True)
class BaselineTest(AsDict):
    """A score minus that of the baseline, on the same items."""

    result: Paired
    p_adjusted: float
    """For all tests of the table, by Holm."""
    p_remaining: float
    """The p-value that the difference is more than luck and unread answers, adjusted likewise."""

    KEYS = (
        *(("difference", "result.difference.value"), ("difference_low", "result.difference.low")),
        *(
            ("difference_high", "result.difference.high"),
            ("p", "result.p"),
            "p_adjusted",
            "verdict",
        ),
    )

    @property
    def verdict(self) -> str:
        """``real``, ``confounded`` or ``inconclusive``."""
        if self.p_remaining < ALPHA:
            return REAL
        return CONFOUNDED if self.p_adjusted < ALPHA else INCONCLUSIVE


@dataclass(frozen=True)
class ScoreCell:
    """One score, and how it compares with the baseline's; None if it was not compared."""

    score: StoredScore
    test: BaselineTest | None = None

    @property
    def mark(self) -> str:
        return "" if self.test is None else MARKS.get(self.test.verdict, "")

    def to_dict(self, part_name: str | None) -> dict[str, Any]:
        """A row of plain values: the score's, the part of the docs, the test."""
        score = self.score.to_dict()
        row = {"task": score.pop("task")}
        if part_name is not None:
            row |= {"by": part_name, "part": self.score.part}
        row |= score
        return row | (dict.fromkeys(_TEST_KEYS) if self.test is None else self.test.to_dict())


_TEST_KEYS = [key if isinstance(key, str) else key[0] for key in BaselineTest.KEYS]


@dataclass(frozen=True)
class ScoreTable:
    """Cells by row and column; a key holds the values of its dimensions."""

    row_dimensions: tuple[str, ...]
    column_dimensions: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    columns: tuple[tuple[str, ...], ...]
    cells: Mapping[tuple[tuple[str, ...], tuple[str, ...]], ScoreCell]
    part_name: str | None = None
    """The field of the docs behind the dimension ``part``."""
    sizes: tuple[int, ...] | None = None
    """The number of items of each row, if rows differ in it; None: the caption says it."""
    caption: str = ""
    baseline: str | None = None

    def heading(self, dimension: str) -> str:
        """The heading of a column that shows a dimension."""
        return self.part_name or PART if dimension == PART else dimension.capitalize()

    def column_title(self, column: Sequence[str]) -> str:
        """``mcqa``, ``mcqa, 5-shot``."""
        return ", ".join(filter(None, column)) or "Score"

    def in_order(self) -> list[ScoreCell]:
        """The cells row by row."""
        keys = [(row, column) for row in self.rows for column in self.columns]
        return [self.cells[key] for key in keys if key in self.cells]

    def with_caption(self, caption: str) -> ScoreTable:
        return replace(self, caption=caption)


# The caption


def caption(table: ScoreTable, tests: Sequence[BaselineTest]) -> str:
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
    names = " or ".join(dict.fromkeys(test.result.test for test in tests))
    count = f", Holm-adjusted for {len(tests)} comparisons" if len(tests) > 1 else ""
    verdicts = {test.verdict for test in tests}
    level = f"p < {number(ALPHA, 2)}"
    how = f"paired {names}{count}, {level}"
    if not verdicts & {REAL, CONFOUNDED}:
        return f"No score differs from {base} ({how})."
    texts = [f"{MARKS[REAL]} differs from {base} ({how})"] if REAL in verdicts else []
    if CONFOUNDED in verdicts:
        more = "the same, but" if texts else f"differs from {base} ({how}), but"
        texts.append(f"{MARKS[CONFOUNDED]} {more} replies without an answer may explain it")
    return f"{'; '.join(texts)}."
