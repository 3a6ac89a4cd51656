"""Write ``golden.json`` anew: the prompts of EleutherAI's own task files, on the rows of our cases.

Run it with the Python of an environment that holds EleutherAI's lm_eval 0.4.13 and nothing of ours:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install 'lm_eval[hf,math]==0.4.13'
    /tmp/peer/bin/python tests/differential/conventions/regenerate.py

Each case names a task file of that release. Its fields, helpers and delimiters stay as they are;
only its data are replaced by the rows of the case, and its examples by the first of these rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from peer_prompts import check_peer, requests  # noqa: E402

MOST = 5
"""Examples at most; the first rows are repeated where a case has fewer."""


def main() -> None:
    check_peer()
    cases = yaml.safe_load((HERE / "cases.yaml").read_text(encoding="utf-8"))
    golden = {
        name: {str(shots): asked(case, shots) for shots in case.get("shots", (0, 2, MOST))}
        for name, case in cases.items()
        if "peer" in case
    }
    text = json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False)
    (HERE / "golden.json").write_text(text + "\n", encoding="utf-8")
    print(f"{len(golden)} cases written. Read the diff before committing it.")


def asked(case: dict[str, Any], shots: int) -> list[list[Any]]:
    """What the peer asks about the last rows of a case, after examples from its first rows."""
    rows, kept = case["rows"], case.get("examples", 2)
    return requests(case["peer"], {"train": rows[:kept] * MOST, "test": rows[kept:]}, shots)


if __name__ == "__main__":
    main()
