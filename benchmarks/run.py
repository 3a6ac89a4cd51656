"""How fast and how small: every case in a process of its own, in CPU seconds, beside the bounds.

    python benchmarks/run.py [--repeats 3] [--docs 14000] [--peer /path/to/venv/bin/python]
                             [--library /path/to/lm_eval/tasks]

``--peer`` is a Python in which EleutherAI's ``lm_eval`` is installed; its seconds stand beside ours.
``--library`` is a large folder of task files, such as that package's: it is indexed, listed and checked.
CPU seconds are user plus system time of the process and its children, the least of all repeats. A row
over its bound is marked. The exit code is 0 whatever the figures: timing never decides a test.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from workload import SMALL_DOCS, write_workload

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src"

HEAVY = ("torch", "transformers", "datasets", "scipy", "numpy")
FLAT = 1.15  # "flat in the number of shots", with room for one pointer to each shot


@dataclass(frozen=True)
class Usage:
    """What one process took, and what it printed."""

    cpu_s: float
    peak_mb: float
    output: str
    errors: str = ""

    @property
    def phases(self) -> dict[str, float]:
        """The JSON object that ``ours.py`` and ``peer.py`` print; other output stands before it."""
        return dict(json.loads(self.output.splitlines()[-1]))


class ProcessFailedError(Exception):
    """A measured process ended with an error."""


@dataclass(frozen=True)
class Harness:
    """One of the two programs that are measured."""

    name: str
    python: str
    script: str
    env: dict[str, str]
    repeats: int

    def command_line(self, *arguments: str) -> Usage:
        """The best of several runs of ``lm-eval …``."""
        return self.best(["-m", "lm_eval", *arguments], lambda usage: usage.cpu_s)

    def build(self, tasks: Path, task: str, shots: int, *options: str) -> Usage:
        """The best of several runs that build all requests of a task."""
        command = [str(HERE / self.script), *options]
        command += ["--tasks", str(tasks), "--task", task, "--shots", str(shots)]
        return self.best(command, lambda usage: sum(usage.phases.values()))

    def best(self, command: Sequence[str], cost: Callable[[Usage], float]) -> Usage:
        return min((self.once(command) for _ in range(self.repeats)), key=cost)

    def once(self, command: Sequence[str]) -> Usage:
        return measured([self.python, *command], self.env)


def measured(command: Sequence[str], env: dict[str, str]) -> Usage:
    """Run a process to its end. Output goes to files, so that a full pipe never stops it."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        output, errors = out.read(), err.read()
    if process.returncode != 0:
        last = (errors.strip() or "no message").splitlines()[-1]
        raise ProcessFailedError(f"exit code {process.returncode}: {last[:200]}")
    peak_kb = usage.ru_maxrss / (1024 if sys.platform == "darwin" else 1)
    return Usage(usage.ru_utime + usage.ru_stime, peak_kb / 1024, output, errors)


# What is shown


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure, what it may be at most, and the peer's."""

    case: str
    ours: float
    unit: str
    bound: float | None = None
    peer: float | None = None

    @property
    def is_over(self) -> bool:
        return self.bound is not None and self.ours > self.bound

    def cells(self) -> tuple[str, ...]:
        ratio = "" if self.peer is None else f"{self.peer / self.ours:.1f} ×"
        bound = "" if self.bound is None else f"≤ {self.bound:g}"
        verdict = "OVER" if self.is_over else "" if self.bound is None else "ok"
        return (self.case, self.unit, shown(self.ours), bound, verdict, shown(self.peer), ratio)


def shown(figure: float | None) -> str:
    """Three digits that matter."""
    if figure is None:
        return ""
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.3g}"


HEADINGS = ("case", "unit", "ours", "bound", "", "peer", "peer/ours")
WIDTHS = (52, 9, 8, 7, 5, 8, 10)


def line(cells: Sequence[str]) -> str:
    padded = [
        cell.ljust(width) if at < 2 else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, WIDTHS, strict=True))
    ]
    return " ".join(padded).rstrip()


# The cases


@dataclass(frozen=True)
class Bench:
    """What the cases share: the two harnesses and the workload."""

    ours: Harness
    peer: Harness | None
    folder: Path
    docs: int
    library: Path | None = None

    @property
    def tasks(self) -> Path:
        return self.folder / "tasks"

    def of_peer(self, measure: Callable[[Harness], Usage]) -> Usage | None:
        return None if self.peer is None else measure(self.peer)


def start_cases(bench: Bench) -> Iterator[Row]:
    """Starting up, and a run so small that starting up is all there is."""

    def run_small(harness: Harness) -> Usage:
        return harness.command_line(
            *("run", "--model", "dummy", "--tasks", "bench_small", "--limit", "10"),
            *("--include_path", str(bench.tasks)),
        )

    def show_help(harness: Harness) -> Usage:
        return harness.command_line("--help")

    yield _cpu_row("lm-eval --help", bench, show_help, 0.2)
    yield _cpu_row(f"run of 10 docs (of {SMALL_DOCS}), dummy", bench, run_small, 0.8)


def build_cases(bench: Bench) -> Iterator[Row]:
    """Building requests: reading the data counts towards the bound, starting Python does not."""
    for shots, bound in ((0, 1.0), (5, 1.6)):
        ours = bench.ours.build(bench.tasks, "bench_text", shots, "build").phases
        peer = bench.of_peer(lambda harness, n=shots: harness.build(bench.tasks, "bench_text", n))
        theirs = peer.phases if peer else {}
        case = f"build {bench.docs:,} docs × 4, {shots} shots, Jinja task"
        total = sum(theirs.values()) if theirs else None
        yield Row(case, sum(ours.values()), "CPU s", bound, total)
        yield Row(
            "  of which reading the data", ours["load_s"], "CPU s", None, theirs.get("load_s")
        )
    for name in ("mcqa", "cloze", "generate"):
        for shots, bound in ((0, 1.0), (5, 1.6)):
            phases = bench.ours.build(bench.tasks, f"bench_fields@{name}", shots, "build").phases
            case = f"build {bench.docs:,} docs × 4, {shots} shots, @{name}"
            yield Row(case, sum(phases.values()), "CPU s", bound)


def memory_cases(bench: Bench) -> Iterator[Row]:
    """Peak memory of building, as a multiple of what it is without shots."""
    for case, options in {
        "text": ("build",),
        "chat": ("build", "--chat", "multi"),
        "chat, one turn": ("build", "--chat", "single"),
    }.items():
        peaks = {
            shots: bench.ours.build(bench.tasks, "bench_fields@mcqa", shots, *options).peak_mb
            for shots in (0, 5, 25)
        }
        yield Row(f"memory for building, 0 shots, {case}", peaks[0], "MB")
        for shots in (5, 25):
            case_name = f"  {shots} shots, relative to 0 shots"
            yield Row(case_name, peaks[shots] / peaks[0], "ratio", FLAT)


def whole_run_cases(bench: Bench) -> Iterator[Row]:
    """From the command line to the files: load, build, ask, score, save."""

    def run_all(harness: Harness) -> Usage:
        return harness.command_line(
            *("run", "--model", "dummy", "--tasks", "bench_text", "--log_samples"),
            *("--include_path", str(bench.tasks)),
            *("--output_path", str(bench.folder / f"results_{harness.name}")),
        )

    ours, peer = run_all(bench.ours), bench.of_peer(run_all)
    case = f"whole run of {bench.docs:,} docs with files, dummy"
    yield Row(case, ours.cpu_s, "CPU s", 5.0, peer and peer.cpu_s)
    yield Row("  its memory", ours.peak_mb, "MB", 250, peer and peer.peak_mb)
    read = bench.ours.command_line(
        *("run", "--model", "dummy", "--tasks", "bench_fields@generate", "--log_samples"),
        *("--include_path", str(bench.tasks), "--output_path", str(bench.folder / "results_read")),
    )
    yield Row(f"whole run of {bench.docs:,} docs, @generate, dummy", read.cpu_s, "CPU s", 8.0)


def reading_cases(bench: Bench) -> Iterator[Row]:
    """Reading generated text."""
    speeds = bench.ours.once([str(HERE / "ours.py"), "read"]).phases
    for name, per_second in speeds.items():
        yield Row(f"read replies: {name}", per_second, "per CPU s")
    table = bench.ours.best([str(HERE / "ours.py"), "table"], lambda usage: usage.phases["table_s"])
    yield Row("results table of 400 rows", table.phases["table_s"], "CPU s")


def screen_cases(bench: Bench) -> Iterator[Row]:
    """What the result screen of 13 formats adds to a run."""
    command = [str(HERE / "screen.py"), "--once", "--items", str(bench.docs)]
    best = bench.ours.best(command, lambda usage: usage.phases["print_s"])
    yield Row(
        f"result screen of 13 formats × {bench.docs:,} items", best.phases["print_s"], "CPU s", 0.1
    )
    yield Row("  loading numpy and our modules for it", best.phases["load_s"], "CPU s")


def import_cases(bench: Bench) -> Iterator[Row]:
    """Importing, beyond what starting Python takes; ``HEAVY`` modules may not be among it."""
    bare = bench.ours.best(["-c", "pass"], lambda usage: usage.cpu_s).cpu_s
    for module in ("lm_eval", "lm_eval.cli", "lm_eval.cli.run"):
        code = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])"
        usage = bench.ours.best(["-c", code], lambda usage: usage.cpu_s)
        heavy = "" if usage.output.strip() == "[]" else f" LOADS {usage.output.strip()}"
        yield Row(f"import {module}{heavy}", max(usage.cpu_s - bare, 0.001), "CPU s")


def library_cases(bench: Bench) -> Iterator[Row]:
    """A large folder of task files: indexed once, then listed, run from and checked."""
    if bench.library is None:
        return
    listing = ["-m", "lm_eval", "ls", "tasks", "--include_path", str(bench.library)]
    with tempfile.TemporaryDirectory(dir=bench.folder) as cache:
        fresh = replace(bench.ours, env={**bench.ours.env, "XDG_CACHE_HOME": cache})
        yield Row("library: first ls tasks, every file read", fresh.once(listing).cpu_s, "CPU s", 6)
        again = fresh.best(listing, lambda usage: usage.cpu_s)
        yield Row("library: ls tasks afterwards", again.cpu_s, "CPU s", 0.6)
        small = fresh.command_line(
            *("run", "--model", "dummy", "--tasks", "bench_small", "--limit", "10"),
            *("--include_path", str(bench.library), "--include_path", str(bench.tasks)),
        )
        yield Row("library: run of 10 docs, dummy", small.cpu_s, "CPU s", 1.2)
        everything = ["-m", "lm_eval", "validate", "--all", "--include_path", str(bench.library)]
        # Errors of single tasks are findings; the exit code is theirs.
        code = f"import sys, runpy; sys.argv[1:] = {everything[2:]!r}\ntry: runpy.run_module('lm_eval', "
        code += "run_name='__main__')\nexcept SystemExit: pass"
        yield Row("library: validate --all", fresh.once(["-c", code]).cpu_s, "CPU s", 120)


CASES = (
    start_cases,
    library_cases,
    build_cases,
    memory_cases,
    whole_run_cases,
    reading_cases,
    screen_cases,
    import_cases,
)


def _cpu_row(case: str, bench: Bench, measure: Callable[[Harness], Usage], bound: float) -> Row:
    peer = bench.of_peer(measure)
    return Row(case, measure(bench.ours).cpu_s, "CPU s", bound, peer and peer.cpu_s)


# Which modules an import spends its time in


def slowest_imports(harness: Harness, module: str, count: int = 8) -> list[str]:
    """The modules whose own code takes longest to import, as ``-X importtime`` sees it."""
    report = harness.once(["-X", "importtime", "-c", f"import {module}"]).errors
    own: list[tuple[int, str]] = []
    for entry in report.splitlines()[1:]:
        own_us, _, name = entry.removeprefix("import time:").split("|")
        own.append((int(own_us), name.strip()))
    total = sum(us for us, _ in own)
    slowest = sorted(own, reverse=True)[:count]
    listed = ", ".join(f"{name} {us / 1000:.1f}" for us, name in slowest)
    return [f"import {module}: {len(own)} modules, {total / 1000:.0f} ms of wall time", listed]


# Putting it together


def main() -> int:
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="lm_eval_bench_") as name:
        folder = Path(name)
        write_workload(folder, args.docs)
        library = Path(args.library).resolve() if args.library else None
        ours, peer = our_harness(folder, args), peer_harness(folder, args)
        bench = Bench(ours, peer, folder, args.docs, library)
        warm_up(bench)
        print("\n".join(about(bench)))
        print(line(HEADINGS))
        over = sum(show(case, bench) for case in CASES)
        print()
        for module in ("lm_eval.cli", "lm_eval.cli.run"):
            with suppress(ProcessFailedError):
                print("\n  ".join(slowest_imports(bench.ours, module)))
    print(f"\n{over} over their bound." if over else "\nAll within their bounds.")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure lm_eval beside its bounds and its peer.")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each case (default: 3)")
    parser.add_argument("--docs", type=int, default=14_000, help="docs of the large task")
    parser.add_argument("--peer", metavar="PYTHON", help="a Python with EleutherAI's lm_eval")
    parser.add_argument("--library", metavar="DIR", help="a large folder of task files")
    parser.add_argument("--peer_repeats", type=int, default=1, help="runs of the peer (default: 1)")
    return parser.parse_args()


def our_harness(folder: Path, args: argparse.Namespace) -> Harness:
    """This checkout, with byte code kept as in an installed package."""
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONPYCACHEPREFIX": str(folder / "pyc")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return Harness("ours", sys.executable, "ours.py", env, args.repeats)


def peer_harness(folder: Path, args: argparse.Namespace) -> Harness | None:
    """The peer, kept from the network and from caches of earlier runs."""
    if args.peer is None:
        return None
    env = {**os.environ, "HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}
    env.pop("PYTHONPATH", None)
    return Harness("peer", args.peer, "peer.py", env, args.peer_repeats)


def warm_up(bench: Bench) -> None:
    """Compile modules and fill data caches once, so that no measured run does it."""
    with suppress(ProcessFailedError):  # the case itself will say what failed
        bench.ours.build(bench.tasks, "bench_small", 0, "build")
        bench.ours.once(
            ["-c", "import lm_eval.cli.run, lm_eval.reports.table, lm_eval.models.dummy"]
        )
    if bench.peer is not None:
        with suppress(ProcessFailedError):
            bench.peer.build(bench.tasks, "bench_text", 0)


def about(bench: Bench) -> Iterator[str]:
    """Which machine and which versions the figures belong to."""
    cores = os.cpu_count()
    yield f"Python {platform.python_version()}, {platform.machine()}, {cores} cores"
    yield f"load {os.getloadavg()[0]:.1f}; least of {bench.ours.repeats} runs"
    if bench.peer is not None:
        code = "from importlib.metadata import version; print(version('lm_eval'))"
        version = bench.peer.once(["-c", code]).output.strip()
        yield f"peer: EleutherAI lm_eval {version}, least of {bench.peer.repeats} runs"


def show(case: Callable[[Bench], Iterator[Row]], bench: Bench) -> int:
    """Print the rows of a case as they come; how many are over their bound."""
    over = 0
    try:
        for row in case(bench):
            print(line(row.cells()), flush=True)
            over += row.is_over
    except ProcessFailedError as error:
        print(f"{case.__name__} stopped, {error}")
    return over


if __name__ == "__main__":
    sys.exit(main())
