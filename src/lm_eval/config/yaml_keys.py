"""Where a key stands: file and line, for errors about values that were read long ago.

In: a file and the way to a key, such as ``("formats", "mcqa", "instrution")``. The file is parsed again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import yaml

from lm_eval.config.yaml_errors import line_of
from lm_eval.config.yaml_loader import PathLike, composed


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
        place = _locate(target, key_path, seen)
        if place is not None:
            return place
    return None


def _include_values(root: yaml.Node) -> list[str]:
    pair = _find_pair(root, "include", set())
    if pair is None:
        return []
    value = pair[1]
    nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
    return [node.value for node in nodes if isinstance(node, yaml.ScalarNode)]


def _find_key(node: yaml.Node | None, key_path: Sequence[str | int]) -> yaml.Node | None:
    found = node
    for step in key_path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            if not -len(node.value) <= step < len(node.value):
                return None
            found = node = node.value[step]
            continue
        pair = _find_pair(node, str(step), set())
        if pair is None:
            return None
        found, node = pair
    return found if key_path else None


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
