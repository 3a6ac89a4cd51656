"""How many items or repeats a difference needs: assumptions or stored runs → rows and sentences.

The variance of the difference on an item is what all depends on. It is assumed, or that of two formats
(or two models) in stored runs, where items that share a cluster count as what they are worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lm_eval.lab.power.rows import Assumptions, PowerRow, Question, power_rows
from lm_eval.lab.power.words import power_words


@dataclass(frozen=True)
class PowerPlan:
    """The rows of a table, and what they say."""

    question: Question
    assumptions: tuple[Assumptions, ...]
    rows: tuple[PowerRow, ...]
    words: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What should be known about the choice of results."""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        found = asdict(self)
        for one in found["assumptions"]:
            one["limit"] = None if math.isinf(one["limit"]) else one["limit"]
        return found


def plan(
    assumptions: Sequence[Assumptions], question: Question, notes: Sequence[str] = ()
) -> PowerPlan:
    """The answers for each of the assumptions; ValueError for what cannot be asked."""
    rows = [row for one in assumptions for row in power_rows(one, question)]
    words = power_words(assumptions, rows, question)
    return PowerPlan(question, tuple(assumptions), tuple(rows), tuple(words), tuple(notes))
