"""One doc as an ``Item``: its question, choices and gold, and the labels that name the choices.

In: the values of ``doc_to_text``, ``doc_to_choice`` and ``doc_to_target``. Out: an ``Item``, or an
error that says what is wrong with them. The gold is decided here, the same under every format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_uppercase
from typing import Any, Literal, Union

from lm_eval.config.fields import shorten
from lm_eval.errors import FormatError, GoldError

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
            f"doc_to_choice gives {shorten(value)}, which is not a list. Give a field or expression "
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
            f"target {shorten(target)} is not an order of the {len(choices)} choices. A ranking needs a "
            "list that names every choice once, best first (indices, texts or letters)."
        )
    return places


def resolve_gold(target: Any, choices: Sequence[str]) -> int:
    """The place of the right choice.

    ``target`` may be a 0-based index, the choice's own text, a letter, or digits for an index, tried
    in that order. No match, or a text that occurs twice among the choices, is a ``GoldError``.
    """
    for attempt in (exact_place, _as_text, _as_letter, _as_digits):
        place = attempt(target, choices)
        if place is not None:
            _check_unique(place, choices)
            return place
    raise GoldError(
        f"target {shorten(target)} matches none of the {len(choices)} choices "
        f"({', '.join(shorten(choice, 40) for choice in choices[:8])}). It may be a 0-based index, a "
        "choice's own text, a letter, or digits for an index."
    )


def exact_place(target: Any, choices: Sequence[str]) -> int | None:
    """The place of the choice that ``target`` is the 0-based index or the exact text of."""
    if isinstance(target, float) and target.is_integer():
        target = int(target)
    if isinstance(target, int) and 0 <= target < len(choices):
        return int(target)
    if isinstance(target, str) and target in choices:
        return list(choices).index(target)
    return None


def _as_text(target: Any, choices: Sequence[str]) -> int | None:
    """The place of the text, whatever blanks are around it; a number may be a choice's text too."""
    text = str(target)
    if text in choices:
        return list(choices).index(text)
    stripped = [choice.strip() for choice in choices]
    return stripped.index(text.strip()) if text.strip() in stripped else None


def _as_letter(target: Any, choices: Sequence[str]) -> int | None:
    text = str(target).strip().upper()
    place = ascii_uppercase.find(text) if len(text) == 1 else -1
    return place if 0 <= place < len(choices) else None


def _as_digits(target: Any, choices: Sequence[str]) -> int | None:
    text = str(target).strip()
    if text.isascii() and text.isdigit() and int(text) < len(choices):
        return int(text)
    return None


def _check_unique(place: int, choices: Sequence[str]) -> None:
    gold = choices[place].strip()
    if [choice.strip() for choice in choices].count(gold) > 1:
        raise GoldError(
            f"the gold answer {shorten(gold)} occurs more than once among the choices, so no reader "
            "can tell which is meant. Make the choices distinct, or leave the doc out (process_docs)."
        )


LabelStyle = Union[Literal["letters", "numbers", "choices"], tuple[str, ...], None]
"""``choices`` means that the choice texts are the labels, as in classification."""

LABEL_STYLES = ("letters", "numbers", "choices")


def letter(place: int) -> str:
    """The label of a 0-based place: A … Z, AA, AB …"""
    prefix = letter(place // 26 - 1) if place >= 26 else ""
    return prefix + ascii_uppercase[place % 26]


@lru_cache(maxsize=1024)
def counted_labels(style: str, count: int) -> tuple[str, ...]:
    """``count`` labels of a style that has no end."""
    if style == "letters":
        return tuple(letter(place) for place in range(count))
    return tuple(str(place + 1) for place in range(count))


def labels_for(
    style: LabelStyle, choices: Sequence[str], *, cuts: bool, format_name: str
) -> tuple[str, ...]:
    """One label for each choice; with ``cuts``, at most as many as the list has."""
    if style is None:
        return ()
    if style == "choices":
        return tuple(choices)
    if isinstance(style, str):
        return counted_labels(style, len(choices))
    if len(style) < len(choices) and not cuts:
        raise FormatError(
            f"format {format_name!r} has {len(style)} labels ({', '.join(style)}) for "
            f"{len(choices)} choices. Dropping a choice would change the question: give at least "
            f"{len(choices)} choice_labels, or use `letters` or `numbers`, which have no end."
        )
    return style[: len(choices)]


def joined(labels: Sequence[str], word: str) -> str:
    """``A, B, C and D`` for the word ``and``."""
    if len(labels) < 2:
        return "".join(labels)
    return f"{', '.join(labels[:-1])} {word} {labels[-1]}"
