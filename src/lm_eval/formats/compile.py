"""Every spelling of a format becomes one ``PromptFormat``, with each of its fields checked.

In: a name (``mcqa``), a mapping (``{type: mcqa, question_prefix: "Q: "}``), or a task's ``formats:``
map. Out: frozen formats, or an error that says where the mapping is from and what is expected. Built-ins
are YAML files in ``builtin/``; formats from elsewhere are registered the same way.
"""

from __future__ import annotations

import string
import sys
import warnings
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from lm_eval.config.fields import compile_field, is_jinja, shorten
from lm_eval.errors import (
    ConfigError,
    FieldError,
    LmEvalWarning,
    UnknownFormatError,
    UnknownNameError,
    did_you_mean,
    listing,
    nearest,
)
from lm_eval.formats.items import LABEL_STYLES
from lm_eval.formats.prompt_format import JINJA_FIELDS, NORMALISATIONS, PromptFormat
from lm_eval.formats.readers import BoundReader, bind_reader
from lm_eval.registry import FORMATS, TEMPLATES


def get_format(name: str) -> PromptFormat:
    """The registered format of that name, compiled; unknown names are errors with the nearest."""
    _register_builtins()
    return _compiled(name, FORMATS.get(name))


def format_names() -> list[str]:
    """All registered format names: built in, added by folder, by code, by installed packages."""
    _register_builtins()
    return list(FORMATS)


def is_format(name: Any) -> bool:
    """Whether a format has that name; installed packages are asked only where nothing else has."""
    _register_builtins()
    return isinstance(name, str) and name in FORMATS


def register_format(name: str, definition: PromptFormat | Mapping[str, Any] | str | Path) -> None:
    """Add a format under ``name``: a ``PromptFormat``, a mapping of fields, or a YAML file's path."""
    _register_builtins()
    is_file = isinstance(definition, str | Path)
    value: Any = _FormatFile(Path(str(definition))) if is_file else definition
    place = str(definition) if is_file else _caller()
    compiled = _compile_any(name, value, place)  # first: a bad definition takes no name
    FORMATS.register(name, value, place=place)
    _COMPILED[name] = (value, compiled)


def compile_format(
    definition: Mapping[str, Any],
    *,
    name: str | None = None,
    where: str = "format",
    start: PromptFormat | None = None,
) -> PromptFormat:
    """A mapping of fields as a format. ``type`` names the format it starts from, unless ``start`` is it.

    ``where`` starts every error message: the file or task the mapping is from.
    """
    settings = dict(definition)
    if "type" in settings:
        start = _base(settings.pop("type"), where)
    elif start is None:
        start = PromptFormat(name=name or str(settings.get("name", "unnamed")))
    changes = {key: checked_field(key, value, where) for key, value in settings.items()}
    changes["name"] = name or changes.get("name") or start.name
    compiled = replace(start, **changes)
    check_format(compiled, changes, where)
    return compiled


def compile_formats(spec: Any, *, task: str, where: str | None = None) -> dict[str, PromptFormat]:
    """A task's ``formats:`` value as a map of its own formats; the first is its default."""
    where = where or f"Task {task!r}, formats"
    if isinstance(spec, str):
        return {spec: find_format(spec, {}, task=task)}
    if not isinstance(spec, Mapping) or not spec:
        raise ConfigError(
            f"{where}: expected a format's name, a mapping with `type`, or a map of formats, "
            f"not {shorten(spec)}."
        )
    if "type" in spec:
        compiled = compile_format(spec, name=_inline_name(spec), where=where)
        return {compiled.name: compiled}
    return {str(key): _own_format(str(key), value, where) for key, value in spec.items()}


def find_format(name: str, own: Mapping[str, PromptFormat], *, task: str) -> PromptFormat:
    """The format of ``task@name``: the task's own, then the registry's."""
    if name in own:
        return own[name]
    if is_format(name):
        return get_format(name)
    options = [*own, *format_names(), *TEMPLATES]
    raise UnknownFormatError(
        f"Task {task!r} has no format {name!r}.{did_you_mean(name, options)} Its own formats: "
        f"{listing(own)}; registered: {listing(options[len(own) :], 40)}. "
        "List all with `lm-eval ls formats`.",
        name=name,
        nearest=nearest(name, options),
    )


def shortest_yaml(fmt: PromptFormat) -> str:
    """A format as the shortest YAML that compiles back to it: a base and what differs from it."""
    if fmt.name in _builtin_files() and len(same := _difference(fmt, get_format(fmt.name))) == 1:
        return _dumped(same)  # the built-in itself, so the other built-ins need not be compiled
    bases = [get_format(name) for name in _builtin_files()]
    candidates = [_difference(fmt, base) for base in bases]
    candidates.append(_difference(fmt, None))
    # A text is as long as its fields together, and each field but the type is the same in all of them.
    fields = {key: value for found in candidates for key, value in found.items()}
    lengths = {key: len(_dumped({key: value})) for key, value in fields.items()}
    typed = lengths["type"] - len(fields["type"])

    def length(found: dict[str, Any]) -> int:
        return sum(typed + len(found[key]) if key == "type" else lengths[key] for key in found)

    return _dumped(min(candidates, key=length))


def _dumped(data: dict[str, Any]) -> str:
    import yaml

    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text


class _FormatFile:
    """A YAML file that holds one format; read when the format is first asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def compile(self, name: str) -> PromptFormat:
        from lm_eval.config.yaml import load_yaml

        return compile_format(load_yaml(self.path), name=name, where=str(self.path))


_SHOWN_FIRST = ("mcqa", "cloze", "generate", "cot", "bare", "fill", "qa", "mcq_cot", "boxed")


@lru_cache(maxsize=1)
def _builtin_files() -> dict[str, Path]:
    """Name → file of every built-in, those of everyday use first."""
    folder = Path(str(resources.files("lm_eval.formats"))) / "builtin"
    files = {file.stem.replace("__", "::"): file for file in sorted(folder.glob("*.yaml"))}
    names = [*_SHOWN_FIRST, *(name for name in files if name not in _SHOWN_FIRST)]
    return {name: files[name] for name in names}


@lru_cache(maxsize=1)
def _register_builtins() -> None:
    for name, file in _builtin_files().items():
        FORMATS.register(name, _FormatFile(file), place="built in")


_COMPILED: dict[str, tuple[Any, PromptFormat]] = {}


def _compiled(name: str, definition: Any) -> PromptFormat:
    known = _COMPILED.get(name)
    if known is None or known[0] is not definition:
        _COMPILED[name] = (definition, _compile_any(name, definition, FORMATS.place(name)))
    return _COMPILED[name][1]


def _caller() -> str:
    """File and line of the code that registers a format, for the error when two take one name."""
    frame = sys._getframe(2)
    return f"register_format() at {frame.f_code.co_filename}:{frame.f_lineno}"


def _compile_any(name: str, definition: Any, place: str) -> PromptFormat:
    if isinstance(definition, PromptFormat):
        return replace(definition, name=name)
    if isinstance(definition, _FormatFile):
        return definition.compile(name)
    if isinstance(definition, Mapping):
        return compile_format(definition, name=name, where=f"Format {name!r}")
    if callable(definition):
        return _compile_any(name, definition(), place)
    if isinstance(definition, Path):
        return _FormatFile(definition).compile(name)
    raise ConfigError(
        f"Format {name!r} ({place}) is a {type(definition).__name__}; expected a "
        "mapping of fields, a PromptFormat, a path to a YAML file, or a function that gives one."
    )


def _own_format(key: str, value: Any, where: str) -> PromptFormat:
    """One entry of a task's map: ``mcqa: null``, ``mcqa: {…}`` or ``mine: {type: mcqa, …}``."""
    where = f"{where}.{key}"
    if value is None:
        value = {}
    is_known = is_format(key)
    if not is_known and nearest(key, FORMAT_FIELDS) and not is_format(value):
        hint = "" if key in FORMAT_FIELDS else did_you_mean(key, FORMAT_FIELDS)
        raise ConfigError(
            f"{where}: {key!r} is not a known format.{hint} Fields of one format need a `type` beside "
            "them that says which format they change."
        )
    if isinstance(value, str):
        value = {"type": value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: expected a mapping of format fields, not {shorten(value)}.")
    if "type" not in value:
        if not is_known:
            raise ConfigError(
                f"{where}: {key!r} is not a known format, so it needs a `type` to start from."
                f"{did_you_mean(key, [*format_names(), *FORMAT_FIELDS])} "
                f"Known: {listing(format_names(), 40)}."
            )
        value = {"type": key, **value}
    return compile_format(value, name=key, where=where)


def _inline_name(spec: Mapping[str, Any]) -> str:
    return str(spec.get("name") or spec["type"])


def _base(name: Any, where: str) -> PromptFormat:
    if not is_format(name):
        raise UnknownFormatError(
            f"{where}: unknown format type {shorten(name)}.{did_you_mean(str(name), format_names())} "
            f"Known: {listing(format_names(), 40)}.",
            name=str(name),
            nearest=nearest(str(name), format_names()),
        )
    return get_format(name)


def _difference(fmt: PromptFormat, base: PromptFormat | None) -> dict[str, Any]:
    """The fields of ``fmt`` that ``base`` does not give, as YAML data."""
    start = base or PromptFormat(name=fmt.name)
    theirs, ours = start.as_data(), fmt.as_data()
    if base is not None:
        differing = {"type": base.name}
        ignored = {"name", "summary"}
    else:
        differing = {}
        ignored = set()
    for key, value in ours.items():
        if key not in ignored and (value != theirs[key] or (base is None and key == "name")):
            differing[key] = value
    if base is not None and fmt.name != base.name:
        differing = {"name": fmt.name, **differing}
    return differing


# Checking fields


FORMAT_FIELDS = tuple(f.name for f in fields(PromptFormat))
OUTPUT_TYPES = ("multiple_choice", "generate_until")
ANSWER_KINDS = ("choice", "text", "order")
SCORED = ("labels", "texts", "rest")
_OPTIONS: dict[str, tuple[tuple[str | None, ...], str]] = {
    "output_type": (OUTPUT_TYPES, f"one of {', '.join(OUTPUT_TYPES)}"),
    "answers": (ANSWER_KINDS, f"one of {', '.join(ANSWER_KINDS)}"),
    "blank_position": (("end", "inline"), "end or inline"),
    "scored": ((None, *SCORED), f"one of {', '.join(SCORED)}"),
    "normalization": ((None, *NORMALISATIONS), f"one of {', '.join(NORMALISATIONS)}"),
}
_TYPES: dict[str, tuple[type, str]] = {
    **dict.fromkeys(
        (
            *("name", "context_prefix", "context_delimiter"),
            *("choice_format", "choice_delimiter", "section_separator"),
            *("target_format", "target_delimiter", "fewshot_delimiter"),
        ),
        (str, "a text"),
    ),
    **dict.fromkeys(("strip_question", "show_choices", "cut_choices"), (bool, "true or false")),
    "version": (int, "a whole number"),
}
"""Field → the type of its value, and that type in words; other fields hold a text or null."""


def checked_field(key: Any, value: Any, where: str) -> Any:
    """A field's value in the type that ``PromptFormat`` holds; anything else is an error."""
    if key not in FORMAT_FIELDS:
        raise ConfigError(
            f"{where}: unknown format field {str(key)!r}.{did_you_mean(str(key), FORMAT_FIELDS)} "
            f"Fields: {listing(FORMAT_FIELDS, 40)}.",
            key=str(key),
        )
    if key == "choice_labels":
        return _labels(value, where)
    if key == "scorer":
        return None if value is None else _scorer(value, where)
    if key == "metrics":
        return _metrics(value, where)
    if key == "generation_kwargs":
        return _mapping(key, value, where)
    fits, expected = _fits(key, value)
    if not fits:
        raise ConfigError(f"{where}: {key} cannot be {shorten(value)}. Expected {expected}.")
    return value


def _fits(key: str, value: Any) -> tuple[bool, str]:
    """Whether a field can hold ``value``, and what it can hold, in words."""
    if key in _OPTIONS:
        options, words = _OPTIONS[key]
        return value in options, words
    allowed, words = _TYPES.get(key, (str | None, "a text"))
    return isinstance(value, allowed), words


def _labels(value: Any, where: str) -> Any:
    if value is None or (isinstance(value, str) and value in LABEL_STYLES):
        return value
    if isinstance(value, list | tuple) and value:
        labels = tuple(str(label) for label in value)
        if len(set(labels)) == len(labels) and all(label.strip() for label in labels):
            return labels
        raise ConfigError(f"{where}: choice_labels must differ from each other and not be blank.")
    raise ConfigError(
        f"{where}: choice_labels cannot be {shorten(value)}. Expected letters, numbers, choices "
        "(the choice texts themselves), a list of labels, or null."
        + (did_you_mean(value, LABEL_STYLES) if isinstance(value, str) else "")
    )


def _scorer(value: Any, where: str) -> BoundReader:
    if isinstance(value, BoundReader):
        return value
    try:
        return bind_reader(value)
    except (ConfigError, UnknownNameError) as error:
        raise ConfigError(f"{where}, scorer: {error}") from None


def _metrics(value: Any, where: str) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else [] if value is None else value
    is_list = isinstance(names, list | tuple) and bool(names)
    if not is_list or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"{where}: metrics must be a list of metric names, such as [acc, acc_norm], not "
            f"{shorten(value)}."
        )
    return tuple(names)


def _mapping(key: str, value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where}: {key} must be a mapping, not {shorten(value)}.")
    return dict(value)


def check_format(fmt: PromptFormat, changes: Mapping[str, Any], where: str) -> None:
    """What no single field shows: a reader where text is read, placeholders, an instruction's end."""
    if fmt.reads_text and fmt.scorer is None:
        raise ConfigError(
            f"{where}: a format that generates text needs a `scorer` that reads the answer, such as "
            '`scorer: {reader: after_last, phrase: "The answer is"}`.'
        )
    if fmt.reads_text and fmt.normalization is not None:
        raise ConfigError(
            f"{where}: normalization compares choices that are scored, but this format generates "
            "text. Remove it, or start from a format such as `type: cloze`.",
            key="normalization",
        )
    if fmt.scored is not None:
        _check_scored(fmt, where)
    _check_placeholders(fmt.choice_format, ("label", "choice"), f"{where}: choice_format")
    _check_placeholders(fmt.target_format, ("label", "answer"), f"{where}: target_format")
    for key in JINJA_FIELDS:
        source = getattr(fmt, key)
        if key in changes and source is not None and is_jinja(source):
            try:
                compile_field(source)
            except FieldError as error:
                raise ConfigError(f"{where}: {key}: {error}") from None
    instruction = changes.get("instruction")
    if instruction and not instruction[-1].isspace():
        warnings.warn(
            f"{where}: instruction {shorten(instruction, 60)} ends without white space and runs "
            "straight into the question. End it with a newline (\\n in double quotes).",
            LmEvalWarning,
            stacklevel=2,
        )


def _check_scored(fmt: PromptFormat, where: str) -> None:
    """Refuse a ``scored`` that the other fields leave nothing to score for, or that shots belie."""
    problem = ""
    if fmt.reads_text:
        problem = "is for formats that score choices, but this one generates text: leave it out"
    elif fmt.scored == "labels" and fmt.choice_labels is None:
        problem = "needs labels: give choice_labels, such as letters"
    elif fmt.scored == "texts" and "{answer}" not in fmt.target_format:
        problem = "needs a target_format with {answer}: examples must show what is scored"
    elif fmt.fills_blank:
        behind = ("choice_labels", "answer_instruction", "answer_prompt", "gen_prefix")
        filled = [name for name in behind if getattr(fmt, name) is not None]
        if fmt.blank_marker is None:
            problem = 'needs the blank that choices are put into: give blank_marker, such as "_"'
        elif filled:
            problem = (
                f"scores what follows the question's blank, so that {filled[0]} has no place: set it to "
                "null"
            )
        elif fmt.normalization is not None:
            problem = "scores the same text for every choice: leave normalization out"
    if problem:
        raise ConfigError(f"{where}: scored: {fmt.scored} {problem}.", key="scored")


def _check_placeholders(text: str, names: tuple[str, ...], where: str) -> None:
    """Plain ``{name}`` of the given names and no others: nothing that reaches into the data."""
    wanted = " and ".join(f"{{{name}}}" for name in names)
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError as error:
        raise ConfigError(
            f"{where} {shorten(text)}: {error}. Double a brace to print it."
        ) from None
    for _, name, spec, conversion in parts:
        if name is not None and (name not in names or spec or conversion):
            raise ConfigError(f"{where} {shorten(text)} may hold {wanted} only, not {{{name}}}.")
    if all(name is None for _, name, *_ in parts):
        raise ConfigError(
            f"{where} {shorten(text)} holds none of {wanted}, so that it would always say the same."
        )
