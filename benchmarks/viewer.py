"""How fast the viewer is: 100,000 samples in 570 MB, in a real browser, over HTTP and from a disk.

    python benchmarks/viewer.py [--rows 100000] [--folder DIR] [--chromium /usr/bin/chromium]

Needs ``pip install playwright`` and Debian's ``chromium``. The run is made first (in ``--folder``, where
it is used again next time). Times are seconds on the wall, from the click to what it shows; the heap is
what the page uses after everything was loaded and scrolled through. Bounds are the project's own.
The exit code is 0 whatever the figures: timing never decides a test.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lm_eval.support.encode import doc_hash
from lm_eval.viewer.app import app_html, open_server
from lm_eval.viewer.catalogue import Catalogue
from lm_eval.viewer.contract import Contract
from lm_eval.viewer.export import export

STAMP = "2026-01-02T03-04-05.000006"
NAME = "big@generate"
SAMPLE_CHARS = 5_000
"""Characters of the prompt, so that a line has about 5.7 kB."""
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--enable-precise-memory-info"),
)
WORDS = (
    *("amber", "birch", "cedar", "delta", "ember", "frost", "grove"),
    *("heath", "inlet", "jasper", "karst", "loam", "maple", "north"),
)


def write_run(folder: Path, rows: int) -> Path:
    """A run of one task under one format, as `lm-eval run` writes it."""
    model = folder / "model"
    model.mkdir(parents=True, exist_ok=True)
    draw = random.Random(0)
    shots = " ".join(draw.choice(WORDS) for _ in range(SAMPLE_CHARS // 6))
    columns: dict[str, Any] = {"acc": [], "read": [], "doc": []}
    samples = model / f"samples_{NAME}_{STAMP}.jsonl"
    with samples.open("w", encoding="utf-8") as file:
        for number in range(rows):
            sample = _sample(number, draw, shots)
            file.write(json.dumps(sample) + "\n")
            columns["acc"].append(sample["acc"])
            columns["read"].append(int(sample["reading"]["no_answer"] is None))
            columns["doc"].append(sample["doc_hash"][:16])
    _write_results(model, samples.name, columns)
    return folder


def _sample(number: int, draw: random.Random, shots: str) -> dict[str, Any]:
    words = [draw.choice(WORDS) for _ in range(14)]
    doc = {
        "question": f"Item {number}: {' '.join(words)}?",
        "subject": words[0],
        "answer": number % 4,
    }
    reply = f"{' '.join(words[::-1])}. The best answer is {'ABCD'[draw.randrange(4)]}."
    is_read = draw.random() > 0.1
    reading: dict[str, Any] = {"value": None, "answer": None, "rule": None, "span": None}
    if is_read:
        value = "ABCD".index(reply[-2])
        span = [len(reply) - 2, len(reply) - 1]
        reading = {"value": value, "answer": f"c{value}", "rule": "choice:phrase", "span": span}
    return {
        "doc_id": number,
        "doc": doc,
        "target": "ABCD"[number % 4],
        "arguments": {
            "gen_args_0": {"arg_0": f"{shots}\n\nQuestion: {doc['question']}", "arg_1": {}}
        },
        "doc_hash": doc_hash(doc),
        "resps": [[reply]],
        "filtered_resps": [reply],
        "filter": "none",
        "metrics": ["acc"],
        "acc": float(is_read and reading["value"] == number % 4),
        "format": "generate",
        "reading": {**reading, "no_answer": None if is_read else "unreadable"},
        "read_with": {
            "labels": list("ABCD"),
            "choices": ["c0", "c1", "c2", "c3"],
            "gold": [number % 4],
        },
        "finish": "stop",
        "fewshot_docs": [],
    }


def _write_results(model: Path, samples: str, columns: dict[str, Any]) -> None:
    rows = len(columns["acc"])
    items = {
        "name": NAME,
        "filter": "none",
        "doc_id": list(range(rows)),
        "doc": "".join(columns["doc"]),
        "shots": "",
        "metrics": {"acc": columns["acc"]},
        "read": columns["read"],
        "cluster": None,
        "missing": 0,
    }
    (model / f"items_{STAMP}.json").write_text(json.dumps({"items": [items]}))
    score = sum(columns["acc"]) / rows
    results = {
        "results": {NAME: {"acc,none": score, "acc_stderr,none": 0.001, "sample_len": rows}},
        "configs": {NAME: {"task": "big", "output_type": "generate_until"}},
        "formats": {NAME: {"format": "generate", "fingerprint": "0", "version": 1}},
        "higher_is_better": {NAME: {"acc": True}},
        "primary_metrics": {NAME: {"acc,none": None}},
        "n-shot": {NAME: 0},
        "n-samples": {NAME: {"original": rows, "effective": rows}},
        "config": {"model": "model"},
        "model_name": "model",
        "samples_files": {NAME: samples},
        "items_file": f"items_{STAMP}.json",
        "lm_eval_version": "0.1.0",
    }
    (model / f"results_{STAMP}.json").write_text(json.dumps(results))


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = open_server(Contract(Catalogue([folder])))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()


ALL_TEXTS = "document.querySelectorAll('.row:not(.head) .blank').length === 0"


def wait(page: Any, condition: str, limit_s: float = 120) -> None:
    """Wait until a condition holds; asked from here, since the page's policy forbids `eval`."""
    end = time.perf_counter() + limit_s
    while not page.evaluate(condition):
        if time.perf_counter() > end:
            raise TimeoutError(condition)
        time.sleep(0.01)


def measure(browser: Any, address: str, rows: int) -> dict[str, float]:
    """Open the list of items, filter it, scroll through it, open a sample far down."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    found: dict[str, float] = {}
    page.goto(address)
    page.wait_for_selector(".card.run")
    start = time.perf_counter()
    page.click("a.score")
    page.wait_for_selector(".row:not(.head) .question")
    wait(page, ALL_TEXTS)
    found["first rows"] = time.perf_counter() - start
    total = f"{rows - 1}"
    page.focus(".rows")
    page.keyboard.press("End")
    wait(page, f"document.querySelector('.row.active .num')?.textContent === '{total}'")
    wait(page, ALL_TEXTS)
    found["all first words"] = time.perf_counter() - start
    start = time.perf_counter()
    page.fill("#search", "generate:unread amber")
    wait(page, "document.querySelector('.query .facts').textContent.includes(' of ')")
    found["filter"] = time.perf_counter() - start
    page.fill("#search", "")
    wait(page, "document.querySelector('.query .facts').textContent === ''")
    found["frames a second while scrolling"] = page.evaluate(SCROLL, ".rows")
    page.focus(".rows")
    page.keyboard.press("End")
    start = time.perf_counter()
    page.keyboard.press("Enter")
    page.wait_for_selector(".format pre.text")
    found["open a sample"] = time.perf_counter() - start
    found["heap MB"] = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
    page.close()
    return found


SCROLL = """async (selector) => {
  const box = document.querySelector(selector);
  let frames = 0;
  const start = performance.now();
  while (performance.now() - start < 2000) {
    box.scrollTop = (box.scrollTop + 1700) % (box.scrollHeight - 800);
    await new Promise(requestAnimationFrame);
    frames++;
  }
  return frames / 2;
}"""
BOUNDS = {
    "http": {"first rows": 2.0, "filter": 0.5, "open a sample": 0.5, "heap MB": 120},
    "file": {"first rows": 4.0, "filter": 0.5, "open a sample": 0.5, "heap MB": 120},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where to make the run, or where it is")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary) / "run"
        if not list(folder.glob("model/results_*.json")):
            write_run(folder, args.rows)
        _report(folder, Path(temporary) / "export", args)


def _report(folder: Path, target: Path, args: argparse.Namespace) -> None:
    from playwright.sync_api import sync_playwright

    samples = next(folder.glob("model/samples_*.jsonl"))
    size = samples.stat().st_size / 1e6
    print(
        f"{args.rows:,} samples, {size:,.0f} MB; app {len(gzip.compress(app_html())) / 1e3:.1f} kB gzip"
    )
    start = time.process_time()
    export(Catalogue([folder]), target)
    exported = sum(file.stat().st_size for file in target.rglob("*.js")) / 1e6
    print(f"export to a folder: {time.process_time() - start:.1f} CPU s, {exported:,.0f} MB")
    with sync_playwright() as play:
        for kind in ("http", "file"):
            browser = play.chromium.launch(executable_path=args.chromium, args=list(FLAGS))
            if kind == "http":
                with served(folder) as address:
                    found = measure(browser, address, args.rows)
            else:
                found = measure(browser, (target / "index.html").as_uri(), args.rows)
            browser.close()
            for name, value in found.items():
                bound = BOUNDS[kind].get(name)
                verdict = (
                    "" if bound is None else f"≤ {bound:g} {'ok' if value <= bound else 'OVER'}"
                )
                print(f"{kind:5} {name:34} {value:8.2f}  {verdict}")


if __name__ == "__main__":
    main()
