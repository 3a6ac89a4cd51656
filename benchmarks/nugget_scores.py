"""How long it takes to read, score and compare a run of 1,000 topics with 20 nuggets each.

    python benchmarks/nugget_scores.py

Prints CPU seconds (best of three) for each step; the file is written anew each time.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from nugget_eval.common import LABELS
from nugget_eval.data.files import align_labels, read_assignments, write_records
from nugget_eval.data.records import IMPORTANCES, Assignment, Nugget
from nugget_eval.scores.agreement import agreement
from nugget_eval.scores.compare import rank_runs
from nugget_eval.scores.scores import score_run

TOPICS, NUGGETS = 1000, 20


def items(seed: int) -> list[Assignment]:
    """A run with random labels, one in twenty missing."""
    chosen = random.Random(seed)

    def nugget(number: int) -> Nugget:
        label = None if chosen.random() < 0.05 else chosen.choice(LABELS)
        return Nugget(f"nugget {number} of the topic", chosen.choice(IMPORTANCES), label)

    return [
        Assignment(
            "a query",
            f"2024-{i}",
            "word " * 300,
            300,
            f"run {seed}",
            tuple(map(nugget, range(NUGGETS))),
        )
        for i in range(TOPICS)
    ]


def show(what: str, work: Callable[[], object]) -> None:
    """The CPU seconds of ``work``, the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    print(f"{best:8.3f} s  {what}")


def main() -> None:
    first, second = items(1), items(2)
    scored = [score_run(run) for run in (first, second)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "assignments.jsonl"
        show("write the file", lambda: write_records(path, first))
        show("read it", lambda: list(read_assignments(path)))
    show("score the run, six measures with intervals", lambda: score_run(first))
    show("rank two runs", lambda: rank_runs(scored, "vital_score"))
    labels = align_labels(first, first)
    show(
        "agreement, eighteen statistics with intervals",
        lambda: agreement(labels.gold, labels.judged, topics=labels.topics),
    )


if __name__ == "__main__":
    main()
