"""What `lm-eval compare` costs: 20 formats on 14,000 items, with 10,000 resamples.

    python benchmarks/compare.py [--formats 20] [--items 14000] [--runs 3] [--clusters 0] [--models 1]

Writes a folder of made-up runs, then compares them in a process of its own. Prints CPU seconds, user
plus system (the least of the runs), and the peak of memory (the most), beside the bounds of 8 s and
400 MB. The exit code is 0 in any case, as a busy machine is no reason for a red test.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
SEED = 20261116
STAMP = "2026-11-16T00-00-00.000000"
MOST_CPU_S, MOST_MB = 8.0, 400.0


def write_run(folder: Path, model: int, args: argparse.Namespace) -> None:
    """One model's run: a results file and the items file beside it, as a real run leaves them."""
    from lm_eval.reports.items import ItemColumns

    chosen = random.Random(SEED + model)
    formats = [f"format-{number:02}" for number in range(args.formats)]
    effects = [chosen.gauss(0.4 + 0.3 * model, 0.15) for _ in formats]
    of_items = random.Random(SEED)
    ability = [of_items.gauss(0, 1.5) for _ in range(args.items)]
    docs = [
        hashlib.sha256(f"doc {number}".encode()).hexdigest()[:16] for number in range(args.items)
    ]
    clusters = (
        [f"passage {k % args.clusters}" for k in range(args.items)] if args.clusters else None
    )
    columns = []
    for name, effect in zip(formats, effects, strict=True):
        chances = [1 / (1 + math.exp(-(effect + item))) for item in ability]
        read = [float(chosen.random() < 0.98) for _ in docs]
        right = [
            float(bool(ok) and chosen.random() < p) for ok, p in zip(read, chances, strict=True)
        ]
        columns.append(
            ItemColumns(
                name=f"made_up@{name}",
                doc_ids=list(range(args.items)),
                docs=docs,
                shots=[""] * args.items,
                metrics={"exact_match": list(right)},
                read=read,
                clusters=clusters,
            )
        )
    names = [column.name for column in columns]
    scores = {column.name: sum(column.metrics["exact_match"]) / args.items for column in columns}
    results = {
        "results": {name: {"alias": name, "exact_match,none": scores[name]} for name in names},
        "configs": {name: {"task": "made_up", "output_type": "generate_until"} for name in names},
        "formats": {name: {"format": name.partition("@")[2]} for name in names},
        "primary_metrics": {name: {"exact_match,none": True} for name in names},
        "higher_is_better": {name: {"exact_match": True} for name in names},
        "n-shot": dict.fromkeys(names, 0),
        "n-samples": {name: {"original": args.items, "effective": args.items} for name in names},
        "versions": dict.fromkeys(names, 1),
        "model_name": f"model-{model}",
        "items_file": f"items_{STAMP}.json",
    }
    folder.mkdir(parents=True)
    items = {"items": [column.to_dict() for column in columns]}
    (folder / results["items_file"]).write_text(json.dumps(items), encoding="utf-8")
    (folder / f"results_{STAMP}.json").write_text(json.dumps(results), encoding="utf-8")


def measure(folder: Path) -> tuple[float, float, str]:
    """CPU seconds and peak MB of one comparison, and what it printed."""
    report = folder.parent / "report.txt"
    with report.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "lm_eval", "compare", str(folder)],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "120"},
        )
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    text = report.read_text(encoding="utf-8", errors="replace")
    if child.returncode:
        sys.exit(f"`lm-eval compare` ended with code {child.returncode}:\n{text[-2000:]}")
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return used.ru_utime + used.ru_stime, used.ru_maxrss / scale, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--formats", type=int, default=20)
    parser.add_argument("--items", type=int, default=14_000)
    parser.add_argument("--models", type=int, default=1)
    parser.add_argument("--clusters", type=int, default=0, help="0: items are not in clusters")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--show", action="store_true", help="print the report, too")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.write:
        sys.path.insert(0, str(SOURCE))
        for model in range(args.models):
            write_run(args.write / f"model-{model}", model, args)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "runs"
        # In a process of its own: a child's peak of memory is never below what its parent has held.
        subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--write", str(folder)], check=True
        )
        found = [measure(folder) for _ in range(max(1, args.runs))]
    cpu_s, most_mb = min(each[0] for each in found), max(each[1] for each in found)
    if args.show:
        print(found[0][2])
    print(f"compare: {args.models} model(s) × {args.formats} formats × {args.items:,} items")
    for label, value, bound in (("CPU s", cpu_s, MOST_CPU_S), ("peak MB", most_mb, MOST_MB)):
        mark = "ok" if value <= bound else "OVER"
        print(f"{label:<8} {value:8.2f}  ≤ {bound:g}  {mark}")


if __name__ == "__main__":
    main()
