"""Families: a file with ``each`` defines one task for every value, and groups of these tasks.

In: the keys of such a file. Out: the names of its tasks and groups, which the index keeps, and the keys
of any of its tasks with its values filled in, which the loader builds like those of any other file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from lm_eval.errors import ConfigError, LmEvalError, did_you_mean, listing

FAMILY_KEYS = ("each", "areas")
_VARIABLE = re.compile(r"[A-Za-z]\w*")
_SIMPLE_FILTER = re.compile(r"\|\s*(lower|replace)(?:\('([^'\\]*)', '([^'\\]*)'\))?")
_SIMPLE = re.compile(
    r"\{\{\s*([A-Za-z]\w*)((?:\s*\|\s*(?:lower|replace\('[^'\\]*', '[^'\\]*'\)))*)\s*\}\}"
)
_TEXT_KEYS = (
    *("task", "task_alias", "dataset_path", "dataset_name", "description"),
    *("training_split", "validation_split", "test_split", "fewshot_split"),
)
"""Keys whose value is a text, though the value of a variable may be a number."""
_FIELD_KEYS = ("where", "fewshot_match", "cluster", "skip_docs")
"""Keys besides ``doc_to_*`` that are evaluated on each doc, so they stay templates."""

Values = Mapping[str, Any]
"""Variable → value, of one task of a family."""


@dataclass(frozen=True)
class Family:
    """The tasks of one file: their names, their values, and the groups they are in."""

    name: str
    """The name of the group of all tasks."""
    members: Mapping[str, Values]
    """Task → its values, in the order of the file."""
    areas: Mapping[str, tuple[str, ...]]
    """Group of an area → its tasks; a task is in one area at most."""
    keys: Mapping[str, Any]
    """The keys of every task, with templates not filled in."""

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any], *, source: str) -> Family:
        """The family that a file's keys define; wrong keys are an error."""
        try:
            return cls._made(data, Path(source).stem)
        except ConfigError as error:
            raise ConfigError(f"{source}: {error}", path=source) from None

    @classmethod
    def _made(cls, data: Mapping[str, Any], stem: str) -> Family:
        if "class" in data:
            raise ConfigError("a task that is a Python class cannot be a family: remove `each`.")
        name = data.get("group") or stem
        if not isinstance(name, str):
            raise ConfigError(f"group must be the family's name, not {name!r}.")
        options = _options(data.get("each"))
        members = _named(data.get("task"), options)
        areas = _areas(data.get("areas"), options, members, name)
        for group in (name, *areas):
            if group in members:
                raise ConfigError(
                    f"the group {group!r} has the name of one of its tasks. Write another `group`."
                )
        own = {key: value for key, value in data.items() if key not in (*FAMILY_KEYS, "group")}
        return cls(name, members, areas, own)

    def task_keys(self, name: str, others: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The keys of one task with its values filled in; ``others`` replace keys of the file."""
        values = self.members[name]
        stated = {**self.keys, **(others or {})}
        keys = {key: filled(key, value, values) for key, value in stated.items()}
        if isinstance(keys.get("sample_rows"), str):  # its rows may use the values too
            keys["sample_rows"] = {"file": keys["sample_rows"], "values": dict(values)}
        return {**keys, "task": name}

    def outside_areas(self) -> list[str]:
        """The tasks that are in no area."""
        inside = {task for tasks in self.areas.values() for task in tasks}
        return [task for task in self.members if task not in inside]


Options = Mapping[str, Mapping[Any, Values]]
"""Variable → its values, each with further variables that depend on it."""


def _options(each: Any) -> Options:
    if not isinstance(each, Mapping) or not each:
        raise ConfigError(
            "each must name a variable and its values, such as `each: {subject: [algebra, anatomy]}`, "
            f"not {each!r}."
        )
    options = {str(key): _values(str(key), values) for key, values in each.items()}
    seen: dict[str, str] = {}
    for key, values in options.items():
        further = next(iter(values.values()))
        for name in (key, *further):
            if _VARIABLE.fullmatch(name) is None or name == "doc":
                raise ConfigError(
                    f"each: {name!r} cannot be a variable: use letters, digits and _, a letter "
                    "first. `doc` is the whole row."
                )
            if name in seen:
                raise ConfigError(f"each: the variable {name!r} is defined twice.")
            seen[name] = key
    return options


def _values(key: str, values: Any) -> dict[Any, Values]:
    """The values of one variable: a list, or a mapping of each to further variables."""
    if isinstance(values, Mapping):
        by_value = {value: further or {} for value, further in values.items()}
    elif isinstance(values, list):
        for value in values:
            _check_plain(key, value)
        by_value = {value: {} for value in values}
        if len(by_value) < len(values):
            twice = next(value for value in values if values.count(value) > 1)
            raise ConfigError(f"each.{key} has {twice!r} twice. Remove one.")
    else:
        by_value = {}
    if not by_value:
        raise ConfigError(f"each.{key} must be a list of values or a mapping, not {values!r}.")
    first, names = next(iter(by_value)), None
    for value, further in by_value.items():
        _check_plain(key, value)
        if not isinstance(further, Mapping):
            raise ConfigError(
                f"each.{key}: {value!r} must map to further variables, such as `{{cause: weil}}`, "
                f"not {further!r}."
            )
        names = set(further) if names is None else names
        for name in names.symmetric_difference(further):
            with_it, without = (first, value) if name in names else (value, first)
            raise ConfigError(
                f"each.{key}: {with_it!r} has {str(name)!r} and {without!r} has not. Give every "
                "value the same variables."
            )
    return by_value


def _check_plain(key: str, value: Any) -> None:
    """Refuse a value of a variable that is not a text or a number."""
    if isinstance(value, bool):
        raise ConfigError(
            f"each.{key} has the value {str(value).lower()}: YAML reads yes, no, on and off so. Write "
            'it in quotes, such as "no".'
        )
    if not isinstance(value, str | int | float):
        raise ConfigError(f"each.{key} has the value {value!r}; expected a text or a number.")


def _named(template: Any, options: Options) -> dict[str, Values]:
    """Name → values, for every combination; two of one name are an error."""
    if not isinstance(template, str):
        raise ConfigError(
            f"task must be a name with the variables of `each` in it, not {template!r}."
        )
    members: dict[str, Values] = {}
    for values in _combinations(options):
        name = _name(template, values)
        if name in members:
            unused = [key for key in options if key not in template]
            lacking = f" It does not use {listing(unused)}." if unused else ""
            raise ConfigError(
                f"`task: {template}` gives the name {name!r} to two tasks.{lacking} Write "
                f"every variable of `each` into it: `task: {_suggested(template, unused or options)}`."
            )
        members[name] = values
    return members


def _suggested(template: str, keys: Iterable[str]) -> str:
    return "_".join([template, *(f"{{{{ {key} }}}}" for key in keys)])


def _combinations(options: Options) -> Iterator[Values]:
    for chosen in product(*(values.items() for values in options.values())):
        values: dict[str, Any] = {}
        for key, (value, further) in zip(options, chosen, strict=True):
            values |= {key: value, **further}
        yield values


def _simple_text(template: str, values: Values) -> str | None:
    """A template with only variables, ``lower`` and ``replace``, filled in without Jinja; else None.

    The index names a thousand tasks in this way; loading Jinja would take longer than all the rest.
    """
    names = [match[1] for match in _SIMPLE.finditer(template)]
    if template.count("{") != 2 * len(names) or not all(name in values for name in names):
        return None

    def text(match: re.Match[str]) -> str:
        value = str(values[match[1]])
        for name, old, new in _SIMPLE_FILTER.findall(match[2]):
            value = value.lower() if name == "lower" else value.replace(old, new)
        return value

    return _SIMPLE.sub(text, template)


def _name(template: str, values: Values) -> str:
    """The task's name."""
    simple = _simple_text(template, values)
    if simple is not None:
        return simple
    name = filled("task", template, values)
    if not isinstance(name, str) or "{{" in name or "{%" in name:
        from lm_eval.config.fields import fields_read

        unknown = sorted(fields_read(template) - values.keys())
        hint = did_you_mean(unknown[0], values) if unknown else ""
        raise ConfigError(
            f"`task: {template}` reads {listing(unknown)}, which `each` does not give.{hint}"
        )
    return name


def _areas(
    areas: Any, options: Options, members: Mapping[str, Values], group: str
) -> dict[str, tuple[str, ...]]:
    """``stem: [algebra, …]`` → the group ``mmlu_stem`` and its tasks."""
    if areas is None:
        return {}
    if not isinstance(areas, Mapping) or not all(isinstance(v, list) for v in areas.values()):
        raise ConfigError(
            "areas must map names to lists of values of `each`, such as `areas: {stem: [algebra]}`, "
            f"not {areas!r}."
        )
    tasks_of: dict[str, tuple[str, ...]] = {}
    placed: dict[str, str] = {}
    for area, wanted in areas.items():
        key = _key_of(str(area), wanted, options)
        tasks = tuple(name for name, values in members.items() if values[key] in wanted)
        for task in tasks:
            if task in placed:
                raise ConfigError(
                    f"areas: {task!r} is in {placed[task]!r} and in {str(area)!r}. Name it once."
                )
            placed[task] = str(area)
        tasks_of[f"{group}_{area}"] = tasks
    return tasks_of


def _key_of(area: str, wanted: Sequence[Any], options: Options) -> str:
    """The variable of ``each`` whose values an area lists."""
    for value in wanted:
        if not any(value in values for values in options.values()):
            known = [str(value) for values in options.values() for value in values]
            raise ConfigError(
                f"areas.{area} names {value!r}, which is not a value of `each`."
                f"{did_you_mean(str(value), known)}"
            )
    for key, values in options.items():
        if wanted and all(value in values for value in wanted):
            return key
    raise ConfigError(f"areas.{area} must list values of one variable of `each`, not {wanted!r}.")


# Filling in


def filled(key: str, value: Any, values: Values) -> Any:
    """A value of a file with the values of the variables filled in.

    A text without any other variable is rendered, unless it is a field of the docs:
    ``description: "About {{ subject }}."`` has none, ``{{ cause }} {{ question }}`` the question.
    """
    if isinstance(value, Mapping):
        return {inner: filled(str(inner), item, values) for inner, item in value.items()}
    if isinstance(value, list):
        return [filled(key, item, values) for item in value]
    return _filled_text(key, value, values) if type(value) is str and "{" in value else value


def _filled_text(key: str, text: str, values: Values) -> Any:
    from jinja2 import TemplateSyntaxError

    from lm_eval.config.fields import compile_field, fields_read, is_jinja

    if not is_jinja(text):
        return text
    simple = _simple_text(text, values) if key in (*_TEXT_KEYS, "metadata") else None
    if simple is not None and not is_jinja(simple):
        return simple
    try:
        source = _with_values(text, values)
        if key.startswith("doc_to_") or key in _FIELD_KEYS or fields_read(source):
            return source
        rendered = compile_field(source)({})
    except LmEvalError as error:
        raise ConfigError(f"{key}: {error}") from None
    except TemplateSyntaxError as error:
        raise ConfigError(f"{key}: {text!r} is not valid Jinja: {error.message}") from None
    if isinstance(rendered, str):
        return source if is_jinja(rendered) else rendered
    return str(rendered) if key in _TEXT_KEYS else rendered


def _with_values(source: str, values: Values) -> str:
    """A Jinja source with literals in place of the variables that have values."""
    from lm_eval.config.fields import template_tokens

    pieces, before, last = [], "", ""
    tokens = template_tokens(source)
    for at, (kind, text) in enumerate(tokens):
        is_variable = kind == "name" and text in values
        if is_variable and last in ("for", "set"):
            raise ConfigError(
                f"{source!r} sets {text!r}, which is a variable of `each`. Use another name there."
            )
        is_test = last == "is" or (before, last) == ("is", "not")
        if is_variable and not is_test and last not in (".", "|") and not _is_argument(tokens, at):
            pieces.append(literal(values[text]))
        else:
            pieces.append(text)
        if kind != "whitespace":
            before, last = last, text
    return "".join(pieces)


def _is_argument(tokens: Sequence[tuple[str, str]], at: int) -> bool:
    """Whether a name is the keyword of an argument: ``name=value``."""
    after = (text for kind, text in tokens[at + 1 :] if kind != "whitespace")
    return next(after, "") == "="


def literal(value: Any) -> str:
    """A value as Jinja writes it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'
    if isinstance(value, Mapping):
        items = ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items())
        return f"({{{items}}})"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(literal, value))}]"
    return f"({value})"
