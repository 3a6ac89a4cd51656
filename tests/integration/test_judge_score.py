"""``nugget-eval score`` as people type it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.nuggets.workplace import Workplace


def test_a_ranking_comes_with_every_paired_test(tmp_path: Path) -> None:
    work = Workplace(tmp_path)
    rows = [
        {
            "query": "q",
            "qid": f"t{topic}",
            "answer_text": "a",
            "response_length": 1,
            "run_id": run,
            "nuggets": [{"text": "n", "importance": "vital", "assignment": label}],
        }
        for run, label in (("up", "support"), ("down", "not_support"))
        for topic in range(8)
    ]
    work.write("runs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    done = work.cli("score", "runs.jsonl", "--rank", "all_score").ok()
    (pair,) = (line for line in done.out.splitlines() if line.startswith("up − down"))
    assert pair.split()[3:5] == ["all_score", "1.000"]
    assert pair.split()[-1] == "8–0–0"
    work.write("one.jsonl", "".join(json.dumps(row) + "\n" for row in rows[:8]))
    alone = work.cli("score", "one.jsonl", "--rank", "all_score").ok()
    assert "Rank" in alone.out
    assert "Won–tied–lost" not in alone.out  # no table without rows
