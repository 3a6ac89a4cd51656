"""YAML files → plain dicts: the first step of everything that is configured.

Comes in: a path or a text. Goes out: a dict in which ``include`` is resolved and ``!function`` has
become a ``FunctionRef``. The loader is PyYAML's safe one (in C where there is one), so ``yes``,
``1e-3`` and dates mean what they mean in the peer. ``locate_key`` finds a key again for errors.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import yaml

from lm_eval.config.yaml_loader import (
    PathLike,
    composed,
    excerpt,
    line_of,
    nearest_file,
    parse_yaml,
    read_yaml_file,
)
from lm_eval.errors import ConfigError, IncludeError

__all__ = [
    "IncludeCache",
    "PathLike",
    "excerpt",
    "key_line",
    "load_yaml",
    "locate_key",
    "parse_yaml",
    "read_yaml_file",
]


def load_yaml(
    path: PathLike, *, run_code: bool = True, includes: IncludeCache | None = None
) -> dict[str, Any]:
    """The file's mapping with every ``include`` resolved and the key itself gone.

    Later includes overwrite earlier ones and local keys overwrite all, whole values at a time;
    ``task_list`` is not inherited. ``run_code`` false makes each ``FunctionRef`` refuse to run.
    ``includes`` keeps included files for the next call.
    """
    path = os.fspath(path)
    cache = IncludeCache() if includes is None else includes
    return _resolve_includes(path, (path,), {file_identity(path): (path,)}, run_code, cache)


class IncludeCache:
    """Included files that were read already, so that a library's templates are parsed once.

    A file that has changed since is read again. Whoever loads many files keeps one of these.
    """

    def __init__(self) -> None:
        self._read: dict[tuple[str, bool], tuple[tuple[int, int], dict[str, Any]]] = {}

    def read(self, path: str, *, run_code: bool) -> dict[str, Any]:
        """The file's own mapping, as ``read_yaml_file`` gives it; a copy for each caller."""
        try:
            state = os.stat(path)
        except (OSError, ValueError):
            return read_yaml_file(path, run_code=run_code)
        stamp = (state.st_mtime_ns, state.st_size)
        known = self._read.get((path, run_code))
        if known is None or known[0] != stamp:
            known = self._read[path, run_code] = (stamp, read_yaml_file(path, run_code=run_code))
        own: dict[str, Any] = _copied(known[1])
        return own


def _copied(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if type(value) is list else value


def _resolve_includes(
    path: str,
    chain: tuple[str, ...],
    seen: dict[str, tuple[str, ...]],
    run_code: bool,
    cache: IncludeCache,
) -> dict[str, Any]:
    own = _read_in_chain(path, chain, run_code, cache)
    merged: dict[str, Any] = {}
    for entry in _include_list(own.pop("include", None), path):
        target = os.path.normpath(os.path.join(os.path.dirname(path), entry))
        route = (*chain, target)
        _check_target(target, entry, route, seen)
        seen[file_identity(target)] = route
        included = _resolve_includes(target, route, seen, run_code, cache)
        included.pop("task_list", None)
        merged.update(included)
    return {**merged, **own}


def _read_in_chain(
    path: str, chain: tuple[str, ...], run_code: bool, cache: IncludeCache
) -> dict[str, Any]:
    if len(chain) == 1:
        return read_yaml_file(path, run_code=run_code)
    try:
        return cache.read(path, run_code=run_code)
    except ConfigError as error:
        message = f"{error}\nIncluded by: {_arrows(chain)}"
        raise type(error)(message, path=error.path, line=error.line) from None


def _include_list(value: Any, path: str) -> list[str]:
    entries = [] if value is None else value if isinstance(value, list) else [value]
    for entry in entries:
        if not isinstance(entry, str) or not entry:
            raise IncludeError(
                f"{path}: `include` takes a file name or a list of file names, not {entry!r}.",
                path=path,
                line=key_line(path, ("include",)),
            )
    return entries


def _check_target(
    target: str, entry: str, route: tuple[str, ...], seen: dict[str, tuple[str, ...]]
) -> None:
    parent = route[-2]
    earlier = seen.get(file_identity(target))
    if earlier is not None:
        what = "includes itself" if target in route[:-1] else "is included twice"
        raise IncludeError(
            f"{target} {what}: {_arrows(route)}; first reached by {_arrows(earlier)}. "
            f"Each file may be included once; remove one of the two.",
            path=parent,
            line=key_line(parent, ("include",)),
        )
    if "\0" in target or not os.path.isfile(target):
        raise IncludeError(
            f"{parent} includes {entry!r}, but there is no file {target!r}."
            f"{nearest_file(target)} Paths are relative to the file with the `include`. "
            f"Chain: {_arrows(route)}.",
            path=parent,
            line=key_line(parent, ("include",)),
        )


def _arrows(chain: Sequence[str]) -> str:
    return " → ".join(chain)


def key_line(path: PathLike, key_path: Sequence[str | int]) -> int | None:
    """The 1-based line of a key in this file, such as ``("formats", "mcqa", "instrution")``.

    A number in ``key_path`` counts list items. None if the key is not there or the file cannot be
    read. Parses the file again, so it is for error messages.
    """
    node = _find_key(composed(os.fspath(path)), key_path)
    return None if node is None else line_of(node)


def locate_key(path: PathLike, key_path: Sequence[str | int]) -> tuple[str, int] | None:
    """File and line of a key, in this file or in the include that supplies it."""
    return _locate(os.fspath(path), tuple(key_path), set())


def _locate(path: str, key_path: tuple[str | int, ...], seen: set[str]) -> tuple[str, int] | None:
    identity = file_identity(path)
    root = None if identity in seen else composed(path)
    seen.add(identity)
    if not key_path or root is None:
        return None
    if _find_pair(root, str(key_path[0]), set()) is not None:
        node = _find_key(root, key_path)  # a local key hides the included one altogether
        return None if node is None else (path, line_of(node))
    for entry in reversed(_include_values(root)):
        target = os.path.normpath(os.path.join(os.path.dirname(path), entry))
        location = _locate(target, key_path, seen)
        if location is not None:
            return location
    return None


def _include_values(root: yaml.Node) -> list[str]:
    pair = _find_pair(root, "include", set())
    if pair is None:
        return []
    value = pair[1]
    nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
    return [node.value for node in nodes if isinstance(node, yaml.ScalarNode)]


def _find_key(node: yaml.Node | None, key_path: Sequence[str | int]) -> yaml.Node | None:
    key_node = node
    for step in key_path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            if not -len(node.value) <= step < len(node.value):
                return None
            key_node = node = node.value[step]
            continue
        pair = _find_pair(node, str(step), set())
        if pair is None:
            return None
        key_node, node = pair
    return key_node if key_path else None


def _find_pair(
    node: yaml.Node | None, key: str, seen: set[int]
) -> tuple[yaml.Node, yaml.Node] | None:
    """The key and value nodes of ``key``: the mapping's own, else from its ``<<``."""
    if not isinstance(node, yaml.MappingNode) or id(node) in seen:
        return None
    seen.add(id(node))
    merged: list[yaml.Node] = []
    for key_node, value_node in node.value:
        if key_node.tag.endswith(":merge"):
            is_list = isinstance(value_node, yaml.SequenceNode)
            merged += value_node.value if is_list else [value_node]
        elif isinstance(key_node, yaml.ScalarNode) and key_node.value == key:
            return key_node, value_node
    pairs = (_find_pair(source, key, seen) for source in merged)
    return next((pair for pair in pairs if pair is not None), None)


def file_identity(path: str) -> str:
    """The same text for every way to write the path of one file."""
    return path if "\0" in path else os.path.realpath(path)
