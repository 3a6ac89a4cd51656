"""How deep and how large a YAML text may be: what a few lines can blow up is refused before it is built.

In: a text, or its composed nodes. Out: nothing, or an error that names the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from lm_eval.config.yaml_errors import line_of
from lm_eval.errors import ConfigError

MAX_EXPANDED_VALUES = 1_000_000
"""How many values a file may hold once each ``*alias`` is written out."""

MAX_DEPTH = 200
"""How deeply lists and mappings may be nested; far more would overflow the C loader's stack."""

SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's safe loader, in C where there is one."""


def check_depth(text: str, source: str) -> None:
    """Refuse very deep nesting before it is composed; ordinary files cost one scan."""
    indents = re.findall(r"(?m)^[ ?:-]+", text)
    deepest_block = max(map(len, indents), default=0)
    if max(deepest_block, text.count("[") + text.count("{")) <= MAX_DEPTH:
        return
    depth = 0
    try:
        for event in yaml.parse(text, Loader=SafeLoader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > MAX_DEPTH:
                raise too_deep(source)
    except (yaml.YAMLError, UnicodeEncodeError):
        return  # composing it says where and why


def too_deep(source: str) -> ConfigError:
    """The error for a text that is nested too deeply."""
    return ConfigError(
        f"{source} is nested more than {MAX_DEPTH} levels deep. Use fewer.", path=source
    )


def check_expansion(root: yaml.Node, source: str) -> None:
    """Refuse aliases that contain themselves, or that would write out to a huge or deep file."""
    counted: dict[int, tuple[int, int] | None] = {}  # id → (values, depth); None: being counted
    stack = [root]
    while stack:
        node = stack[-1]
        children = list(_children(node))
        if id(node) not in counted:
            counted[id(node)] = None
            for child in children:
                if id(child) not in counted:
                    stack.append(child)
                elif counted[id(child)] is None:
                    raise _expansion_error(child, source, "refers to itself")
            continue
        stack.pop()
        if counted[id(node)] is None:
            inside = [counted[id(child)] or (0, 0) for child in children]
            counted[id(node)] = _checked_size(node, inside, source)


def _checked_size(node: yaml.Node, inside: list[tuple[int, int]], source: str) -> tuple[int, int]:
    values = 1 + sum(size for size, _ in inside)
    depth = 1 + max((depth for _, depth in inside), default=0)
    if values > MAX_EXPANDED_VALUES:
        what = f"stands for more than {MAX_EXPANDED_VALUES:,} values"
        raise _expansion_error(node, source, what)
    if depth > MAX_DEPTH + 1:
        raise _expansion_error(node, source, f"is nested more than {MAX_DEPTH} levels deep")
    return values, depth


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield key
            yield value
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _expansion_error(node: yaml.Node, source: str, what: str) -> ConfigError:
    return ConfigError(
        f"{source}, line {line_of(node)}: with its aliases ('*name') written out, the value that "
        f"begins here {what}. Write the value out, or use fewer aliases.",
        path=source,
        line=line_of(node),
    )
