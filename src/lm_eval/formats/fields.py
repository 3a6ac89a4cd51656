"""What a format's fields may hold: each value by itself, then all of them together.

In: a field as YAML gives it. Out: the value that ``PromptFormat`` holds, or an error that says where it
stands and what is expected.
"""

from __future__ import annotations

import string
import warnings
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from lm_eval.config.fields import compile_field, is_jinja, shorten
from lm_eval.errors import (
    ConfigError,
    FieldError,
    LmEvalWarning,
    UnknownNameError,
    did_you_mean,
    listing,
)
from lm_eval.formats.items import LABEL_STYLES
from lm_eval.formats.prompt_format import JINJA_FIELDS, NORMALISATIONS, PromptFormat
from lm_eval.formats.readers import BoundReader, bind_reader

OUTPUT_TYPES = ("multiple_choice", "generate_until")

ANSWER_KINDS = ("choice", "text", "order")

FORMAT_FIELDS = tuple(f.name for f in fields(PromptFormat))

_STRING = (
    "name",
    "choice_format",
    "choice_delimiter",
    "section_separator",
    "target_format",
    "target_delimiter",
    "fewshot_delimiter",
)

_BOOLEAN = ("strip_question", "show_choices", "cut_choices")


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
    allowed = _allowed(key)
    if not allowed(value):
        raise ConfigError(f"{where}: {key} cannot be {shorten(value)}.{_expected(key)}")
    return value


def _allowed(key: str) -> Any:
    options = {
        "output_type": OUTPUT_TYPES,
        "answers": ANSWER_KINDS,
        "blank_position": ("end", "inline"),
        "normalization": (None, *NORMALISATIONS),
    }.get(key)
    if options:
        return lambda value: value in options
    if key in _BOOLEAN:
        return lambda value: isinstance(value, bool)
    if key == "version":
        return lambda value: isinstance(value, int)
    if key in _STRING:
        return lambda value: isinstance(value, str)
    return lambda value: value is None or isinstance(value, str)


def _expected(key: str) -> str:
    expected = {
        "output_type": f"one of {', '.join(OUTPUT_TYPES)}",
        "answers": f"one of {', '.join(ANSWER_KINDS)}",
        "blank_position": "end or inline",
        "normalization": f"one of {', '.join(NORMALISATIONS)}",
        "version": "a whole number",
    }.get(key) or ("true or false" if key in _BOOLEAN else "a text")
    return f" Expected {expected}."


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
