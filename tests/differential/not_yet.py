"""Cases whose requests do not equal the golden ones yet, with the reason, in ``not_yet.json``.

The test expects these to fail. Write the list anew as the harness grows:

    python tests/differential/not_yet.py
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

PATH = Path(__file__).parent / "not_yet.json"


def main() -> None:
    from compare import request_difference
    from ours import run_ours
    from variants import HERE, cases, golden_path, needs_parity

    reasons: dict[str, str] = {}
    equal: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for selector, variant in cases():
        path = golden_path(selector, variant)
        golden = json.loads(path.read_text(encoding="utf-8"))
        if "error" in golden:
            continue
        try:
            mine = run_ours(selector, variant, parity=needs_parity(selector, variant))
            reason = request_difference(golden, mine)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        total[variant] += 1
        equal[variant] += reason is None
        if reason:
            reasons[path.stem] = reason.partition("\n")[0].replace(f"{HERE}/", "")[:200]
    PATH.write_text(json.dumps(reasons, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for variant, count in total.items():
        print(f"{variant:14} {equal[variant]:3} of {count:3} equal")
    print(f"{'all':14} {sum(equal.values()):3} of {sum(total.values()):3} equal")


if __name__ == "__main__":
    main()
