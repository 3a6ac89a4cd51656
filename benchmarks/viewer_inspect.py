"""Our viewer beside that of inspect: the same samples, the same browser, the same steps.

    python benchmarks/viewer_inspect.py --inspect /path/to/venv/bin/python [--rows 100000] [--folder DIR]

``--inspect`` names a Python with ``inspect_ai``. ``benchmarks/viewer.py`` makes the run and
``inspect_log.py`` writes the same samples as a log of inspect (slow: about 1 ms a sample), both in
``--folder``, where they are used again next time. Each round opens both viewers in a fresh profile:

* first rows: from opening the address of the list to its first question, with the app itself
* filter: from the text of a query, ``amber``, to the number of items it keeps; both numbers are compared
* frames a second while the list is scrolled by two screens a frame
* open a sample: from choosing the last row to the text of its reply
* MB over the wire and heap: after all of these

The best of the rounds counts, since other processes only ever slow them down.
"""

from __future__ import annotations

import argparse
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from viewer import FLAGS, SCROLL, served, wait, write_run

LOG = "2026-01-02T03-04-05-00-00_big_benchmark.eval"
WORD = "amber"


@dataclass(frozen=True)
class Viewer:
    """Where a viewer shows the list of samples, and what its parts are called."""

    name: str
    address: str
    list_box: str
    question: str
    query: str
    kept: str
    """Text of the page once the query is applied, as a pattern with the number of items."""
    reply: str
    prepare: Callable[[Any], None]
    """Puts the caret into the filter."""


def ours(address: str) -> Viewer:
    return Viewer(
        name="ours",
        address=f"{address}#/items/big",
        list_box=".rows",
        question="#row-0 .question:has-text('Item 0')",
        query=WORD,
        kept=r"([\d,]+) of [\d,]+",
        reply="pre.reply",
        prepare=lambda page: page.focus("#search"),
    )


def inspect(address: str) -> Viewer:
    return Viewer(
        name="inspect",
        address=f"{address}#/tasks/{LOG}",
        list_box="[role=grid]",
        question="a[role=row]:has-text('Item 0')",
        query=f'input_contains("{WORD}")',
        kept=r"([\d,]+) Samples",
        reply="text=The best answer is",
        prepare=lambda page: page.click(".cm-content"),
    )


def measure(browser: Any, viewer: Viewer, rows: int) -> dict[str, float]:
    """All steps in a fresh profile."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(300_000)
    received = count_bytes(context, page)
    measured: dict[str, float] = {}
    start = time.perf_counter()
    page.goto(viewer.address)
    page.wait_for_selector(viewer.question)
    measured["first rows, s"] = time.perf_counter() - start
    page.wait_for_load_state("networkidle")
    measured["MB until then"] = sum(received) / 1e6
    measured["filter, s"], measured["items kept"] = filtered(page, viewer, rows)
    measured["frames a second"] = page.evaluate(SCROLL, viewer.list_box)
    measured["open a sample, s"] = opened(page, viewer, rows)
    measured["MB over the wire"] = sum(received) / 1e6
    measured["heap, MB"] = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
    context.close()
    return measured


def count_bytes(context: Any, page: Any) -> list[int]:
    """A list that grows by the size of each answer, headers included, as it came over the wire."""
    sizes: list[int] = []
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    session.on("Network.loadingFinished", lambda event: sizes.append(event["encodedDataLength"]))
    return sizes


def filtered(page: Any, viewer: Viewer, rows: int) -> tuple[float, float]:
    """How long the filter takes, and how many items it keeps; the filter is removed again."""
    viewer.prepare(page)
    start = time.perf_counter()
    page.keyboard.insert_text(viewer.query)
    kept = number(page, viewer, lambda count: count not in (None, rows))
    passed = time.perf_counter() - start
    page.keyboard.press("Control+A")
    page.keyboard.press("Delete")
    number(page, viewer, lambda count: count in (None, rows))
    return passed, float(kept or 0)


def number(page: Any, viewer: Viewer, fits: Callable[[int | None], bool]) -> int | None:
    """The number of items that the page says it shows, once it fits."""
    end = time.perf_counter() + 300
    while time.perf_counter() < end:
        matches = re.findall(viewer.kept, page.evaluate("document.body.innerText"))
        count = int(matches[-1].replace(",", "")) if matches else None
        if fits(count):
            return count
        time.sleep(0.01)
    raise TimeoutError(viewer.kept)


def opened(page: Any, viewer: Viewer, rows: int) -> float:
    """How long the last sample takes, from the click to its reply."""
    last = f"{viewer.list_box} [role=row][aria-rowindex='{rows + 1}']"
    end = f"document.querySelector('{viewer.list_box}').scrollTop = 1e9"
    wait(page, f"({end}, document.querySelector(`{last}`) !== null)", 300)
    page.wait_for_selector(f"{last}:has-text('Item {rows - 1}')")
    start = time.perf_counter()
    page.click(last)
    page.wait_for_selector(viewer.reply)
    return time.perf_counter() - start


@contextmanager
def inspect_server(python: Path, folder: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [python.parent / "inspect", "view", "start", "--log-dir", folder, "--port", str(port)]
    address = f"http://127.0.0.1:{port}/"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            await_answer(address)
            yield address
        finally:
            server.terminate()


def await_answer(address: str) -> None:
    for _ in range(600):
        try:
            urlopen(address).close()
        except (URLError, ConnectionError):
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(address)


def make(folder: Path, rows: int, python: Path) -> tuple[Path, Path]:
    """The run and the log of the same samples; what is there is kept."""
    run, log = folder / f"run_{rows}", folder / f"inspect_{rows}" / LOG
    if not list(run.glob("model/results_*.json")):
        write_run(run, rows)
    samples = next(run.glob("model/samples_*.jsonl"))
    if not log.exists():
        log.parent.mkdir(parents=True, exist_ok=True)
        writer = Path(__file__).with_name("inspect_log.py")
        subprocess.run([python, writer, samples, log], check=True)
    version = [python, "-c", "import inspect_ai; print(inspect_ai.__version__)"]
    print(
        f"{rows:,} samples · ours {samples.stat().st_size / 1e6:,.0f} MB · inspect_ai "
        f"{subprocess.run(version, check=True, capture_output=True, text=True).stdout.strip()} "
        f"{log.stat().st_size / 1e6:,.0f} MB, compressed"
    )
    return run, log.parent


def report(rounds: dict[str, list[dict[str, float]]]) -> None:
    print(f"{'':20}{'ours':>10}{'inspect':>10}")
    for name in rounds["ours"][0]:
        best = max if name == "frames a second" else min
        values = [best(measured[name] for measured in rounds[viewer]) for viewer in rounds]
        print(f"{name:20}" + "".join(f"{value:10,.2f}" for value in values))


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inspect", type=Path, required=True, help="a Python with inspect_ai")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where to make the runs, or where they are")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as play:
        run, logs = make(args.folder or Path(temporary), args.rows, args.inspect)
        rounds: dict[str, list[dict[str, float]]] = {"ours": [], "inspect": []}
        with served(run) as our_address, inspect_server(args.inspect, logs) as inspect_address:
            for _ in range(args.rounds):
                for viewer in (ours(our_address), inspect(inspect_address)):
                    browser = play.chromium.launch(executable_path=args.chromium, args=list(FLAGS))
                    rounds[viewer.name].append(measure(browser, viewer, args.rows))
                    browser.close()
        report(rounds)


if __name__ == "__main__":
    main()
