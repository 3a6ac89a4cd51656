"""Held-out replies are read no worse than when the readers were last measured on them.

The replies were written by someone who did not know the readers' rules. `floors.json` has the counts
by kind at the last measurement, as ``benchmarks/readers.py --json tests/data/replies/floors.json``
writes them. Where readers have become better, write it anew.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.readers import FILES, NOTHING, load, outcomes, prefix_changes, tallied
from tests.support.paths import TESTS

READ_IN_ONE_WAY_ONLY = {"correction-03", "placeholder-07"}
"""Replies read right only if the phrase is prefilled."""
FLOORS = json.loads((TESTS / "data" / "replies" / "floors.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_kind_of_reply_is_read_worse_than_measured(path: Path) -> None:
    floors = FLOORS[path.stem]
    measured = tallied((row, outcome) for row, outcome, _ in outcomes(load(path)))

    assert {kind: tally.n for kind, tally in measured.items()} == {
        kind: floor["n"] for kind, floor in floors.items()
    }
    worse = {
        kind: tally
        for kind, tally in measured.items()
        if tally.right < floors[kind]["right"] or tally.wrong > floors[kind]["wrong"]
    }
    assert not worse, "list the replies with: python benchmarks/readers.py --failures"


def test_a_prefilled_phrase_and_a_written_one_are_read_the_same() -> None:
    changed, pairs = prefix_changes(load(FILES[0]))

    assert pairs > 200
    assert {row["id"] for row in changed} <= READ_IN_ONE_WAY_ONLY


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_row_expects_an_answer_that_exists(path: Path) -> None:
    rows = load(path)

    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        if row["expected"] == NOTHING:
            continue
        if "nuggets" in row:
            assert len(row["expected"]) == row["nuggets"], row["id"]
        elif row["labels"] is not None:
            assert row["expected"] in row["labels"], row["id"]
            assert len(row["labels"]) == len(row["choices"]), row["id"]
