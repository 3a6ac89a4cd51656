"""Labels in front of choices: letters, numbers, or a list of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from string import ascii_uppercase
from typing import Literal, Union

from lm_eval.errors import FormatError

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
