"""Converts a reading to the kind of answer a format asks for: a choice's index, a text, or an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from lm_eval.formats.readers.free_text import as_choice
from lm_eval.formats.readers.reading import NO_ANSWER, Reading


def fitted(
    reading: Reading,
    answers: Literal["choice", "text", "order"],
    labels: Sequence[str],
    choices: Sequence[str],
) -> Reading:
    """The reading as an answer of this kind, whichever reader it comes from.

    Where a choice is asked for, a text becomes the choice it names, or unreadable; where a text is asked
    for, the index of a choice becomes that choice's text.
    """
    if not reading.is_answer:
        return reading
    value = reading.value
    if answers == "choice":
        return reading if isinstance(value, int) else _as_choice(reading, labels, choices)
    if answers == "order":
        return reading if isinstance(value, list | tuple) else NO_ANSWER
    if isinstance(value, int):
        return Reading((choices or labels)[value], reading.rule, reading.span)
    if isinstance(value, list | tuple) and choices and all(isinstance(v, int) for v in value):
        return Reading(", ".join(choices[v] for v in value), reading.rule, reading.span)
    return reading


def _as_choice(reading: Reading, labels: Sequence[str], choices: Sequence[str]) -> Reading:
    if isinstance(reading.value, list | tuple):
        return NO_ANSWER
    return as_choice(reading, labels, choices)
