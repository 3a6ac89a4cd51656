"""One YAML text → one dict: PyYAML's safe loader with ``!function``, and errors in plain words.

How deep and how large a text may be is limited before anything is built: a few lines of aliases can
expand without end. ``include`` is a key like any other here; ``yaml.py`` follows it. What is wrong with
a text is reported with its line: where, what, and what to do.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from lm_eval.config.functions import FunctionRef
from lm_eval.errors import (
    ConfigError,
    LmEvalError,
    LmEvalWarning,
    YamlSyntaxError,
    did_you_mean,
    listing,
)

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


PathLike = str | os.PathLike[str]


def read_yaml_file(path: PathLike, *, run_code: bool = True) -> dict[str, Any]:
    """The file's own mapping, ``include`` and all: one file is read and no other looked at."""
    path = os.fspath(path)
    folder = os.path.dirname(os.path.abspath(path))
    return parse_yaml(read_text(path), path, folder=folder, run_code=run_code)


def parse_yaml(
    text: str, source: str, *, folder: str | None = None, run_code: bool = True
) -> dict[str, Any]:
    """The mapping that ``text`` holds. ``source`` names it in errors.

    ``!function`` looks for its file in ``folder``; None leaves installed modules only.
    """
    check_depth(text, source)
    loader = _new_loader(text, source)
    try:
        loader.function_folder, loader.run_code = folder, run_code
        node = _compose(loader, text, source)
        if node is None:
            raise ConfigError(f"{source} is empty. It needs 'key: value' lines.", path=source)
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(
                f"{source} holds a {kind_of(node)}, not a mapping. It needs 'key: value' lines.",
                path=source,
                line=line_of(node),
            )
        if "&" in text and "*" in text:
            check_expansion(node, source)
        return _construct(loader, node, text, source)
    finally:
        loader.dispose()


def composed(path: str) -> yaml.Node | None:
    """The file's nodes, which know their lines; None where it cannot be read."""
    try:
        text = read_text(path)
        check_depth(text, path)
        loader = _new_loader(text, path)
        try:
            return _compose(loader, text, path)
        finally:
            loader.dispose()
    except LmEvalError:
        return None


class _Loader(SafeLoader):  # type: ignore[misc]  # C or Python, known only when run
    """The safe loader with ``!function``, no other tags, and a warning for a key that occurs twice."""

    source = "<text>"
    function_folder: str | None = None
    run_code = True

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._checked: set[int] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        # Checked here, before `<<` copies in the keys that this mapping may well overwrite.
        if id(node) not in self._checked:
            self._checked.add(id(node))
            self._check_duplicates(node)
        super().flatten_mapping(node)

    def _check_duplicates(self, node: yaml.MappingNode) -> None:
        seen: dict[Any, yaml.Node] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag.endswith(":merge"):
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                # Files that people bring have such slips and load elsewhere, the last one counting.
                warnings.warn(
                    f"{self.source}: the key {key!r} occurs twice, on line {line_of(seen[key])} and "
                    f"on line {line_of(key_node)}; the last one counts. Keep one of the two.",
                    LmEvalWarning,
                    stacklevel=2,
                )
            seen[key] = key_node


def _construct_function(loader: _Loader, node: yaml.Node) -> FunctionRef:
    line = line_of(node)
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(
            f"{loader.source}, line {line}: `!function` takes a name such as `utils.process_docs`, "
            f"not a {kind_of(node)}.",
            path=loader.source,
            line=line,
        )
    try:
        return FunctionRef.parse(
            node.value,
            folder=loader.function_folder,
            source=loader.source,
            allowed=loader.run_code,
        )
    except ConfigError as error:
        raise ConfigError(f"{error} (Line {line}.)", path=loader.source, line=line) from None


def _construct_unknown(loader: _Loader, node: yaml.Node) -> Any:
    tag = node.tag.replace("tag:yaml.org,2002:", "!!")
    raise ConfigError(
        f"{loader.source}, line {line_of(node)}: unknown tag `{tag}`. The only tag known here is "
        f"`!function module.function`; put a text that starts with '!' in quotes.",
        path=loader.source,
        line=line_of(node),
    )


def _guarded(construct: Callable[[Any, Any], Any]) -> Callable[[_Loader, yaml.Node], Any]:
    """A constructor whose plain Python errors (``2020-13-45``) say where and what to do."""

    def guarded(loader: _Loader, node: yaml.Node) -> Any:
        try:
            return construct(loader, node)
        except (ValueError, KeyError, OverflowError) as error:
            raise ConfigError(
                f"{loader.source}, line {line_of(node)}: `{str(node.value)[:60]}` looks like a "
                f"{node.tag.rpartition(':')[2]} but is not one ({error}). Put it in quotes if it is "
                f"text.",
                path=loader.source,
                line=line_of(node),
            ) from None

    return guarded


_Loader.add_constructor("!function", _construct_function)
_Loader.add_constructor(None, _construct_unknown)
for _name in ("int", "float", "bool", "timestamp"):
    _construct_plain = getattr(yaml.SafeLoader, f"construct_yaml_{_name}")
    _Loader.add_constructor(f"tag:yaml.org,2002:{_name}", _guarded(_construct_plain))


def read_text(path: str) -> str:
    """The file's text; one that is missing, unreadable or not UTF-8 is an error."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"There is no file {path}.{nearest_file(path)}", path=path) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"{path} cannot be read: {reason}. A readable YAML file is needed here.", path=path
        ) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}, line {line}: byte 0x{data[error.start]:02x} is not valid UTF-8. "
            f"Save the file as UTF-8.",
            path=path,
            line=line,
        ) from None


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


def _new_loader(text: str, source: str) -> _Loader:
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        raise unreadable_character(error, text, source) from None
    except UnicodeEncodeError:
        raise ConfigError(
            f"{source} holds a lone surrogate, which is not a character. YAML cannot hold it: take "
            f"it out.",
            path=source,
        ) from None
    loader.source = source
    return loader


def _compose(loader: _Loader, text: str, source: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    except yaml.reader.ReaderError as error:
        raise unreadable_character(error, text, source) from None
    except yaml.MarkedYAMLError as error:
        raise syntax_error(error, text, source) from None
    except RecursionError:
        raise too_deep(source) from None


def _construct(loader: _Loader, node: yaml.MappingNode, text: str, source: str) -> dict[str, Any]:
    try:
        result: dict[Any, Any] = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise syntax_error(error, text, source) from None
    except RecursionError:
        raise too_deep(source) from None
    if not isinstance(result, dict):  # a top-level `!!set` or the like
        raise ConfigError(f"{source} holds a {type(result).__name__}, not a mapping.", path=source)
    for key in result:
        if not isinstance(key, str):
            raise ConfigError(
                f"{source}: the key {key!r} is a {type(key).__name__}, not a text. Put it in "
                f"quotes: YAML reads words such as on, off, yes and no as true or false.",
                path=source,
            )
    return result


# Errors

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
