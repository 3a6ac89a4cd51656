"""YAML files → plain dicts: the first step of everything that is configured.

Comes in: a path or a text. Goes out: a dict in which ``include`` is resolved and ``!function`` has
become a ``FunctionRef``. The loader is PyYAML's safe one (in C where there is one), so ``yes``,
``1e-3`` and dates mean what they mean in the peer. How deep and how large a text may be is limited
before anything is built. ``locate_key`` finds a key again for errors.
"""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from lm_eval.config.functions import FunctionRef
from lm_eval.errors import (
    ConfigError,
    IncludeError,
    LmEvalError,
    LmEvalWarning,
    YamlSyntaxError,
    did_you_mean,
    listing,
)

PathLike = str | os.PathLike[str]
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's safe loader, in C where there is one."""
MAX_EXPANDED_VALUES = 1_000_000
"""How many values a file may hold once each ``*alias`` is written out."""
MAX_DEPTH = 200
"""How deeply lists and mappings may be nested; far more would overflow the C loader's stack."""


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
        )
    if "\0" in target or not os.path.isfile(target):
        raise IncludeError(
            f"{parent} includes {entry!r}, but there is no file {target!r}."
            f"{_nearest_file(target)} Paths are relative to the file with the `include`. "
            f"Chain: {_arrows(route)}.",
            path=parent,
        )


def _arrows(chain: Sequence[str]) -> str:
    return " → ".join(chain)


def file_identity(path: str) -> str:
    """The same text for every way to write the path of one file."""
    return path if "\0" in path else os.path.realpath(path)


# One text → one dict


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
                f"{source} holds a {_kind_of(node)}, not a mapping. It needs 'key: value' lines.",
                path=source,
            )
        if "&" in text and "*" in text:
            _check_expansion(node, source)
        return _construct(loader, node, text, source)
    finally:
        loader.dispose()


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
                    f"{self.source}: the key {key!r} occurs twice, on line {_line_of(seen[key])} and "
                    f"on line {_line_of(key_node)}; the last one counts. Keep one of the two.",
                    LmEvalWarning,
                    stacklevel=2,
                )
            seen[key] = key_node


def _construct_function(loader: _Loader, node: yaml.Node) -> FunctionRef:
    line = _line_of(node)
    if not isinstance(node, yaml.ScalarNode):
        raise ConfigError(
            f"{loader.source}, line {line}: `!function` takes a name such as `utils.process_docs`, "
            f"not a {_kind_of(node)}.",
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
        f"{loader.source}, line {_line_of(node)}: unknown tag `{tag}`. The only tag known here is "
        f"`!function module.function`; put a text that starts with '!' in quotes.",
        path=loader.source,
        line=_line_of(node),
    )


_MAX_BITS = 1024
"""Of a number, however it is written: ``59:59:…`` is one, to the base of 60."""


def _guarded(construct: Callable[[Any, Any], Any]) -> Callable[[_Loader, yaml.Node], Any]:
    """A constructor whose plain Python errors (``2020-13-45``) say where and what to do."""

    def guarded(loader: _Loader, node: yaml.Node) -> Any:
        try:
            value = construct(loader, node)
            if isinstance(value, int) and value.bit_length() > _MAX_BITS:
                raise ValueError("it is too large")
            return value
        except (ValueError, KeyError, OverflowError) as error:
            raise ConfigError(
                f"{loader.source}, line {_line_of(node)}: `{str(node.value)[:60]}` looks like a "
                f"{node.tag.rpartition(':')[2]} but is not one ({error}). Put it in quotes if it is "
                f"text.",
                path=loader.source,
                line=_line_of(node),
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
        raise ConfigError(f"There is no file {path}.{_nearest_file(path)}", path=path) from None
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


def _new_loader(text: str, source: str) -> _Loader:
    try:
        loader = _Loader(text)
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise _syntax_error(error, text, source) from None
    loader.source = source
    return loader


def _compose(loader: _Loader, text: str, source: str) -> yaml.Node | None:
    try:
        node: yaml.Node | None = loader.get_single_node()
        return node
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, source) from None
    except RecursionError:
        raise _too_deep(source) from None


def _construct(loader: _Loader, node: yaml.MappingNode, text: str, source: str) -> dict[str, Any]:
    try:
        result: Any = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, source) from None
    except RecursionError:
        raise _too_deep(source) from None
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


# What is wrong with a text


_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINES = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")


def _syntax_error(error: Exception, text: str, source: str) -> YamlSyntaxError:
    """The error for a text that is not YAML, with its line and a caret."""
    mark = None
    hint = (
        "Check indentation, quotes and brackets; put a text in quotes if it holds ': ' or starts with "
        "{{, [, *, &, !, % or @."
    )
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        words = " ".join(part for part in (error.context, error.problem) if part)
        if "end of stream" in words and error.context_mark is not None:
            mark = error.context_mark  # the end of the file tells nobody where the quote was opened
    if mark is not None:
        row, column = mark.line, mark.column
    else:
        match = _NOT_YAML.search(text)
        before = _LINES.split(text[: match.start()] if match else "")
        row, column = len(before) - 1, len(before[-1])
        shown = f"U+{ord(match[0]):04X}" if match else str(error)
        words, hint = f"the character {shown} is not allowed in YAML", "Remove it."
    line = [*_LINES.split(text), ""][row]
    if "\t" in line[: len(line) - len(line.lstrip())]:
        hint = "This line is indented with a tab; YAML wants spaces."
    return YamlSyntaxError(
        f"{source}, line {row + 1}, column {column + 1}: {words}.\n{excerpt(line, column)}\n{hint}",
        path=source,
        line=row + 1,
    )


def excerpt(line: str, column: int, *, width: int = 78) -> str:
    """The part of a line around a 0-based ``column``, with a caret below it."""
    start = max(0, min(column - width // 2, len(line) - width))
    end = start + width
    head, tail = "…" if start else "", "…" if end < len(line) else ""
    shown = "".join(map(_picture, line[start:end]))
    return f"    {head}{shown}{tail}\n    {' ' * (len(head) + column - start)}^"


def _picture(char: str) -> str:
    """A control character as its picture (``␀``), as wide as one letter."""
    if char < " ":
        return chr(0x2400 + ord(char))
    return char if char.isprintable() else "�"


def _kind_of(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return "list"
    return "mapping" if isinstance(node, yaml.MappingNode) else "single value"


def _line_of(node: yaml.Node) -> int:
    """The 1-based line on which a node begins."""
    return int(node.start_mark.line) + 1


def _nearest_file(path: str) -> str:
    """The end of a message about a missing file: what its folder holds instead."""
    folder, name = os.path.split(path)
    try:
        names = sorted(os.listdir(folder or "."))
    except (OSError, ValueError):
        return f" There is no folder {folder!r} either."
    yaml_files = [name for name in names if name.endswith((".yaml", ".yml"))]
    return did_you_mean(name, names) or f" YAML files in that folder: {listing(yaml_files, 8)}."


# Depth and aliases


def _too_deep(source: str) -> ConfigError:
    return ConfigError(
        f"{source} is nested more than {MAX_DEPTH} levels deep. Use fewer.", path=source
    )


def _check_expansion(root: yaml.Node, source: str) -> None:
    """Refuse aliases that contain themselves, or that would write out to a huge file."""
    try:
        size = _expanded(root, {})
    except RecursionError:
        raise _too_deep(source) from None
    if size > MAX_EXPANDED_VALUES:
        what = f"expands to more than {MAX_EXPANDED_VALUES:,} values"
        what = "refers to itself" if size == math.inf else what
        raise ConfigError(
            f"{source}: with its aliases ('*name') written out, a value {what}. Write it out, or use "
            "fewer aliases.",
            path=source,
        )


def _expanded(node: yaml.Node, known: dict[int, float]) -> float:
    """How many values a node holds once each alias is written out; infinite within itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [child for pair in node.value for child in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = node.value
        known[id(node)] = 1 + sum([_expanded(child, known) for child in children])
    return known[id(node)]


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
                raise _too_deep(source)
    except (yaml.YAMLError, UnicodeEncodeError):
        return  # composing it says where and why


# Where a key is, for errors


def locate_key(path: PathLike, key_path: Sequence[str | int]) -> tuple[str, int] | None:
    """File and line of a key, in this file or in the include that supplies it."""
    return _locate(os.fspath(path), tuple(key_path), set())


def _locate(path: str, key_path: tuple[str | int, ...], seen: set[str]) -> tuple[str, int] | None:
    identity = file_identity(path)
    root = None if identity in seen else composed(path)
    seen.add(identity)
    if not key_path or root is None:
        return None
    if _find_pair(root, str(key_path[0])) is not None:
        node = _find_key(root, key_path)  # a local key hides the included one altogether
        return None if node is None else (path, _line_of(node))
    for entry in reversed(_include_values(root)):
        target = os.path.normpath(os.path.join(os.path.dirname(path), entry))
        location = _locate(target, key_path, seen)
        if location is not None:
            return location
    return None


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


def _include_values(root: yaml.Node) -> list[str]:
    """The files that a mapping includes, as it names them."""
    pair = _find_pair(root, "include")
    if pair is None:
        return []
    value = pair[1]
    nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
    return [node.value for node in nodes if isinstance(node, yaml.ScalarNode)]


def _find_key(node: yaml.Node | None, key_path: Sequence[str | int]) -> yaml.Node | None:
    """The node of a key, by the keys and list positions that lead to it."""
    key_node = node
    for step in key_path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            if not -len(node.value) <= step < len(node.value):
                return None
            key_node = node = node.value[step]
            continue
        pair = _find_pair(node, str(step))
        if pair is None:
            return None
        key_node, node = pair
    return key_node if key_path else None


def _find_pair(
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
    pairs = (_find_pair(source, key, seen) for source in merged)
    return next((pair for pair in pairs if pair is not None), None)
