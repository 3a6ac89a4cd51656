"""Compiles every spelling of a format to one ``PromptFormat``, with its fields checked.

In: a name (``mcqa``), a mapping (``{type: mcqa, question_prefix: "Q: "}``), or a task's ``formats:``
map. Out: frozen formats, or an error that says where the mapping is from and what is expected. Built-in
formats are YAML files in ``builtin/``; other formats are registered in the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.errors import (
    ConfigError,
    UnknownFormatError,
    did_you_mean,
    few_names,
    listing,
    nearest,
)
from lm_eval.formats.checks import FORMAT_FIELDS, check_format, checked_field
from lm_eval.formats.enforced import SUFFIX, check_suffix, enforced, split_suffix
from lm_eval.formats.fingerprints import UNMEASURED
from lm_eval.formats.prompt_format import PromptFormat
from lm_eval.registry import FORMATS, TEMPLATES


def get_format(name: str) -> PromptFormat:
    """The registered format of that name, compiled; for an unknown name, the error names the nearest.

    ``name+enforced`` is the format with its answers enforced.
    """
    _register_builtins()
    if "+" in name and name not in FORMATS:
        base, suffix = split_suffix(name)
        check_suffix(suffix, name)
        return enforced(get_format(base))
    return _compiled(name, FORMATS.get(name))


def format_names() -> list[str]:
    """All registered format names: built in, or added by a folder, by code or by installed packages."""
    _register_builtins()
    return list(FORMATS)


def general_names() -> list[str]:
    """The names of formats for any benchmark, without conventions for a single one."""
    return [name for name in format_names() if get_format(name).kind == "general"]


def is_format(name: Any) -> bool:
    """Whether a format has that name; installed packages are searched last."""
    _register_builtins()
    if not isinstance(name, str):
        return False
    return name in FORMATS or (name.endswith(SUFFIX) and split_suffix(name)[0] in FORMATS)


def register_format(name: str, definition: PromptFormat | Mapping[str, Any] | str | Path) -> None:
    """Add a format under ``name``: a ``PromptFormat``, a mapping of fields, or a YAML file's path."""
    _register_builtins()
    value: Any = Path(definition) if isinstance(definition, str) else definition
    place = str(value) if isinstance(value, Path) else _caller()
    compiled = _compile_any(name, value, place)  # first: a bad definition is not registered
    FORMATS.register(name, value, place=place)
    _COMPILED[name] = (value, compiled)


def compile_format(
    definition: Mapping[str, Any],
    *,
    name: str | None = None,
    where: str = "format",
    start: PromptFormat | None = None,
) -> PromptFormat:
    """A mapping of fields as a format, based on the format that ``type`` names, or on ``start``.

    ``where`` starts every error message: the file or task that the mapping is from.
    """
    settings = dict(definition)
    if "type" in settings:
        start = replace(_base(settings.pop("type"), where), kind="general", num_fewshot=None)
    elif start is None:
        start = PromptFormat(name=name or str(settings.get("name", "unnamed")))
    changes = {key: checked_field(key, value, where) for key, value in settings.items()}
    changes["name"] = name or changes.get("name") or start.name
    compiled = replace(start, **changes)
    check_format(compiled, changes, where)
    return compiled


class OwnFormats(Mapping[str, PromptFormat]):
    """A task's own formats by name. An unchanged built-in (``mcqa: null``) is read on first use: most
    runs use one of several."""

    def __init__(self, formats: Mapping[str, PromptFormat | None]) -> None:
        self._formats = dict(formats)

    def __getitem__(self, name: str) -> PromptFormat:
        fmt = self._formats[name]
        if fmt is None:
            fmt = self._formats[name] = compile_format({"type": name}, name=name)
        return fmt

    def __contains__(self, name: object) -> bool:
        return name in self._formats

    def __iter__(self) -> Iterator[str]:
        return iter(self._formats)

    def __len__(self) -> int:
        return len(self._formats)


def compile_formats(spec: Any, *, task: str) -> Mapping[str, PromptFormat]:
    """A task's ``formats:`` value as a map of its own formats; the first is its default."""
    where = f"Task {task!r}, formats"
    if isinstance(spec, str):
        return {spec: find_format(spec, {}, task=task)}
    if not isinstance(spec, Mapping) or not spec:
        raise ConfigError(
            f"{where}: expected a format's name, a mapping with `type`, or a map of formats, "
            f"not {shorten(spec)}."
        )
    if "type" in spec:
        compiled = compile_format(spec, name=str(spec.get("name") or spec["type"]), where=where)
        return {compiled.name: compiled}
    return OwnFormats(
        {
            str(key): None
            if value is None and key in _builtin_files()
            else _own_format(str(key), value, where)
            for key, value in spec.items()
        }
    )


def find_format(name: str, own: Mapping[str, PromptFormat], *, task: str) -> PromptFormat:
    """The format of ``task@name``: the task's own, then the registry's."""
    if name in own:
        return own[name]
    if "+" in name and name not in FORMATS:
        base, suffix = split_suffix(name)
        check_suffix(suffix, name)
        return enforced(find_format(base, own, task=task))
    if is_format(name):
        return get_format(name)
    options = [*own, *format_names(), *TEMPLATES]
    raise UnknownFormatError(
        f"Task {task!r} has no format {name!r}.{did_you_mean(name, options)} Its own formats: "
        f"{listing(own)}; registered: {few_names(name, options[len(own) :])}. "
        "List all with `lm-eval ls formats`.",
        name=name,
        nearest=nearest(name, options),
    )


def shortest_yaml(fmt: PromptFormat) -> str:
    """A format as the shortest YAML that compiles back to it: a base and what differs from it."""
    if fmt.name in _builtin_files() and len(same := _difference(fmt, get_format(fmt.name))) == 1:
        return _dumped(same)  # the built-in itself: the others need not be compiled
    bases = [*map(get_format, _builtin_files()), None]
    return _dumped(min((_difference(fmt, base) for base in bases), key=lambda data: len(str(data))))


def _dumped(data: dict[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text


_SHOWN_FIRST = (
    *("mcqa", "cloze", "generate", "cot", "bare", "fill"),
    *("qa", "open", "mcq_cot", "boxed", "continuation"),
)


@lru_cache(maxsize=1)
def _builtin_files() -> dict[str, Path]:
    """Name → file of every built-in format, the everyday ones first."""
    folder = Path(__file__).parent / "builtin"
    paths = [*sorted(folder.glob("*.yaml")), *sorted((folder / "conventions").glob("*.yaml"))]
    files = {file.stem.replace("__", "::"): file for file in paths}
    names = [*_SHOWN_FIRST, *(name for name in files if name not in _SHOWN_FIRST)]
    return {name: files[name] for name in names}


@lru_cache(maxsize=1)
def _register_builtins() -> None:
    for name, file in _builtin_files().items():
        FORMATS.register(name, file, place="built in")


_COMPILED: dict[str, tuple[Any, PromptFormat]] = {}


def _compiled(name: str, definition: Any) -> PromptFormat:
    known = _COMPILED.get(name)
    if known is None or known[0] is not definition:
        _COMPILED[name] = (definition, _compile_any(name, definition, FORMATS.place(name)))
    return _COMPILED[name][1]


def _caller() -> str:
    """File and line of the code that registers a format, for the error about a name used twice."""
    frame = sys._getframe(2)
    return f"register_format() at {frame.f_code.co_filename}:{frame.f_lineno}"


def _compile_any(name: str, definition: Any, place: str) -> PromptFormat:
    if isinstance(definition, PromptFormat):
        return replace(definition, name=name)
    if isinstance(definition, Path):  # a YAML file, read when the format is first asked for
        from lm_eval.config.yaml import load_yaml

        return compile_format(load_yaml(definition), name=name, where=str(definition))
    if isinstance(definition, Mapping):
        return compile_format(definition, name=name, where=f"Format {name!r}")
    if callable(definition):
        return _compile_any(name, definition(), place)
    raise ConfigError(
        f"Format {name!r} ({place}) is a {type(definition).__name__}; expected a "
        "mapping of fields, a PromptFormat, a path to a YAML file, or a function that gives one."
    )


def _own_format(key: str, value: Any, where: str) -> PromptFormat:
    """One entry of a task's map: ``mcqa: null``, ``mcqa: {…}`` or ``mine: {type: mcqa, …}``."""
    where, is_known = f"{where}.{key}", is_format(key)
    is_format_of_its_own = is_format(value) or (isinstance(value, Mapping) and "type" in value)
    if not is_known and nearest(key, FORMAT_FIELDS) and not is_format_of_its_own:
        hint = "" if key in FORMAT_FIELDS else did_you_mean(key, FORMAT_FIELDS)
        raise ConfigError(
            f"{where}: {key!r} is not a known format.{hint} Fields of one format need a `type` beside "
            "them that says which format they change."
        )
    value = {} if value is None else {"type": value} if isinstance(value, str) else value
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: expected a mapping of format fields, not {shorten(value)}.")
    if "type" not in value:
        if not is_known:
            raise ConfigError(
                f"{where}: {key!r} is not a known format, so it needs a `type` to start from."
                f"{did_you_mean(key, [*format_names(), *FORMAT_FIELDS])} "
                f"Known: {few_names(key, format_names())}."
            )
        value = {"type": key, **value}
    return compile_format(value, name=key, where=where)


def _base(name: Any, where: str) -> PromptFormat:
    if not is_format(name):
        raise UnknownFormatError(
            f"{where}: unknown format type {shorten(name)}.{did_you_mean(str(name), format_names())} "
            f"Known: {few_names(str(name), format_names())}.",
            name=str(name),
            nearest=nearest(str(name), format_names()),
        )
    return get_format(name)


def _difference(fmt: PromptFormat, base: PromptFormat | None) -> dict[str, Any]:
    """The fields in which ``fmt`` differs from ``base``, as YAML data."""
    ours = fmt.as_data()
    theirs = (base or PromptFormat(name=fmt.name)).as_data()
    differing = {key: value for key, value in ours.items() if value != theirs[key]}
    if base is None:
        return {"name": fmt.name, **differing}
    name = {"name": fmt.name} if fmt.name != base.name else {}
    others = {key: value for key, value in differing.items() if key not in UNMEASURED}
    return {**name, "type": base.name, **others}
