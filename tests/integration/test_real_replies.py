"""Choices are read in real models' replies no worse than when this was last measured.

The replies are not part of the project: without them this file is skipped, and the tables of odd answers
and the hand-written replies are what covers the reader.
"""

from __future__ import annotations

import pytest

from benchmarks.real_replies import DATA, outcome, read, rows, tallies

pytestmark = pytest.mark.skipif(
    not (DATA / "mmlu_pro_replies.jsonl.gz").exists(),
    reason="the real replies of ../shared/data/real are not there",
)

MAX_INVENTED = {"looked at": 5, "measuring": 8}
MAX_LOST = {"looked at": 14, "measuring": 3}


def test_few_letters_are_invented_or_lost_in_2_927_real_replies() -> None:
    judged = [(row, read(row)[0]) for row in rows()]
    counts = tallies(judged)

    failures = [f"{row['id']} {outcome(row, letter)}: {letter}" for row, letter in judged]
    failures = [failure for failure in failures if " right: " not in failure]
    for part, bound in MAX_INVENTED.items():
        assert counts[part]["invented"] <= bound, failures
        assert counts[part]["lost"] <= MAX_LOST[part], failures


def test_scores_by_our_reading_are_near_those_by_the_labels() -> None:
    counts = tallies((row, read(row)[0]) for row in rows())

    for name, count in counts.items():
        n = sum(count[kind] for kind in ("right", "invented", "lost"))
        # Replies that are hard to read are over-represented: a point here is a third of one in a run.
        assert abs(count["score"] - count["score by labels"]) <= max(2, 0.015 * n), name
