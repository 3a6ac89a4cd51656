"""Labels and runs in a short spelling: S, P, N, and ``.`` for a missing label."""

from __future__ import annotations

from collections.abc import Mapping

from nugget_eval.data.records import Assignment, Nugget
from nugget_eval.reading import Label

LETTERS: dict[str, Label | None] = {
    "S": "support",
    "P": "partial_support",
    "N": "not_support",
    ".": None,
}


def labels(letters: str) -> list[Label | None]:
    return [LETTERS[letter] for letter in letters]


def nuggets(vital: str, okay: str = "", unstated: str = "") -> tuple[Nugget, ...]:
    """Nuggets with these labels, vital ones first, then okay, then without importance."""
    kinds = (("vital", vital), ("okay", okay), (None, unstated))
    return tuple(
        Nugget(f"{kind} {number}", kind, label)  # type: ignore[arg-type]
        for kind, letters in kinds
        for number, label in enumerate(labels(letters))
    )


def run(topics: Mapping[str, str], run_id: str = "r") -> list[Assignment]:
    """Answers of a run: topic → ``vital okay`` labels."""
    return [
        Assignment("q", qid, "a", 1, run_id, nuggets(*letters.split(" ")))
        for qid, letters in topics.items()
    ]
