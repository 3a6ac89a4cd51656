"""One doc as an ``Item``: its question, choices and gold, and the labels that name the choices.

In: the values of ``doc_to_text``, ``doc_to_choice`` and ``doc_to_target``. Out: an ``Item``, or an
error that says what is wrong with them. The gold is the same under every format (``gold``).
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from string import ascii_uppercase
from typing import Any, Literal

from lm_eval.config.fields import shorten
from lm_eval.errors import FormatError, GoldError
from lm_eval.formats.gold import ALONE, NO_MATCH, GoldColumn, is_missing, no_gold, resolve_gold

AnswerKind = Literal["choice", "text", "order"]
"""What an answer is: one of the choices, a text, or all choices in an order."""

FEW_CHOICES = "fewer than two choices"


@dataclass(frozen=True, slots=True)
class Item:
    """A doc's question, choices and gold. ``gold`` holds every acceptable answer, the first one shown.

    Its elements are indices of choices, texts, or (for orders) tuples of indices. ``context`` is the
    passage that the question is about and ``rationale`` a shot's worked reasoning; both may be empty.
    """

    doc: Mapping[str, Any]
    question: str
    choices: tuple[str, ...]
    gold: tuple[Any, ...]
    context: str = ""
    rationale: str = ""


class Spans(str):
    """A right answer of several parts, such as two names; as a text, the parts with commas between."""

    parts: tuple[str, ...]

    def __new__(cls, parts: Sequence[str]) -> Spans:
        spans = super().__new__(cls, ", ".join(parts))
        spans.parts = tuple(parts)
        return spans


def build_item(
    doc: Mapping[str, Any],
    question: Any,
    choices: Any,
    target: Any,
    *,
    answers: AnswerKind,
    labels: Sequence[str] = (),
    column: GoldColumn = ALONE,
    choice_name: str = "choices",
    context: str = "",
) -> Item:
    """An item from extracted values. ``choices`` is None where there are none to choose from.

    ``labels`` are labels that the data keeps apart from the choices' texts, ``column`` says how to
    understand the task's targets, and ``choice_name`` is how Jinja reaches the choices.
    """
    if type(choices) is not list:
        choices = written_choices(choices)
        labels = labels or data_labels(choices)
    texts = () if choices is None and answers == "text" else choice_texts(choices, choice_name)
    gold = _gold(target, texts, labels, column, answers)
    return Item(doc, question_text(question), texts, gold, context)


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


def around_blank(question: str, marker: str | None, format_name: str) -> tuple[str, str]:
    """The question before its first blank, and the text after the blank, stripped."""
    before, blank, after = question.partition(marker or "_")
    if not blank or not after.strip():
        problem = "nothing behind its blank" if blank else f"no blank ({marker})"
        raise FormatError(
            f"the question {shorten(question, 60)} has {problem}, and format {format_name!r} scores "
            "what follows one. Name it with `blank_marker`, or use another format, such as bare or "
            "mcqa.",
            skip_reason=f"a question with {'nothing behind its' if blank else 'no'} blank",
        )
    return before, after.strip()


def passage_text(value: Any, key: str = "doc_to_context") -> str:
    """A passage or a worked reasoning as text; a doc whose value is None has none."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if _is_collection(value):
        raise FormatError(
            f"{key} gives {shorten(value)} where a text is expected. Name the "
            "field that holds the text, or join its parts: `{{ paragraphs | join('\\n') }}`."
        )
    return str(value)


def choice_texts(value: Any, name: str = "choices") -> tuple[str, ...]:
    """The choices as texts: a list of at least two, or the values of a mapping such as A → text.

    ``name`` is how Jinja reaches the value, for the line that a message suggests.
    """
    if type(value) is not list:  # the usual case first: there are many docs
        value = _listed(value, name)
    if len(value) < 2:
        amount = "is empty" if not value else f"holds one choice only ({shorten(value[0])})"
        raise FormatError(
            f"the list of choices {amount}; a choice needs at least two. Check doc_to_choice and "
            "the doc's data.",
            skip_reason=FEW_CHOICES,
        )
    return tuple([v if isinstance(v, str) else _choice_text(v) for v in value])


def _listed(value: Any, name: str) -> Sequence[Any]:
    """The value if it is a list, the list that its text spells out, or the values of a mapping."""
    value = written_choices(value)
    if isinstance(value, Mapping) and not any(map(_is_collection, value.values())):
        return list(value.values())
    if isinstance(value, list | tuple):
        return value
    raise FormatError(
        f"doc_to_choice gives {shorten(value)}, which is not a list. Give a field or expression "
        f"that holds the list of choices{_list_hint(value, name)}."
    )


def _is_collection(value: Any) -> bool:
    return isinstance(value, list | tuple | dict | set)


def _choice_text(value: Any) -> str:
    if value is None or _is_collection(value):
        raise FormatError(
            f"a choice is {shorten(value)}, not a text. For choices that are mappings, pick the text: "
            "`{{ choices | map(attribute='text') }}`."
        )
    return str(value)


def written_choices(value: Any) -> Any:
    """The list or mapping that a text spells out, as in tables (``["x", "y"]``); else the value."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if (text[:1], text[-1:]) not in (("[", "]"), ("{", "}")):
        return value
    for parse in (json.loads, ast.literal_eval):
        try:
            parsed = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        # ['x' 'y'], as numpy prints it, is one text to Python.
        if isinstance(parsed, Mapping) or (isinstance(parsed, list) and len(parsed) > 1):
            return parsed
    return value


_SEPARATORS = ("\n", ";", "|", "\t", " / ", ",")


def _list_hint(value: Any, name: str) -> str:
    """How to reach the list inside a value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if isinstance(inner, list):
                return f", such as `{{{{ {name}.{key} }}}}`"
    for mark in _SEPARATORS if isinstance(value, str) else ():
        parts = value.strip().split(mark)
        if len(parts) > 1 and all(part.strip() for part in parts):
            trimmed = " | map('trim') | list" if any(part != part.strip() for part in parts) else ""
            line = f'doc_to_choice: "{{{{ {name}.split({mark!r}){trimmed} }}}}"'
            return f". If {mark!r} separates the choices, write `{line}`"
    return ""


def data_labels(choices: Any) -> tuple[str, ...]:
    """The labels that the data gives its choices: the keys of a mapping such as A → text."""
    return tuple(map(str, choices)) if isinstance(choices, Mapping) else ()


def _gold(
    target: Any,
    choices: tuple[str, ...],
    labels: Sequence[str],
    column: GoldColumn,
    answers: AnswerKind,
) -> tuple[Any, ...]:
    """Every acceptable answer."""
    if type(target) is int and choices and answers == "choice":
        return (resolve_gold(target, choices, labels, column),)
    if target is None:
        raise no_gold(target)
    accepted = target if isinstance(target, list | tuple) else (target,)
    if not accepted:
        raise no_gold(target)
    if not choices:
        return tuple([_gold_text(answer) for answer in accepted])
    indices = tuple([resolve_gold(answer, choices, labels, column) for answer in accepted])
    if answers == "order":
        return (_checked_order(indices, target, choices),)
    return indices if answers == "choice" else tuple([choices[index] for index in indices])


def _gold_text(answer: Any) -> str:
    if is_missing(answer):
        raise no_gold(answer)
    if isinstance(answer, list | tuple):
        if not answer:
            raise no_gold(answer)
        return Spans([_gold_text(part) for part in answer])
    return str(answer)


def _checked_order(
    indices: tuple[int, ...], target: Any, choices: Sequence[str]
) -> tuple[int, ...]:
    if len(indices) != len(choices) or sorted(indices) != list(range(len(choices))):
        raise GoldError(
            f"target {shorten(target)} is not an order of the {len(choices)} choices. A ranking "
            "needs a list that names every choice once, best first (indices, texts or letters).",
            skip_reason=NO_MATCH,
        )
    return indices


def reordered(item: Item, order: Sequence[int]) -> Item:
    """The item with its choices in another order. Choices beyond the order stay where they are."""
    full = (*order, *range(len(order), len(item.choices)))
    new_index = {old: new for new, old in enumerate(full)}
    gold = tuple([_moved(answer, new_index) for answer in item.gold])
    return replace(item, choices=tuple(item.choices[index] for index in full), gold=gold)


def _moved(answer: Any, new_index: Mapping[int, int]) -> Any:
    """An index, or an order of indices, after the choices have moved; a text stays what it is."""
    if isinstance(answer, tuple):
        return tuple(new_index[index] for index in answer)
    return answer if isinstance(answer, str) else new_index[answer]


LabelStyle = Literal["letters", "numbers", "choices"] | tuple[str, ...] | None
"""``choices``: the choice texts are the labels, as in classification."""

LABEL_STYLES = ("letters", "numbers", "choices")


def letter(index: int) -> str:
    """The label of a 0-based index: A … Z, AA, AB …"""
    prefix = letter(index // 26 - 1) if index >= 26 else ""
    return prefix + ascii_uppercase[index % 26]


@lru_cache(maxsize=1024)
def counted_labels(style: str, count: int) -> tuple[str, ...]:
    """``count`` labels of a style that has no end."""
    if style == "letters":
        return tuple(letter(index) for index in range(count))
    return tuple(str(index + 1) for index in range(count))


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


def label_variables(labels: tuple[str, ...]) -> dict[str, Any]:
    """The variables about the choices of a doc that templates can read."""
    return {
        "_num_choices": len(labels),
        "_choice_labels": list(labels),
        "_choice_list_and": joined(labels, "and"),
        "_choice_list_or": joined(labels, "or"),
    }
