"""Checks what changed, in under a minute: ``make quick``.

    python scripts/quick.py           ruff, mypy and the tests beside what changed
    python scripts/quick.py --list    only name the tests

What changed is what differs from the last commit shared with ``origin/main`` (or ``main``), uncommitted
and new files included. Beside a module are the unit tests named after it or, if there are none, after
the package around it; beside formats, readers, metrics and models the contract tests; beside formats the
golden prompts. A changed test is run itself, except the slow ones in ``tests/integration``, which are
named. Installs nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
CONTRACTS = ("formats", "scoring", "harness", "models", "registry.py")
"""Parts of ``src/lm_eval`` whose entries ``tests/contract`` checks one by one."""
LAYOUT = ("tests/unit/test_layout.py", "tests/unit/test_mirror.py")


def changed_files() -> list[str]:
    """Files that differ from the shared commit and still exist, relative to the root."""
    bases = (_git("merge-base", "HEAD", name) for name in ("origin/main", "main"))
    base = next((found[0] for found in bases if found), "HEAD")
    names = {
        *_git("diff", "--name-only", base),
        *_git("ls-files", "--others", "--exclude-standard"),
    }
    return sorted(name for name in names if (ROOT / name).is_file())


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines() if done.returncode == 0 else []


def tests_beside(changed: Iterable[str]) -> list[str]:
    """The tests to run for these files."""
    return sorted({test for name in changed for test in _beside(PurePosixPath(name))})


def _beside(file: PurePosixPath) -> Iterator[str]:
    top, *parts = file.parts
    if top == "tests":
        if file.name.startswith("test_") and file.suffix == ".py" and parts[0] != "integration":
            yield str(file)
        if parts[0] == "golden" and not file.name.startswith("test_"):
            yield "tests/golden"
    elif top == "src":
        yield from LAYOUT
        yield from _unit_tests(file.relative_to("src"))
        if parts[0] == "lm_eval" and parts[1] in CONTRACTS:
            yield "tests/contract"
        if "formats" in parts or "prompts" in parts:
            yield "tests/golden"


def _unit_tests(file: PurePosixPath) -> list[str]:
    """Tests named after a module, else after the nearest package that has some; a data file's folder."""
    unit = ROOT / "tests/unit"
    if file.suffix != ".py":
        return [f"tests/unit/{file.parent}"] if (unit / file.parent).is_dir() else []
    named = file.parent if file.name == "__init__.py" else file.with_suffix("")
    for one in (named, *named.parents[:-1]):
        folder = unit / one.parent
        found = [*folder.glob(f"test_{one.name}.py"), *folder.glob(f"test_{one.name}_*.py")]
        if found:
            return [test.relative_to(ROOT).as_posix() for test in found]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="only name the tests")
    args = parser.parse_args()
    changed = changed_files()
    tests = tests_beside(changed)
    if args.list:
        print("\n".join(tests))
        return 0
    if not changed:
        print("Nothing changed.")
        return 0
    code = [name for name in changed if name.endswith(".py")]
    steps: list[list[str]] = []
    if code:
        steps += [["ruff", "check", "--quiet", *code], ["ruff", "format", "--check", *code]]
    if any(name.startswith("src/") for name in code):
        steps.append(["mypy", "--no-error-summary"])  # all of it: only changes are checked anew
    if any(name.startswith(("src/", "docs/")) for name in changed):
        steps.append(["docs/generate.py", "--check"])
    if tests:
        steps.append(["pytest", "--exitfirst", "-n", "2", "--dist", "loadfile", *tests])
    failed = [name for name, *rest in steps if not _passes(name, rest)]
    for name in changed:
        if name.startswith("tests/integration/test_"):
            print(f"not run: {name} (python -m pytest {name})")
    return 1 if failed else 0


def _passes(name: str, arguments: list[str]) -> bool:
    shown = " ".join(arguments)
    print(f"{name:8} {shown}" if len(shown) <= 90 else f"{name:8} {len(arguments)} arguments")
    start = [name] if name.endswith(".py") else ["-m", name]
    return (
        subprocess.run([sys.executable, *start, *arguments], cwd=ROOT, check=False).returncode == 0
    )


if __name__ == "__main__":
    sys.exit(main())
