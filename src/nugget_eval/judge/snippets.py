"""Whether the snippets that a reply quotes occur in the passage, and what becomes of labels without.

In: the labels and the reasoning of one reply. Out: each label as it counts, with the verdict on it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from nugget_eval.prompts.examples import whole_words
from nugget_eval.reading import Label, Reasoned

Verdict = Literal["found", "not_found", "none"]
"""``none``: the reply quotes nothing for this nugget."""

_GAP = re.compile(r"\.\.\.|…|\[\.\.\.\]|\s/\s|[\"”»]\s*(?:[,;]|and|und|y)?\s*[\"“«]|;\s*\n|\n")
_NOTHING = frozenset(("", "none", "n a", "na", "null", "no snippet", "not found", "nothing"))
_STEP_DOWN: dict[Label, Label] = {"support": "partial_support", "partial_support": "not_support"}


@dataclass(frozen=True, slots=True)
class Checked:
    """A label after the check of its snippet."""

    label: Label | None
    verdict: Verdict | None
    """None where nothing had to be checked."""


def check_snippets(
    labels: Sequence[Label | None], reasoned: Sequence[Reasoned], passage: str, what: str
) -> list[Checked]:
    """Each label with the verdict on its snippet; ``what`` says what to do with those that fail.

    A ``not_support`` needs no snippet, and a missing label has none to check. ``what`` is ``off``,
    ``flag``, ``downgrade`` or ``drop``.
    """
    if what == "off":
        return [Checked(label, None) for label in labels]
    quoted = _by_number(reasoned, len(labels))
    checked = []
    for number, label in enumerate(labels, 1):
        if label is None or label == "not_support":
            checked.append(Checked(label, None))
            continue
        verdict = snippet_verdict(quoted.get(number), passage)
        checked.append(Checked(_after(label, verdict, what), verdict))
    return checked


def snippet_verdict(snippet: str | None, passage: str) -> Verdict:
    """Whether each part of a quotation occurs in the passage; an ellipsis separates parts."""
    parts = [whole_words(part) for part in _GAP.split(snippet or "")]
    parts = [part for part in parts if part.strip() not in _NOTHING]
    if not parts:
        return "none"
    whole = _passage_words(passage)
    return "found" if all(part in whole for part in parts) else "not_found"


def _after(label: Label, verdict: Verdict, what: str) -> Label | None:
    if verdict == "found" or what == "flag":
        return label
    return _STEP_DOWN[label] if what == "downgrade" else None


def _by_number(reasoned: Sequence[Reasoned], count: int) -> dict[int, str | None]:
    """Nugget number → snippet; without numbers, in order if there is one for each nugget."""
    if len(reasoned) == count and all(item.number is None for item in reasoned):
        return {number: item.snippet for number, item in enumerate(reasoned, 1)}
    return {item.number: item.snippet for item in reasoned if item.number is not None}


_passage_words = lru_cache(maxsize=8)(whole_words)
