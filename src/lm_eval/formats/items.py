"""One doc, with its fields extracted: what a format puts into a prompt, and what is right.

In: the values of ``doc_to_text``, ``doc_to_choice`` and ``doc_to_target``. Out: an ``Item``, or an
error that says what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lm_eval.config.fields import shorten
from lm_eval.errors import FormatError, GoldError
from lm_eval.formats.gold import resolve_gold

AnswerKind = Literal["choice", "text", "order"]
"""What an answer is: one of the choices, a text, or all choices in an order."""


@dataclass(frozen=True, slots=True)
class Item:
    """A doc's question, choices and gold. ``gold`` holds every acceptable answer, the first one shown.

    Its elements are places of choices, texts, or (for orders) tuples of places.
    """

    doc: Mapping[str, Any]
    question: str
    choices: tuple[str, ...]
    gold: tuple[Any, ...]


def build_item(
    doc: Mapping[str, Any], question: Any, choices: Any, target: Any, *, answers: AnswerKind
) -> Item:
    """An item from extracted values. ``choices`` is None where there are none to choose from."""
    texts = () if choices is None and answers == "text" else choice_texts(choices)
    return Item(doc, question_text(question), texts, _gold(target, texts, answers))


def question_text(value: Any) -> str:
    """The question as text; None or a collection is an error, a number prints as itself."""
    if isinstance(value, str):
        return value
    if value is None or _is_collection(value):
        raise FormatError(
            f"doc_to_text gives {shorten(value)} where the question's text is expected. Name the "
            "field that holds the text, such as `question` or `{{ question.stem }}`."
        )
    return str(value)


def choice_texts(value: Any) -> tuple[str, ...]:
    """The choices as texts: a list of at least two, or the values of a mapping such as A → text."""
    if isinstance(value, Mapping) and not any(map(_is_collection, value.values())):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        raise FormatError(
            f"doc_to_choice gives {shorten(value)}, which is no list. Give a field or expression "
            f"that holds the list of choices{_list_hint(value)}."
        )
    if len(value) < 2:
        amount = "is empty" if not value else f"holds one choice only ({shorten(value[0])})"
        raise FormatError(
            f"the list of choices {amount}; a choice needs at least two. Check doc_to_choice and "
            "the doc's data."
        )
    return tuple([v if isinstance(v, str) else _choice_text(v) for v in value])


def _is_collection(value: Any) -> bool:
    return isinstance(value, list | tuple | dict | set)


def _choice_text(value: Any) -> str:
    if value is None or _is_collection(value):
        raise FormatError(
            f"a choice is {shorten(value)}, not a text. For choices that are mappings, pick the text: "
            "`{{ choices | map(attribute='text') }}`."
        )
    return str(value)


def _list_hint(value: Any) -> str:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, list):
                return f", such as `{{{{ choices.{key} }}}}`"
    return ""


def _gold(target: Any, choices: tuple[str, ...], answers: AnswerKind) -> tuple[Any, ...]:
    if target is None:
        raise GoldError(
            "doc_to_target gives None: the doc has no gold answer. Give it one in the data."
        )
    if answers == "order":
        return (_order(target, choices),)
    accepted = target if isinstance(target, list | tuple) else (target,)
    if not accepted:
        raise GoldError("doc_to_target gives an empty list: no answer would be right.")
    if choices:
        places = tuple([resolve_gold(answer, choices) for answer in accepted])
        return places if answers == "choice" else tuple(choices[place] for place in places)
    return tuple(str(answer) for answer in accepted)


def _order(target: Any, choices: Sequence[str]) -> tuple[int, ...]:
    places = (
        tuple(resolve_gold(answer, choices) for answer in target)
        if isinstance(target, list | tuple)
        else ()
    )
    if sorted(places) != list(range(len(choices))):
        raise GoldError(
            f"target {shorten(target)} is no order of the {len(choices)} choices. A ranking needs a "
            "list that names every choice once, best first (indices, texts or letters)."
        )
    return places
