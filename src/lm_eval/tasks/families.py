"""Families: a file with ``each`` defines one task for every value, and groups of these tasks.

In: the keys of such a file. Out: the names of its tasks and groups, which the index keeps, and the keys
of any of its tasks with its values filled in, which the loader builds like those of any other file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from lm_eval.config.schema import ANYTHING, Key, check, placed
from lm_eval.errors import ConfigError, LmEvalError, did_you_mean, listing

FAMILY_KEYS = ("each", "areas")
_TEXT_KEYS = (
    *("task", "task_alias", "dataset_path", "dataset_name", "description"),
    *("training_split", "validation_split", "test_split", "fewshot_split"),
)
"""Keys whose value is a text, though the value of a variable may be a number."""
_FIELD_KEYS = ("where", "fewshot_match", "cluster", "skip_docs")
"""Keys besides ``doc_to_*`` that are evaluated on each doc, so they stay templates."""

_Variable = Annotated[str, Meta(pattern=r"^(?!doc$)[A-Za-z]\w*$")]
_Value = str | int | float
_LISTED = Annotated[list[_Value], Meta(min_length=1)]
_MAPPED = Annotated[dict[_Value, dict[_Variable, Any] | None], Meta(min_length=1)]
_VALUES = Key(
    _LISTED | _MAPPED,
    "a list of texts or numbers, each once, or a mapping of them to further variables, such as "
    "`{de: {cause: weil}}`; put yes, no, on and off in quotes",
    takes_null=False,
    fits=lambda values: len(set(values)) == len(values),
)
SCHEMA = {
    "each": Key(
        Annotated[dict[_Variable, Any], Meta(min_length=1)],
        "variables (letters, digits and _, a letter first; not `doc`, the whole row) with their "
        "values, such as `each: {subject: [algebra, anatomy]}`",
        takes_null=False,
    ),
    "task": Key(str, "a name with the variables of `each` in it", takes_null=False),
    "group": Key(str, "the family's name"),
    "areas": Key(
        dict[str, Annotated[list[Any], Meta(min_length=1)]],
        "names with lists of values of `each`, such as `areas: {stem: [algebra]}`",
    ),
    "class": Key(None, "left out, because a Python class cannot be a family"),
}
"""The keys of a family besides those of its tasks."""

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
            return cls._made(data, data.get("group") or Path(source).stem)
        except ConfigError as error:
            raise placed(error, source) from None

    @classmethod
    def _made(cls, data: Mapping[str, Any], name: Any) -> Family:
        where = f"family {name!r}"
        check({key: data.get(key) for key in SCHEMA}, SCHEMA, where)
        options = _options(data["each"], where)
        members = _named(data["task"], options)
        areas = _areas(data.get("areas") or {}, options, members, name)
        for group in (name, *areas):
            if group in members:
                raise ConfigError(
                    f"{where}: the group {group!r} has the name of one of its tasks. Write another "
                    "`group`.",
                    key="group",
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


def _options(each: Mapping[str, Any], where: str) -> Options:
    check(each, dict.fromkeys(each, _VALUES), where, "each")
    options: dict[str, Mapping[Any, Values]] = {}
    variables = list(each)
    for variable, values in each.items():
        is_list = isinstance(values, list)
        options[variable] = {value: (not is_list and values[value]) or {} for value in values}
        first = next(iter(options[variable].values()))
        alike = dict.fromkeys(
            first, replace(ANYTHING, words="the other values have it", is_needed=True)
        )
        for value, further in options[variable].items():
            check(further, alike, where, "each", variable, str(value))
        variables += first
    for variable in variables:
        if variables.count(variable) > 1:
            raise ConfigError(
                f"{where}: each defines the variable {variable!r} twice. Rename one.", key="each"
            )
    return options


def _named(template: Any, options: Options) -> dict[str, Values]:
    """Name → values, for every combination; two of one name are an error."""
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


def _name(template: str, values: Values) -> str:
    """The task's name."""
    name = filled("task", template, values)
    if "{{" in name or "{%" in name:
        from lm_eval.config.fields import fields_read

        unknown = sorted(fields_read(template) - values.keys())
        hint = did_you_mean(unknown[0], values) if unknown else ""
        raise ConfigError(
            f"`task: {template}` reads {listing(unknown)}, which `each` does not give.{hint}"
        )
    return str(name)


def _areas(
    areas: Mapping[str, list[Any]], options: Options, members: Mapping[str, Values], group: str
) -> dict[str, tuple[str, ...]]:
    """``stem: [algebra, …]`` → the group ``mmlu_stem`` and its tasks."""
    tasks_of: dict[str, tuple[str, ...]] = {}
    area_of: dict[str, str] = {}
    for area, wanted in areas.items():
        listed = next((key for key in options if wanted[0] in options[key]), next(iter(options)))
        known = options[listed]
        value_of = Key(words=f"values of {listed}", fits=known.__contains__, names=map(str, known))
        for value in wanted:
            check({area: value}, {area: value_of}, f"family {group!r}", "areas")
        tasks = tuple(name for name, values in members.items() if values[listed] in wanted)
        for task in tasks:
            if task in area_of:
                raise ConfigError(
                    f"areas: {task!r} is in {area_of[task]!r} and in {area!r}. Name it once.",
                    key=("areas", area),
                )
            area_of[task] = area
        tasks_of[f"{group}_{area}"] = tasks
    return tasks_of


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
    is_field = key.startswith("doc_to_") or key in _FIELD_KEYS
    try:
        if is_field or not fields_read(text) <= values.keys():
            return _with_values(text, values)
        rendered = compile_field(text)(values)
    except LmEvalError as error:
        raise ConfigError(f"{key}: {error}") from None
    except TemplateSyntaxError as error:
        raise ConfigError(f"{key}: {text!r} is not valid Jinja: {error.message}") from None
    if isinstance(rendered, str):
        return _with_values(text, values) if is_jinja(rendered) else rendered
    return str(rendered) if key in _TEXT_KEYS else rendered


def _with_values(source: str, values: Values) -> str:
    """A Jinja source with literals in place of the variables that have values."""
    from lm_eval.config.fields import template_tokens
    from lm_eval.formats.jinja import literal

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
