"""A doc becomes the turns of a prompt, under a format or by the harness's rules.

Both ways have one shape, ``Prompts``: a task asks for the question turn, the shot turn and what is to
be scored, and does not know which of the two answers.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from lm_eval.config.fields import Field, compile_field, shorten
from lm_eval.errors import FieldError, FormatError
from lm_eval.formats.assemble import Turn
from lm_eval.formats.items import Item, build_item, choice_texts, question_text
from lm_eval.formats.prompt_format import PromptFormat

Doc = Mapping[str, Any]


@dataclass(frozen=True)
class RawFields:
    """The field specs as the task wrote them, before any format."""

    text: Any = None
    choice: Any = None
    target: Any = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A doc ready to be asked: its turn, what is scored after it, and what is right."""

    turn: Turn
    continuations: tuple[str, ...]
    """Scored one by one after the prompt; empty where text is generated."""
    choices: tuple[str, ...]
    gold: tuple[Any, ...]
    """Every acceptable answer: places of choices, texts, or orders."""
    target: str
    """The target as text, for the samples file."""
    item: Item | None = None
    inputs: tuple[str, ...] = ()
    """Where the question itself is the choice: one user text for each continuation."""


class Prompts(Protocol):
    """How one task turns docs into turns."""

    def ask(self, doc: Doc) -> Asked: ...

    def shot(self, doc: Doc) -> Turn: ...


class FormatPrompts:
    """Docs under a format: raw fields in, the format's prompt out."""

    def __init__(self, fmt: PromptFormat, raw: RawFields) -> None:
        self.format = fmt
        self._text = _named(raw.text, "doc_to_text")
        self._choice = None if raw.choice is None else _named(raw.choice, "doc_to_choice")
        self._target = _named(raw.target, "doc_to_target")

    def item(self, doc: Doc) -> Item:
        """The doc's question, choices and gold."""
        choices = None if self._choice is None else self._choice(doc)
        return build_item(
            doc, self._text(doc), choices, self._target(doc), answers=self.format.answers
        )

    def ask(self, doc: Doc) -> Asked:
        item = self.item(doc)
        fmt = self.format
        turn = fmt.question_turn(item)
        continuations = () if fmt.reads_text else fmt.continuations(item)
        return Asked(turn, continuations, item.choices, item.gold, fmt.target_text(item), item)

    def shot(self, doc: Doc) -> Turn:
        return self.format.shot_turn(self.item(doc))

    # What the task's own ``doc_to_*`` are under this format.

    def text(self, doc: Doc) -> str:
        """The whole user text."""
        return self.format.question_turn(self._unanswered(doc)).user

    def scored(self, doc: Doc) -> list[str]:
        """What is scored for each choice: labels, or the texts themselves."""
        item = self._unanswered(doc)
        return list(self.format.labels(item) or item.choices)

    def target(self, doc: Doc) -> Any:
        """The right choice's place, or for generated answers the text that a shot shows."""
        item = self.item(doc)
        return self.format.target_text(item) if self.format.reads_text else item.gold[0]

    def _unanswered(self, doc: Doc) -> Item:
        choices = () if self._choice is None else choice_texts(self._choice(doc))
        return Item(doc, question_text(self._text(doc)), choices, ())


class RawPrompts:
    """Docs by the harness's rules, for a task with neither ``formats`` nor ``template``."""

    def __init__(
        self,
        text: Any,
        choice: Any,
        target: Any,
        *,
        output_type: str,
        gen_prefix: Any = None,
    ) -> None:
        self._text = _named(text, "doc_to_text", raw=True)
        self._choice = None if choice is None else _named(choice, "doc_to_choice", raw=True)
        self._target = _named(target, "doc_to_target", raw=True)
        self._gen_prefix = None if gen_prefix is None else _prefix_field(gen_prefix)
        self._output_type = output_type

    def ask(self, doc: Doc) -> Asked:
        choices = self._choices(doc)
        target = self._target_value(doc)
        turn = Turn(self._user(doc), None, self._prefix(doc))
        continuations: tuple[str, ...] = ()
        if self._output_type == "multiple_choice":
            continuations = choices
        elif self._output_type.startswith("loglikelihood"):
            continuations = (str(target),)
        return Asked(turn, continuations, choices, self._gold(target, choices), str(target))

    def shot(self, doc: Doc) -> Turn:
        target, choices = self._target_value(doc), self._choices(doc)
        if isinstance(target, list) and target:
            target = target[0]
        if isinstance(target, int) and choices:
            target = choices[target]
        answer = None if target is None else str(target)
        return Turn(self._user(doc), answer, self._prefix(doc))

    def _user(self, doc: Doc) -> str:
        value = self._text(doc)
        if value is None or isinstance(value, list | dict):
            raise FormatError(
                f"doc_to_text gives {shorten(value)} where text is expected. Name the field that "
                "holds the text."
            )
        return str(value)

    def _prefix(self, doc: Doc) -> str | None:
        return None if self._gen_prefix is None else str(self._gen_prefix(doc))

    def _choices(self, doc: Doc) -> tuple[str, ...]:
        if self._choice is None:
            return ()
        value = self._choice(doc)
        if isinstance(value, str):
            value = _python_literal(value)
        if isinstance(value, Mapping):
            value = list(value.values())
        return choice_texts(value)

    def _target_value(self, doc: Doc) -> Any:
        value = self._target(doc)
        if not isinstance(value, str):
            return value
        if value.isascii() and value.isdigit() and self._choice is not None:
            return int(value)
        if value[:1] == "[" and value[-1:] == "]":
            parsed = _python_literal(value)
            return parsed if isinstance(parsed, list) else value
        return value

    def _gold(self, target: Any, choices: tuple[str, ...]) -> tuple[Any, ...]:
        accepted = tuple(target) if isinstance(target, list) else (target,)
        if self._output_type == "multiple_choice":
            return tuple(_place(one, choices) for one in accepted)
        if self._output_type == "generate_until" and choices:
            return tuple(choices[_place(one, choices)] for one in accepted)
        return tuple(str(one) for one in accepted)


@dataclass(frozen=True)
class _Named:
    """A compiled field that puts its own name into its errors."""

    compiled: Field
    name: str
    raw: bool

    def __call__(self, doc: Doc) -> Any:
        try:
            value = self.compiled(doc)
        except FieldError as error:
            raise error.located(field=self.name) from error.__cause__
        if self.raw and self.compiled.kind == "expression" and not isinstance(value, str):
            return _as_rendered(value)
        return value


def _named(spec: Any, name: str, *, raw: bool = False) -> _Named:
    try:
        compiled = compile_field("" if spec is None else spec, prints_none=raw)
    except FieldError as error:
        raise error.located(field=name) from None
    return _Named(compiled, name, raw)


def _as_rendered(value: Any) -> Any:
    """What the harness sees of a ``{{ expression }}``: its printed form, lists read back."""
    return value if isinstance(value, list | tuple | int) else str(value)


def _prefix_field(spec: Any) -> Field:
    from lm_eval.config.fields import is_jinja

    if isinstance(spec, str) and not is_jinja(spec):
        return Field(spec, "text", None)
    return compile_field(spec, prints_none=True)


def _python_literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return text


def _place(target: Any, choices: tuple[str, ...]) -> int:
    """The place of the right choice by the harness's rules: an index, or a choice's own text."""
    if isinstance(target, int) and 0 <= target < len(choices):
        return int(target)
    if isinstance(target, str) and target in choices:
        return choices.index(target)
    raise FormatError(
        f"doc_to_target gives {shorten(target)}, which is neither a place among the "
        f"{len(choices)} choices nor one of them ({', '.join(choices[:8])})."
    )
