"""Write ``golden.json`` anew: what EleutherAI's task files ask about the invented rows of the library.

Run it with the Python of an environment that holds EleutherAI's lm_eval 0.4.13 and nothing of ours:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install 'lm_eval[hf,math]==0.4.13'
    /tmp/peer/bin/python tests/differential/library/regenerate.py

``rows.json`` has the rows: ``python -m tests.differential.library.ours`` writes it with our package.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from peer_prompts import check_peer, requests  # noqa: E402


def main(wanted: list[str]) -> None:
    check_peer()
    without_scorers()
    pairs = yaml.safe_load((HERE / "pairs.yaml").read_text(encoding="utf-8"))
    rows = json.loads((HERE / "rows.json").read_text(encoding="utf-8"))
    golden = {}
    for name, pair in pairs.items():
        if wanted and name not in wanted:
            continue
        asked = renamed(rows[name], pair.get("columns", {}))
        golden[name] = {
            str(shots): requests(pair["peer"], asked, shots) for shots in pair.get("shots", (0, 5))
        }
    text = json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / "golden.json").write_text(text + "\n", encoding="utf-8")
    print(f"{len(golden)} benchmarks written. Read the diff before committing it.")


def renamed(rows: dict[str, Any], columns: dict[str, str]) -> dict[str, Any]:
    """The rows with further columns, each the value at a path such as ``context.contexts``."""

    def value(row: Any, path: str) -> Any:
        for name in path.split("."):
            row = row[name]
        return row

    return {
        split: [
            {**row, **{name: value(row, path) for name, path in columns.items()}} for row in part
        ]
        for split, part in rows.items()
    }


def without_scorers() -> None:
    """Stand in for the module of scorers that transformers no longer has; prompts do not use it."""
    for name in ("transformers.data.metrics", "transformers.data.metrics.squad_metrics"):
        sys.modules.setdefault(name, types.ModuleType(name))
    parent = sys.modules["transformers.data.metrics"]
    parent.squad_metrics = sys.modules["transformers.data.metrics.squad_metrics"]


if __name__ == "__main__":
    main(sys.argv[1:])
