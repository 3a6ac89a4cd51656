"""What is wrong with a YAML text, in plain words: where, what, and what to do.

Also the limits of aliases, a few lines of which can expand without end, and the search for a key's line.
Works on texts and on PyYAML's nodes; ``yaml.py`` reads the files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

import yaml

from lm_eval.errors import ConfigError, YamlSyntaxError, did_you_mean, listing

MAX_EXPANDED_VALUES = 1_000_000
"""How many values a file may hold once each ``*alias`` is written out."""
MAX_DEPTH = 200
"""How deeply lists and mappings may be nested; far more would overflow the C loader's stack."""


# Syntax

_PLAIN_WORDS = (
    ("mapping values are not allowed", "a ':' where no further key can begin",
     "Put a text that holds ': ' in quotes; otherwise check the indentation."),
    ("could not find expected ':'", "a line without ':' where 'key: value' is expected",
     "Check the indentation of this line and of the one above."),
    ("did not find expected key", "this does not fit the block it is in",
     "Check the indentation; put a text that starts with {{, [, *, &, !, % or @ in quotes."),
    ("expected <block end>", "this does not fit the block it is in",
     "Check the indentation; put a text that starts with {{, [, *, &, !, % or @ in quotes."),
    ("cannot start any token", "a value cannot begin with this character",
     "Put the text in quotes."),
    ("found unexpected end of stream", "the file ends inside a quoted text",
     "Close the quote; write '' for a quote inside single quotes."),
    ("found undefined alias", "'*' begins an alias, and no anchor '&' of that name comes before it",
     "Put a text that starts with '*' in quotes."),
    ("found unknown escape character", "double quotes do not know this escape",
     "Use single quotes, in which a backslash is a backslash."),
    ("but found another document", "a second document begins here ('---')",
     "Keep one document per file."),
    ("unhashable key", "a key must be a simple value, and this one is a mapping or list",
     "Put a text that starts with {{ in quotes: '{{question}}'."),
    ("expected ','", "a list or mapping in brackets is not closed or lacks a comma",
     "Close the bracket; put a text that starts with [ or { in quotes."),
)  # fmt: skip


def syntax_error(error: yaml.MarkedYAMLError, text: str, source: str) -> YamlSyntaxError:
    """The error for a text that is not YAML, with the line and a caret."""
    mark = error.problem_mark or error.context_mark
    problem = " ".join(part for part in (error.context, error.problem) if part)
    words, hint = _explain(problem)
    if mark is None:
        return YamlSyntaxError(f"{source} is not valid YAML: {words}. {hint}", path=source)
    opened = error.context_mark
    if "end of stream" in problem and opened is not None:
        mark = opened  # the end of the file tells nobody where the quote was opened
    lines = re.split(r"\r\n|[\n\r\x85\u2028\u2029]", text)
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        hint = "This line is indented with a tab; YAML wants spaces."
    elif opened is not None and opened.line != mark.line and "while parsing" in problem:
        hint += f" The block begins on line {opened.line + 1}."
    return YamlSyntaxError(
        f"{source}, line {mark.line + 1}, column {mark.column + 1}: {words}.\n"
        f"{excerpt(line, mark.column)}\n{hint}",
        path=source,
        line=mark.line + 1,
    )


def _explain(problem: str) -> tuple[str, str]:
    for marker, words, hint in _PLAIN_WORDS:
        if marker in problem:
            return words, hint
    return problem or "this is not valid YAML", "Correct this line, or put the text in quotes."


def unreadable_character(error: yaml.reader.ReaderError, text: str, source: str) -> YamlSyntaxError:
    """The error for a character that YAML does not allow, with its line and a caret."""
    match = re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    position = match.start() if match else 0
    line_start = text.rfind("\n", 0, position) + 1
    line, column = text.count("\n", 0, position) + 1, position - line_start
    shown = text[line_start:].partition("\n")[0]
    return YamlSyntaxError(
        f"{source}, line {line}, column {column + 1}: the character "
        f"U+{ord(text[position : position + 1] or chr(0)):04X} is not allowed in YAML "
        f"({error.reason}).\n{excerpt(shown, column)}\n"
        f'Remove it, or write it as an escape in double quotes, such as "\\x00".',
        path=source,
        line=line,
    )


def excerpt(line: str, column: int, *, width: int = 78) -> str:
    """The part of a line around a 0-based ``column``, with a caret below it.

    Control characters are shown as pictures (``␀``), each as wide as one letter.
    """
    start = max(0, min(column - width // 2, len(line) - width))
    end = start + width
    head, tail = "…" if start else "", "…" if end < len(line) else ""
    shown = "".join(_picture(char) for char in line[start:end])
    return f"    {head}{shown}{tail}\n    {' ' * (len(head) + column - start)}^"


def _picture(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return char if char.isprintable() else "�"


def kind_of(node: yaml.Node) -> str:
    """A node's kind, as errors call it."""
    if isinstance(node, yaml.SequenceNode):
        return "list"
    return "mapping" if isinstance(node, yaml.MappingNode) else "single value"


def line_of(node: yaml.Node) -> int:
    """The 1-based line on which a node begins."""
    return int(node.start_mark.line) + 1


def nearest_file(path: str) -> str:
    """The end of a message about a missing file: what its folder holds instead."""
    folder, name = os.path.split(path)
    try:
        names = sorted(os.listdir(folder or "."))
    except (OSError, ValueError):
        return f" There is no folder {folder!r} either."
    hint = did_you_mean(name, names)
    yaml_files = [name for name in names if name.endswith((".yaml", ".yml"))]
    return hint or f" YAML files in that folder: {listing(yaml_files, 8)}."


# Depth and aliases


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
        what = f"expands to more than {MAX_EXPANDED_VALUES:,} values"
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


# Where a key is


def include_values(root: yaml.Node) -> list[str]:
    """The files that a mapping includes, as it names them."""
    pair = find_pair(root, "include")
    if pair is None:
        return []
    value = pair[1]
    nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
    return [node.value for node in nodes if isinstance(node, yaml.ScalarNode)]


def find_key(node: yaml.Node | None, key_path: Sequence[str | int]) -> yaml.Node | None:
    """The node of a key, by the keys and list positions that lead to it."""
    key_node = node
    for step in key_path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            if not -len(node.value) <= step < len(node.value):
                return None
            key_node = node = node.value[step]
            continue
        pair = find_pair(node, str(step))
        if pair is None:
            return None
        key_node, node = pair
    return key_node if key_path else None


def find_pair(
    node: yaml.Node | None, key: str, seen: set[int] | None = None
) -> tuple[yaml.Node, yaml.Node] | None:
    """The key and value nodes of ``key``: the mapping's own, else from its ``<<``."""
    seen = set() if seen is None else seen
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
    pairs = (find_pair(source, key, seen) for source in merged)
    return next((pair for pair in pairs if pair is not None), None)
