"""Who imports whom: the order that each package's docstring gives, against the imports of the source.

A package says ``Read in this order: a, b, c.`` in its docstring. Read downwards: a module imports only
from what comes before it, in its own package and in every package around it; ``nugget_eval`` comes after
all of ``lm_eval``. Imports inside functions count as well. Imports for types alone do not: they are not
there when the program runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import lm_eval

SOURCE = Path(lm_eval.__file__).parents[1]
PACKAGES = ("lm_eval", "nugget_eval")
ORDER = re.compile(r"Read in this order:\s+([^.]+)\.")

# The harness calls its methods on the task object, and programs override those of its ``HFLM``, so
# these classes must have them: each takes them from the room of the harness's rules. These are the only
# imports that point downwards.
DOORS = {
    "lm_eval.tasks.methods": "lm_eval.harness",
    "lm_eval.models.huggingface": "lm_eval.compat",
}


def modules() -> dict[str, Path]:
    """Dotted name → file, of both packages; a package under its own name."""
    named = {}
    for package in PACKAGES:
        for file in sorted((SOURCE / package).rglob("*.py")):
            parts = file.relative_to(SOURCE).with_suffix("").parts
            if "library" not in parts:
                named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return named


MODULES = modules()
TREES = {name: ast.parse(file.read_text(encoding="utf-8")) for name, file in MODULES.items()}


def is_package(name: str) -> bool:
    return MODULES[name].name == "__init__.py"


def children(package: str) -> set[str]:
    """The names of the modules and packages directly in a package."""
    depth = package.count(".") + 1
    below = [
        name for name in MODULES if name.startswith(f"{package}.") and name.count(".") == depth
    ]
    return {name.rpartition(".")[2] for name in below} - {"__main__"}


@cache
def order(package: str) -> tuple[str, ...]:
    """The order that a package's docstring gives; empty where it gives none."""
    stated = ORDER.search(ast.get_docstring(TREES[package]) or "")
    return tuple(re.split(r",\s+", stated[1])) if stated else ()


@dataclass(frozen=True)
class Import:
    """One import statement's module, and where it stands."""

    name: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}: {self.name}"


def imports(module: str) -> Iterator[Import]:
    """The modules of ours that run when this one does: late imports too, imports for types not."""
    for node in _running(TREES[module].body):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{module}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] in PACKAGES:
                yield Import(_module_part(name), node.lineno)


def _running(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from _running(node.orelse)
        elif not (isinstance(node, ast.FunctionDef) and node.name == "__getattr__"):  # an address
            for part in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from _running(getattr(node, part, []))


def _module_part(name: str) -> str:
    """``lm_eval.config.fields.shorten`` → ``lm_eval.config.fields``: as much of it as is a module."""
    parts = name.split(".")
    while ".".join(parts) not in MODULES:
        parts = parts[:-1]
    return ".".join(parts)


def is_above(imported: str, importer: str) -> bool:
    """Whether what is imported comes before the module that imports it, read downwards."""
    if importer.startswith(
        f"{imported}."
    ):  # the package around it, for what its ``__init__`` holds
        return True
    ours, theirs = importer.split("."), imported.split(".")
    if ours[0] != theirs[0]:
        return PACKAGES.index(theirs[0]) < PACKAGES.index(ours[0])
    if imported.startswith(f"{importer}."):  # a package that names what is in it
        return True
    depth = next(place for place, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
    around = order(".".join(ours[:depth]))
    return around.index(theirs[depth]) < around.index(ours[depth])


@pytest.mark.parametrize("package", [name for name in MODULES if is_package(name)])
def test_package_gives_its_order(package: str) -> None:
    """Every package with more than one thing in it says in which order they build on each other."""
    inside = children(package)
    if len(inside) > 1:
        assert sorted(order(package)) == sorted(inside), f"{package}: Read in this order: …"


@pytest.mark.parametrize("module", [name for name in MODULES if not name.endswith("__main__")])
def test_imports_follow_the_tree(module: str) -> None:
    door = DOORS.get(module)
    wrong = [
        str(one)
        for one in imports(module)
        if one.name != module
        and not is_above(one.name, module)
        and not (door and one.name.startswith(f"{door}."))
    ]
    assert not wrong, f"{module} imports what comes after it in the tree: {wrong}"


def test_each_door_is_used() -> None:
    for module, room in DOORS.items():
        assert any(one.name.startswith(f"{room}.") for one in imports(module)), module


@pytest.mark.parametrize("package", [name for name in MODULES if is_package(name)])
def test_a_folder_holds_at_most_15_modules(package: str) -> None:
    files = [name for name in MODULES[package].parent.glob("*.py") if name.name != "__init__.py"]
    assert len(files) <= 15


def test_addresses_hold_no_logic() -> None:
    """``api/`` holds addresses: docstring, imports, ``__all__``, ``__getattr__``."""
    for module, tree in TREES.items():
        if module.startswith("lm_eval.api"):
            for node in tree.body:
                is_alias = isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
                is_all = isinstance(node, ast.Assign) and "__all__" in ast.dump(node.targets[0])
                is_more = ast.unparse(node) == "__getattr__ = attributes_of(__name__)"
                is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                is_import = isinstance(node, ast.Import | ast.ImportFrom)
                assert is_alias or is_all or is_more or is_text or is_import, (
                    f"{module}, line {node.lineno}"
                )


def test_own_modules_import_the_real_home() -> None:
    for module in MODULES:
        if not module.startswith("lm_eval.api"):
            assert not [one for one in imports(module) if one.name.startswith("lm_eval.api")], (
                module
            )


@pytest.mark.parametrize("module", MODULES)
def test_modules_open_with_a_docstring(module: str) -> None:
    if len(TREES[module].body) > 1:
        assert ast.get_docstring(TREES[module]), f"{module} has no docstring"


def test_every_class_name_is_used_once() -> None:
    """One word, one thing: someone who searches for a class finds one."""
    homes: dict[str, set[str]] = {}
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, set()).add(module)
    assert not {name: sorted(where) for name, where in homes.items() if len(where) > 1}
