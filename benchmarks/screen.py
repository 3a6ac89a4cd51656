"""What the result screen adds to a run: 13 formats on 14,000 items.

    python benchmarks/screen.py [--items 14000] [--runs 3]

Asks the dummy model 20 demo questions under 13 formats, replaces their scores by made-up ones of many
items and prints the screen into a buffer, each time in a separate process, with byte code cached and
garbage collected as by the command. Prints CPU seconds of loading modules (most of it numpy) and of the
work itself, the least of the runs, beside the bound of 0.1 s. The exit code is always 0: a busy machine
should not fail a build.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import tempfile
from contextlib import redirect_stdout
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from time import process_time

SOURCE = Path(__file__).resolve().parent.parent / "src"
SEED = 20261117
MOST_CPU_S = 0.1
LOADED = (
    *("numpy.random", "lm_eval.lab.compare.statistics"),
    *("lm_eval.lab.stored.select", "lm_eval.lab.compare.findings"),
)
"""Modules that the screen loads as it needs them."""
FORMATS = (
    *("mcqa", "cloze", "generate", "cot", "bare", "mcq_cot", "mcq::mmlu", "mcq::gpqa"),
    *("mcq::numbered", "cloze::pure", "cloze::with_options", "olmes_mc", "helm_mc"),
)


def screen(items: int) -> dict[str, float]:
    """CPU seconds of loading and of printing one screen."""
    from lm_eval.cli.program import GARBAGE_AFTER
    from lm_eval.evaluator import execute, load_tasks, task_manager
    from lm_eval.reports.items import RunItems
    from lm_eval.run.plan import Run, RunOptions
    from lm_eval.support.terminal import console

    gc.set_threshold(GARBAGE_AFTER)
    tasks, groups = load_tasks([f"demo_mcq@{name}" for name in FORMATS], task_manager({}))
    options = RunOptions(limit=20, shows_progress=False)
    outcome = execute(Run(model="dummy", options=options), tasks, groups)
    columns = RunItems()
    rng = random.Random(SEED)
    docs = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(items)]
    for row, result in enumerate(outcome.results):
        for number, digits in enumerate(docs):
            is_read = result.readings is None or rng.random() < 0.5
            score = float(is_read and rng.random() < 0.5 - 0.02 * row)
            sample = {"doc_id": number, "doc_hash": digits, "metrics": [result.primary]}
            sample[result.primary] = score
            if result.readings is not None:
                sample["reading"] = {"no_answer": None if is_read else "unreadable"}
            columns.add(result.name, sample)
    outcome = replace(outcome, items=columns)
    with redirect_stdout(io.StringIO()):
        start = process_time()
        page = console()
        for module in LOADED:
            import_module(module)
        from lm_eval.screen.page import print_screen

        loaded = process_time()
        print_screen(outcome, page)
        printed = process_time()
    return {"load_s": loaded - start, "print_s": printed - loaded}


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
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        environment["PYTHONPYCACHEPREFIX"] = folder
        runs = [
            json.loads(
                subprocess.run(command, env=environment, check=True, capture_output=True).stdout
            )
            for _ in range(max(1, args.runs) + 1)
        ][1:]  # the first fills the cache of byte code
    printing, loading = (min(run[key] for run in runs) for key in ("print_s", "load_s"))
    mark = "ok" if printing <= MOST_CPU_S else "OVER"
    print(f"screen: {len(FORMATS)} formats × {args.items:,} items")
    print(f"printing  {printing:6.2f} CPU s  ≤ {MOST_CPU_S:g}  {mark}")
    print(f"loading   {loading:6.2f} CPU s")


if __name__ == "__main__":
    main()
