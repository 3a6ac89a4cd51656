"""Who imports whom: STYLE.md's tree as data, compared with the imports of the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lm_eval

SOURCE = Path(lm_eval.__file__).parent

# Read downwards, as in STYLE.md: a module imports from lines above it, only from the layers named
# here, and from its own layer. ``errors``, ``registry`` and ``as_dict`` are open to all. The package
# ``formats`` has its own order inside; a task is a type to ``requests``, so that import stands under
# TYPE_CHECKING.
LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "registry": set(),
    "user_cache": set(),
    "reports.redact": set(),  # what is secret is one rule for all
    "as_dict": set(),
    "config.fields": set(),
    "config.pairs": {"config.fields"},
    "config": {"config.fields"},
    "data": {"config", "config.fields"},
    "formats.readers": set(),
    "formats.assemble": {"config.fields"},
    "formats.gold": {"config.fields"},
    "formats.items": {"config.fields", "formats.gold"},
    "formats.labels": set(),
    "formats.normalisation": set(),
    "formats.orders": {"formats.items"},
    "formats.cross_references": {"formats.labels"},
    "formats.prompt_format": {
        "config.fields",
        "formats.assemble",
        "formats.items",
        "formats.labels",
        "formats.readers",
    },
    "formats.format_fields": {
        "config.fields",
        "formats.labels",
        "formats.normalisation",
        "formats.readers",
        "formats.prompt_format",
    },
    "formats.compile": {"config.fields", "formats.prompt_format", "formats.format_fields"},
    "formats.list_file": {"config", "config.fields", "formats.prompt_format", "formats.compile"},
    "formats.jinja": {"config.fields", "formats.prompt_format"},
    "formats.templates": {
        "config.fields",
        "formats.items",
        "formats.prompt_format",
        "formats.compile",
        "formats.jinja",
    },
    "formats": set(),
    "tasks.prompts": {"config.fields", "formats.*"},
    "tasks.harness": {"config.fields", "formats.*", "tasks.prompts"},
    "tasks.config_values": {"config.fields", "formats.*"},
    "tasks.config": {
        *("config", "config.fields", "formats.*", "tasks.prompts", "tasks.config_values")
    },
    "tasks.fitness": {"config.fields", "formats.*", "tasks.config", "tasks.prompts"},
    "tasks.fewshot": set(),
    "tasks.overridable": {"config.fields", "formats.*"},  # the harness's methods, late imports
    "tasks.config_checks": {"config.fields", "tasks.config", "tasks.fewshot"},
    "tasks.docs": {"config.fields", "data", "tasks.*"},
    "tasks.fingerprint": {"tasks.config"},
    "tasks.task": {"config.fields", "formats.*", "tasks.*"},
    "tasks.index": {"config", "config.fields", "user_cache"},
    "tasks.groups": {"config", "config.fields", "tasks.task"},
    "tasks.names": {"tasks.index"},
    "tasks.python_task": {"config", "config.fields", "tasks.task"},
    "tasks.definitions": {"config", "config.fields", "tasks.*"},
    "tasks.building": {"tasks.*"},
    "tasks.loader": {"tasks.*"},
    "tasks": set(),
    "requests": {"config.fields", "formats.*"},
    "instances": {"formats.*", "requests"},
    "reordering": {"formats.*", "requests", "tasks.*"},
    "usage": set(),
    "prices": {"usage", "config"},
    "models.stepping": set(),  # from here to transport: no word of language models
    "models.pacing": set(),
    "models.failures": {"models.pacing"},
    "models.pool": {"models.failures"},
    "models.retrying": {"models.failures"},
    "models.transport": {
        "models.failures",
        "models.pacing",
        "models.pool",
        "models.retrying",
        "models.stepping",
    },
    "models": {
        *("models.*", "requests", "usage", "formats.*", "config.fields", "config.pairs"),
        *("user_cache", "reports.redact"),
    },
    "stats": set(),
    "scoring": {
        *("formats.*", "requests", "reordering", "stats", "usage", "config", "config.fields"),
        "tasks.*",
    },
    "reports": {
        *("scoring", "stats", "config.fields", "formats.*", "requests", "tasks.*"),
        *("usage", "prices", "reports.redact", "user_cache"),
    },
    "request_keys": {"requests", "formats.*"},
    "store": {"requests", "usage", "reports.redact"},
    "preparing": {"requests", "reordering", "scoring", "stats", "tasks.*"},
    "token_borders": {
        *("config.fields", "formats.*", "models", "models.*", "preparing", "requests", "tasks.*"),
    },
    "backends": {"models", "models.*", "reports.redact"},
    "capable": {"*"},
    "asking": {"*"},
    "resuming": {"*"},
    "doc_scoring": {"*"},
    "evaluator": {"*"},
    "runs": {"*"},
    "dry_run": {"*"},
    "simple": {"*"},
    "lab": {"*"},
    "cli": {"*"},
    "api": {"*"},
    "filters": {"*"},  # addresses of the harness, as api/ is
    "utils": {"*"},
    "__init__": set(),
    "__main__": {"cli"},
}
OPEN = {"errors", "registry", "as_dict"}
ORDER = list(LAYERS)


def layer_of(module: str) -> str:
    """The layer of a dotted name below ``lm_eval``: the longest that is listed."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        if name in LAYERS:
            return name
    return parts[0]


def modules() -> Iterator[tuple[str, Path]]:
    for file in sorted(SOURCE.rglob("*.py")):
        relative = file.relative_to(SOURCE).with_suffix("")
        if "library" in relative.parts:
            continue
        parts = relative.parts[:-1] if relative.name == "__init__" else relative.parts
        yield ".".join(parts) or "__init__", file


MODULES = dict(modules())


def imports(file: Path) -> Iterator[tuple[str, int]]:
    """Modules below ``lm_eval`` that are imported when this file is: not in functions, not for types."""
    for node in _at_import(ast.parse(file.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            assert node.level == 0, f"{file}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.split(".")[0] == "lm_eval":
                yield _module_part(name), node.lineno


def _at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from _at_import(node.orelse)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ClassDef):
            for part in ("body", "orelse", "finalbody"):
                yield from _at_import(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _at_import(handler.body)


def _module_part(name: str) -> str:
    """``lm_eval.config.fields.shorten`` → ``config.fields``: as much of it as is a module."""
    parts = name.split(".")[1:]
    while parts and ".".join(parts) not in MODULES:
        parts = parts[:-1]
    return ".".join(parts) or "__init__"


def is_allowed(importer: str, imported: str) -> bool:
    if imported in OPEN or imported in {importer, "__init__"}:
        return True
    if ORDER.index(imported) > ORDER.index(importer):
        return False
    allowed = LAYERS[importer]
    return (
        "*" in allowed
        or imported in allowed
        or f"{imported.split('.', maxsplit=1)[0]}.*" in allowed
    )


@pytest.mark.parametrize("module", MODULES)
def test_imports_follow_the_tree(module: str) -> None:
    layer = layer_of(module)
    assert layer in LAYERS, f"{module} is in no layer: add it to the tree"
    if module in OPEN:
        allowed = {"errors"} if module == "registry" else set()
        assert {name for name, _ in imports(MODULES[module])} <= allowed
        return
    wrong = [
        f"line {line}: {name}"
        for name, line in imports(MODULES[module])
        if not is_allowed(layer, layer_of(name))
    ]
    assert not wrong, (
        f"{module} (layer {layer}) may not import {wrong}. A new module needs a line in LAYERS."
    )


def test_no_import_cycles() -> None:
    graph = {name: {other for other, _ in imports(file)} - {name} for name, file in MODULES.items()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join([*path[path.index(name) :], name])
        if name in done:
            return
        for other in sorted(graph.get(name, ())):
            visit(other, (*path, name))
        done.add(name)

    for name in graph:
        visit(name, ())


def test_addresses_hold_no_logic() -> None:
    """``api/`` and ``filters/`` are addresses: docstring, imports, ``__all__``."""
    for module, file in MODULES.items():
        if module.split(".")[0] in ("api", "filters"):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                is_alias = isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
                is_all = isinstance(node, ast.Assign) and "__all__" in ast.dump(node.targets[0])
                is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                assert (
                    is_alias or is_all or is_text or isinstance(node, ast.Import | ast.ImportFrom)
                ), f"{module}, line {node.lineno}"


def test_own_modules_import_the_real_home() -> None:
    for module, file in MODULES.items():
        if not module.startswith("api"):
            assert not [n for n, _ in imports(file) if n.split(".")[0] == "api"], module


@pytest.mark.parametrize("module", MODULES)
def test_public_modules_open_with_a_docstring(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    if len(tree.body) > 1:
        assert ast.get_docstring(tree), f"{module} has no docstring"
