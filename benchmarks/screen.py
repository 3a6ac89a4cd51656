"""What the result screen adds to a run: 13 formats on 14,000 items.

    python benchmarks/screen.py [--items 14000] [--runs 3]

Asks the dummy model 20 demo questions under 13 formats, puts made-up scores of many items in their place
and prints the screen into a buffer, each time in a process of its own. Prints CPU seconds of loading
(numpy among it) and of the work itself, the least of the runs, beside the bound of 0.1 s. The exit code
is 0 in any case, as a busy machine is no reason for a red test.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import process_time

SOURCE = Path(__file__).resolve().parent.parent / "src"
SEED = 20261117
MOST_CPU_S = 0.1
FORMATS = (
    *("mcqa", "cloze", "generate", "cot", "bare", "mcq_cot", "mcq::mmlu", "mcq::gpqa"),
    *("mcq::numbered", "cloze::pure", "cloze::with_options", "olmes_mc", "helm_mc"),
)


def screen(items: int) -> dict[str, float]:
    """CPU seconds of loading and of printing one screen."""
    from lm_eval.evaluator import execute, load_tasks, task_manager
    from lm_eval.reports.items import RunItems
    from lm_eval.run.plan import Run, RunOptions

    tasks, groups = load_tasks([f"demo_mcq@{name}" for name in FORMATS], task_manager({}))
    options = RunOptions(limit=20, shows_progress=False)
    outcome = execute(Run(model="dummy", options=options), tasks, groups)
    columns = RunItems()
    rng = random.Random(SEED)
    docs = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(items)]
    for place, result in enumerate(outcome.results):
        for number, digits in enumerate(docs):
            is_read = result.readings is None or rng.random() < 0.5
            score = float(is_read and rng.random() < 0.5 - 0.02 * place)
            sample = {"doc_id": number, "doc_hash": digits, "metrics": [result.primary]}
            sample[result.primary] = score
            if result.readings is not None:
                sample["reading"] = {"no_answer": None if is_read else "unreadable"}
            columns.add(result.name, sample)
    outcome = replace(outcome, items=columns)
    start = process_time()
    from rich.console import Console

    import lm_eval.lab.compare.statistics
    import lm_eval.screen.findings  # noqa: F401
    from lm_eval.screen.page import print_screen

    loaded = process_time()
    print_screen(outcome, Console(width=100, file=io.StringIO()))
    return {"load_s": loaded - start, "print_s": process_time() - loaded}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=14_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        sys.path.insert(0, str(SOURCE))
        print(json.dumps(screen(args.items)))
        return
    command = [sys.executable, __file__, "--once", "--items", str(args.items)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    found = [
        json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
        for _ in range(max(1, args.runs))
    ]
    printing, loading = (min(each[key] for each in found) for key in ("print_s", "load_s"))
    mark = "ok" if printing <= MOST_CPU_S else "OVER"
    print(f"screen: {len(FORMATS)} formats × {args.items:,} items")
    print(f"printing  {printing:6.2f} CPU s  ≤ {MOST_CPU_S:g}  {mark}")
    print(f"loading   {loading:6.2f} CPU s")


if __name__ == "__main__":
    main()
