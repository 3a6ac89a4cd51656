"""The target, as written in the data, becomes the gold: which choice is right.

The same under every format: a format's own labels never decide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from lm_eval.config.fields import shorten
from lm_eval.errors import GoldError


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
