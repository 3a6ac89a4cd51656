"""The measures of the house: how many modules there are, how large they are, who imports whom.

    python scripts/house.py           the figures
    python scripts/house.py --list    with the names behind each figure
    python scripts/house.py --walk    the modules that a run of the demo task enters

How things are counted, always below ``src/``, both packages together:

- A module is a ``.py`` file, ``__init__.py`` included; the task library is data and is left out.
- A folder has as many modules as there are files directly in it, without ``__init__.py``.
- An import counts wherever it is written: at the top, in a function, under TYPE_CHECKING. Several
  imports of a module by the same importer count once. ``from package import name`` imports the
  module ``package.name`` if there is one, else the package. Packages, ``__main__`` and the addresses
  that are kept for users are left out of the modules with one importer.
- A class name is shared if classes of that name are defined in two modules or more, inside functions
  and other classes too.
- A function's lines run from its first decorator to its end.
- A signature has ``Any`` if one of its annotations names ``Any`` or an alias that is made of it, such as
  ``Array = Any``, in the same module or imported.
- A module is entered if one of its functions is called while none of our modules is being imported.
  Read in the order of their first calls, the room changes where the next module is in another folder.
  Bodies of classes and what ``dataclass`` generates are not functions of a module.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

SRC = Path(__file__).resolve().parents[1] / "src"
PACKAGES = ("lm_eval", "nugget_eval")
ADDRESSES = (
    *("lm_eval.api", "lm_eval.utils", "lm_eval.evaluator", "lm_eval.cli"),
    *("lm_eval.models.api_models", "lm_eval.models.openai_completions"),
    *("lm_eval.models.huggingface", "nugget_eval.common", "nugget_eval.config"),
    "nugget_eval.prompts",
    *("lm_eval.harness.filters", "lm_eval.harness.instances", "lm_eval.harness.stderr"),
)
"""What users import by these names, or by names of ``lm_eval.addresses`` (the last line)."""
STATS = "lm_eval.stats"
MOST_IN_A_FOLDER = 15
SHORT, LONG = 100, 700
DEMO_RUN = ("run", "--tasks", "demo_mcq@generate", "--model", "dummy")
Function = ast.FunctionDef | ast.AsyncFunctionDef


# Modules


@dataclass(frozen=True)
class Module:
    """A source file under its dotted name."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def functions(self) -> Iterator[Function]:
        """Functions, methods and functions inside them."""
        return (node for node in self.nodes if isinstance(node, Function))

    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in self.nodes if isinstance(node, ast.ClassDef))


def read_modules(src: Path) -> dict[str, Module]:
    """Every module below a folder, by its dotted name."""
    found = {}
    for path in sorted(src.rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        if "library" not in parts:
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path)
    return found


# Figures


@dataclass(frozen=True)
class Figure:
    """A line of the table, and the names behind it."""

    what: str
    value: str
    names: tuple[str, ...] = ()


def figures(src: Path) -> list[Figure]:
    """All the figures of a source tree."""
    modules = read_modules(src)
    return [
        Figure("modules", f"{len(modules):,}"),
        Figure("lines", f"{sum(module.lines for module in modules.values()):,}"),
        *folder_figures(src, modules.values()),
        one_importer_figure(modules),
        *class_figures(modules.values()),
        longest_function_figure(modules.values()),
        any_figure(modules),
        *size_figures(modules.values()),
    ]


def folder_figures(src: Path, modules: Iterable[Module]) -> Iterator[Figure]:
    """The largest folder, and those with too many modules."""
    folders = Counter(
        str(module.path.parent.relative_to(src)) for module in modules if not module.is_package
    )
    names = {folder: f"{folder}: {count}" for folder, count in folders.most_common()}
    crowded = tuple(names[folder] for folder in names if folders[folder] > MOST_IN_A_FOLDER)
    every = tuple(names.values())
    yield Figure("modules in the largest folder", every[0] if every else "none", every)
    yield Figure(f"folders with more than {MOST_IN_A_FOLDER} modules", str(len(crowded)), crowded)


def one_importer_figure(modules: dict[str, Module]) -> Figure:
    """Modules that exactly one other module imports."""
    importers = importers_of(modules)
    names = tuple(
        f"{name} ← {next(iter(importers[name]))}"
        for name, module in modules.items()
        if len(importers[name]) == 1 and not module.is_package and not is_for_users(name)
    )
    return Figure("modules with one importer", str(len(names)), names)


def is_for_users(name: str) -> bool:
    """Whether a module is a program or an address, so that few of ours need to import it."""
    below = tuple(f"{address}." for address in ADDRESSES[:1])
    return name.endswith(".__main__") or name in ADDRESSES or name.startswith(below)


def importers_of(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Module → the modules that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for name in imported_names(module):
            imported = longest_known(name, modules)
            if imported and imported != module.name:
                found[imported].add(module.name)
    return found


def imported_names(module: Module) -> Iterator[str]:
    """Dotted names that a module imports, of modules or of what is in them."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def longest_known(name: str, modules: dict[str, Module]) -> str:
    """``lm_eval.errors.UsageError`` → ``lm_eval.errors``; empty where no part is a module."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def class_figures(modules: Iterable[Module]) -> Iterator[Figure]:
    """Class names that are defined in several modules: public ones, and all."""
    places: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        for node in module.classes():
            places[node.name].add(module.name)
    shared = {name: sorted(where) for name, where in sorted(places.items()) if len(where) > 1}
    names = {name: f"{name}: {', '.join(where)}" for name, where in shared.items()}
    public = tuple(text for name, text in names.items() if not name.startswith("_"))
    yield Figure("public class names in several modules", str(len(public)), public)
    yield Figure("class names in several modules", str(len(names)), tuple(names.values()))


def longest_function_figure(modules: Iterable[Module]) -> Figure:
    """The longest function, and the ten longest by name."""
    sizes = [
        (function_lines(function), f"{module.name}.{function.name}")
        for module in modules
        for function in module.functions()
    ]
    names = tuple(f"{name}: {lines}" for lines, name in sorted(sizes, reverse=True)[:10])
    return Figure("longest function, in lines", names[0] if names else "none", names)


def function_lines(function: Function) -> int:
    """How many lines a function takes, decorators included."""
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return (function.end_lineno or first) - first + 1


def size_figures(modules: Iterable[Module]) -> Iterator[Figure]:
    """Modules that are short, and those that are long."""
    by_size = sorted((module.lines, module.name) for module in modules)
    short = tuple(f"{name}: {lines}" for lines, name in by_size if lines < SHORT)
    long = tuple(f"{name}: {lines}" for lines, name in reversed(by_size) if lines > LONG)
    yield Figure(f"modules under {SHORT} lines", str(len(short)), short)
    yield Figure(f"modules over {LONG} lines", str(len(long)), long)


# Signatures


def any_figure(modules: dict[str, Module]) -> Figure:
    """The share of signatures in the statistics whose types are open."""
    total, names = 0, []
    aliases = any_aliases(modules)
    for name, module in modules.items():
        if name == STATS or name.startswith(f"{STATS}."):
            for function in module.functions():
                total += 1
                if any(names_one_of(note, aliases[name]) for note in types_in(function)):
                    names.append(f"{name}.{function.name}")
    share = len(names) / total if total else 0.0
    value = f"{share:.0%} ({len(names)} of {total})"
    return Figure(f"signatures with Any in {STATS}", value, tuple(names))


def types_in(function: Function) -> Iterator[ast.expr]:
    """The types in a signature."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    yield from (arg.annotation for arg in every if arg is not None and arg.annotation is not None)
    if function.returns is not None:
        yield function.returns


def any_aliases(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Module → the names in it that stand for ``Any`` or for something made of it."""
    aliases = {name: {"Any"} for name in modules}
    has_news = True
    while has_news:  # an alias of an alias, or one that is imported on
        before = sum(map(len, aliases.values()))
        for name, module in modules.items():
            aliases[name] |= set(own_aliases(module, aliases[name]))
            aliases[name] |= set(imported_aliases(module, aliases))
        has_news = sum(map(len, aliases.values())) > before
    return aliases


def own_aliases(module: Module, known: set[str]) -> Iterator[str]:
    """Names that a module's top level gives to such types."""
    for node in module.tree.body:
        if isinstance(node, ast.AnnAssign) and is_type_alias(node.annotation):
            targets: list[ast.expr] = [node.target]
        elif isinstance(node, ast.Assign) and not isinstance(node.value, ast.Call):
            targets = node.targets
        else:
            continue
        if node.value is not None and names_one_of(node.value, known):
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def is_type_alias(annotation: ast.expr) -> bool:
    """Whether what is annotated so is another name for a type."""
    return ast.unparse(annotation).endswith("TypeAlias")


def imported_aliases(module: Module, aliases: dict[str, set[str]]) -> Iterator[str]:
    """Names under which a module imports such types from others."""
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom):
            known = aliases.get(node.module or "", set())
            yield from (one.asname or one.name for one in node.names if one.name in known)


def names_one_of(expression: ast.expr, names: set[str]) -> bool:
    """Whether a type mentions one of these names."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Name) and node.id in names:
            return True
        if isinstance(node, ast.Attribute) and node.attr in names:
            return True
    return False


# One run


class Walk:
    """Notes which of our modules are entered, as a profiler of all threads."""

    def __init__(self, src: Path) -> None:
        self._root = f"{src}{os.sep}"
        self.files: dict[str, str] = {}
        """File → the first of its functions that was called, in the order of the calls."""

    def start(self) -> None:
        threading.setprofile(self)
        sys.setprofile(self)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        is_function = event == "call" and code.co_flags & inspect.CO_OPTIMIZED
        if not is_function or not self._is_ours(frame) or code.co_filename in self.files:
            return
        if not self._is_importing(frame):
            self.files[code.co_filename] = code.co_name

    def _is_ours(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(self._root)

    def _is_importing(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code.co_name == "<module>" and self._is_ours(frame):
                return True
            frame = frame.f_back
        return False


def walk_here(src: Path) -> dict[str, Any]:
    """Carry out the demo run in this process: the modules entered, and all that were imported."""
    from lm_eval.cli import main

    walk = Walk(src)
    walk.start()
    code = main(list(DEMO_RUN))
    sys.setprofile(None)
    names = {str(module.path): name for name, module in read_modules(src).items()}
    imported = [name for name in sys.modules if name.split(".")[0] in PACKAGES]
    entered = {names[file]: function for file, function in walk.files.items() if file in names}
    return {"code": code, "entered": entered, "imported": sorted(imported)}


def walked(src: Path) -> dict[str, Any]:
    """The same in a process of its own, with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "walk.json")
        done = subprocess.run(
            [sys.executable, __file__, "--src", str(src), "--walk_here", str(out)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(src), "XDG_CACHE_HOME": folder},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            sys.exit(f"The run failed: python -m lm_eval {' '.join(DEMO_RUN)}")
        found: dict[str, Any] = json.loads(out.read_text("utf-8"))
        return found


def print_walk(src: Path) -> None:
    """Print the modules that the run enters, in that order, and how many there are."""
    found = walked(src)
    for name, function in found["entered"].items():
        print(f"  {name}  ({function})")
    rooms = [name.rpartition(".")[0] for name in found["entered"]]
    changes = sum(before != after for before, after in pairwise(rooms))
    print(
        f"{len(rooms)} modules entered, {len(found['imported'])} imported, {changes} changes of room:"
    )
    print(f"lm-eval {' '.join(DEMO_RUN)}")


# The program


def print_figures(src: Path, *, lists_names: bool) -> None:
    """Print the table and, if wanted, the names behind each figure."""
    rows = figures(src)
    width = max(len(row.what) for row in rows)
    for row in rows:
        print(f"{row.what:<{width}}  {row.value}")
    for row in rows if lists_names else ():
        if row.names:
            print(f"\n{row.what}: {row.value}", *row.names, sep="\n  ")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="The measures of the house.")
    parser.add_argument("--list", action="store_true", help="also the names behind each figure")
    parser.add_argument("--walk", action="store_true", help="the modules that a demo run enters")
    parser.add_argument("--src", type=Path, default=SRC, help="another source folder")
    parser.add_argument("--walk_here", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    src = given.src.resolve()
    if given.walk_here:
        found = walk_here(src)
        given.walk_here.write_text(json.dumps(found), encoding="utf-8")
        sys.exit(found["code"])
    if given.walk:
        print_walk(src)
    else:
        print_figures(src, lists_names=given.list)


if __name__ == "__main__":
    main()
