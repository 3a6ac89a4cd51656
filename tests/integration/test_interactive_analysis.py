"""``scripts/interactive_analysis.py``: what it prints, and what it says of files that are no replies."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.support.command_line import python
from tests.support.paths import ROOT

ROWS = [
    {"qid": "a", "nuggets": [1], "reply": '["support"]', "error_type": None, "format_type": "json"},
    {"qid": "b", "nuggets": [1, 2], "reply": "\x1b[31mno idea", "error_type": "format_error"},
    {"qid": "c", "nuggets": [1, 2], "reply": "2. support", "error_type": None},
    {"qid": "d", "nuggets": [1], "reply": '["support"]', "alarm": "absent"},
]


def analysed(*argv: str, said: str = "") -> subprocess.CompletedProcess[str]:
    return python(str(ROOT / "scripts/interactive_analysis.py"), *argv, said=said)


def test_summary_and_the_first_of_each_kind(tmp_path: Path) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    done = analysed(str(path))
    assert done.returncode == 0, done.stderr
    assert "4 replies" in done.stdout
    for kind in ("format_error", "incomplete_index", "read"):
        assert f"── {kind}: " in done.stdout
    assert "1 replies are read otherwise than when they were stored." in done.stdout
    assert "\\x1b[31mno idea" in done.stdout
    assert "\x1b" not in done.stdout
    done = analysed(str(path), "--kind", "incomplete_index")
    assert done.stdout.count("── ") == 1


def test_a_file_that_holds_no_replies(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"qid": "1"}\n')
    done = analysed(str(path))
    assert done.returncode == 1
    assert "'reply' and 'nuggets' are needed" in done.stderr
    assert "Traceback" not in done.stderr
    assert analysed(str(tmp_path / "none.jsonl")).returncode == 1
