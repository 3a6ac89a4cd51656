"""What prompts are made of: prompt types, output formats, domains and languages, read from YAML.

In: a mapping, from a built-in file, a plug-in or a user's folder. Out: frozen values. Texts hold
placeholders such as ``{num_nuggets}``; data never passes through them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from lm_eval.config.fields import shorten
from lm_eval.errors import did_you_mean, listing
from nugget_eval.errors import PromptError
from nugget_eval.reading import LabelReading, read_labels

OutputWords = Literal["alone", "last"]
"""Whether labels are all of the reply, or its end after reasoning."""

Texts = Mapping[str, str]

BUILTIN = Path(__file__).with_name("builtin")
"""The folder of the definitions that come with the package."""

_PLACEHOLDER = re.compile(r"(^[ \t]*)?\{([a-z_]+)\}", re.MULTILINE)


def fill(text: str, values: Mapping[str, Any]) -> str:
    """``text`` with every placeholder that ``values`` knows; other braces stay as they are.

    A value of several lines that starts a line keeps that line's indentation. Placeholders
    inside a value are not filled.
    """

    def filled(placeholder: re.Match[str]) -> str:
        if placeholder[2] not in values:
            return placeholder[0]
        indent = placeholder[1] or ""
        return indent + str(values[placeholder[2]]).replace("\n", "\n" + indent)

    return _PLACEHOLDER.sub(filled, text)


@dataclass(frozen=True, kw_only=True, eq=False)
class Definition:
    """What every definition says about itself. ``changelog`` is version → what changed, oldest first."""

    name: str
    summary: str = ""
    version: str = "1.0"
    changelog: Texts = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, eq=False)
class PromptType(Definition):
    """How a judge is asked. ``texts`` is language → ``task`` and ``output``, the system message's parts.

    ``output`` says what a reply looks like and holds ``{output}``, which the output format fills.
    ``reasons`` tells whether a reply holds a reasoning block.
    """

    best_for: str = ""
    reasons: bool = False
    output_words: OutputWords = "alone"
    texts: Mapping[str, Texts]


@dataclass(frozen=True, kw_only=True, eq=False)
class OutputFormat(Definition):
    """How labels are written and read. ``answer`` has ``open``, ``item``, ``between`` and ``close``."""

    answer: Texts
    many_lines: bool = False

    def write(self, labels: Sequence[str]) -> str:
        """The labels as an answer in this format, as a right reply and a shot hold it."""
        item = self.answer["item"]
        items = (fill(item, {"k": k, "label": label}) for k, label in enumerate(labels, 1))
        listed = self.answer.get("between", "").join(items)
        return self.answer.get("open", "") + listed + self.answer.get("close", "")

    def read(self, reply: str, count: int) -> LabelReading:
        """The labels that a reply gives to ``count`` nuggets, where this format was asked for."""
        return read_labels(reply, count, format_type=self.name)


@dataclass(frozen=True, kw_only=True, eq=False)
class Domain(Definition):
    """Guidance for a judge in one field of knowledge. ``texts`` is language → a section."""

    texts: Texts


@dataclass(frozen=True, kw_only=True, eq=False)
class Language(Definition):
    """The words of one language around prompt types and output formats.

    ``texts`` is prompt type → its parts, for types that do not bring their own; ``pieces`` are
    shared by several of them. ``output`` is said about every output format, ``formats`` about one.
    """

    texts: Mapping[str, Texts] = field(default_factory=dict)
    pieces: Texts = field(default_factory=dict)
    notice: str
    closing: str
    retry: str
    output: Texts
    formats: Mapping[str, Texts]


D = TypeVar("D", bound=Definition)


def define(kind: type[D], values: Mapping[str, Any], *, where: str) -> D:
    """The definition in a mapping; an unknown, missing or unusable field is an error.

    ``where`` starts every message: the file or the object that the mapping comes from.
    """
    known = {f.name: f for f in fields(kind)}
    for key, value in values.items():
        if key not in known:
            raise PromptError(
                f"{where}: unknown field {str(key)!r}.{did_you_mean(str(key), known)} "
                f"Fields: {listing(known)}."
            )
        _check(known[key], value, where)
    missing = [
        name
        for name, f in known.items()
        if name not in values and f.default is MISSING and f.default_factory is MISSING
    ]
    if missing:
        raise PromptError(f"{where}: {listing(missing)} is missing. Fields: {listing(known)}.")
    made = kind(**values)
    _check_whole(made, where)
    return made


def _check(field: Field[Any], value: Any, where: str) -> None:
    is_right, wanted = {
        "bool": (isinstance(value, bool), "true or false"),
        "OutputWords": (value in get_args(OutputWords), "alone or last"),
        "Texts": (_is_texts(value), "a mapping of texts"),
        "Mapping[str, Texts]": (isinstance(value, Mapping), "a mapping"),
    }.get(str(field.type), (isinstance(value, str), "a text (in quotes)"))
    if not is_right:
        raise PromptError(f"{where}: {field.name} cannot be {shorten(value)}. Expected {wanted}.")


def _is_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(text, str) for key, text in value.items()
    )


def _check_whole(made: Definition, where: str) -> None:
    if made.changelog and made.version not in made.changelog:
        raise PromptError(f"{where}: the changelog has no entry for version {made.version!r}.")
    if isinstance(made, PromptType | Language):
        for name, parts in made.texts.items():
            check_parts(parts, f"{where}: texts.{name}")
    elif isinstance(made, OutputFormat) and "{label}" not in made.answer.get("item", ""):
        raise PromptError(f"{where}: answer.item needs {{label}} where the label goes.")


def check_parts(parts: Any, where: str) -> None:
    """Raise unless ``parts`` is what a prompt type says in one language."""
    if not _is_texts(parts) or set(parts) != {"task", "output"}:
        raise PromptError(f"{where} must hold the texts task and output, not {shorten(parts)}.")
    if "{output}" not in parts["output"]:
        raise PromptError(
            f"{where}.output needs {{output}} where the output format is to be described."
        )
