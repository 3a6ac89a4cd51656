"""The values of a table: scores in rows and columns, and a caption about all of them.

The dimensions in which the scores differ make the rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lm_eval.lab.compare.values import ALPHA, CONFOUNDED, INCONCLUSIVE, REAL
from lm_eval.lab.stored.scores import PART, StoredScore

MARKS: Mapping[str, str] = {REAL: "*", CONFOUNDED: "†"}


@dataclass(frozen=True)
class BaselineTest:
    """A score minus that of the baseline, on the same items."""

    difference: float
    low: float | None
    high: float | None
    p: float
    p_adjusted: float
    """For all tests of the table, by Holm."""
    p_remaining: float
    """The p-value that the difference is more than luck and unread answers, adjusted likewise."""
    test: str

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
        test = self.test
        return row | {
            "difference": None if test is None else test.difference,
            "difference_low": None if test is None else test.low,
            "difference_high": None if test is None else test.high,
            "p": None if test is None else test.p,
            "p_adjusted": None if test is None else test.p_adjusted,
            "verdict": None if test is None else test.verdict,
        }


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
