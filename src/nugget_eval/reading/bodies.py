"""The text of a list item → its label: alone, before an explanation, or behind a colon."""

from __future__ import annotations

import re

from nugget_eval.reading.candidates import LabelWords
from nugget_eval.reading.spellings import STEM, Label

_SEPARATOR = re.compile(
    r"[ \t]*(?:[:;–—→]|->|=>|[ \t]-[ \t]|[ \t]=[ \t]|\b(?:label|decision|verdict|answer)"
    r"[ \t]is\b)[ \t]*",
    re.IGNORECASE,
)
_EXPLANATION = re.compile(
    r"[*_`\"'”’\])]{0,3}[ \t]*(?:[:;.,–—(→/#]|-{1,2}[ \t]|//|because\b|since\b|as\b|due\b)[ \t]*",
    re.IGNORECASE,
)
_LABEL_WORD = (
    r"(?:(?:does|is|fully|full|completely|partially|partial|partly|not|no|un)[\s_-]?)"
    r"{0,3}support(?:ed|s)?|partial"
)
_LEADING_LABEL = re.compile(
    rf"[\"'“‘`*_(\[]{{0,4}}(?P<label>{_LABEL_WORD})(?![\w-])", re.IGNORECASE
)
_OR = re.compile(r"\W{0,4}or\b", re.IGNORECASE)
_HEDGE = re.compile(
    r"\b(?:but|only|partial\w*|partly|mostly|somewhat|however|unless|in part)\b", re.I
)
_DENIAL = re.compile(r"\b(?:not|no|un\w+|n't|never|contradict\w*|absent)\b", re.IGNORECASE)
_REACH = 60


def body_label(body: str, words: LabelWords) -> tuple[Label | None, bool]:
    """The label in an item's text, and whether the text holds more than the label.

    ``support``, ``support - the passage says so``, ``Bees collect nectar: support``. None where both
    ends name different labels, or the explanation takes the label back (``support (only partly)``).
    """
    whole = words(body)
    if whole is not None:
        return whole, False
    if not STEM.search(body):
        return None, False
    first, last = _first_label(body, words), _last_label(body, words)
    if first is not None and last is not None and first != last:
        return None, True
    return first or last, True


def _first_label(body: str, words: LabelWords) -> Label | None:
    leading = _LEADING_LABEL.match(body)
    if leading is None:
        return None
    label = words(leading["label"], strict_slot=False)
    rest = body[leading.end() : leading.end() + 400]
    gap = _EXPLANATION.match(rest)
    if label is None or gap is None or _takes_back(label, rest[gap.end() : gap.end() + _REACH]):
        return None
    return label


def _takes_back(label: Label, explanation: str) -> bool:
    """True if the first words of an explanation speak for another label."""
    first = re.split(r"[.;\n]", explanation, maxsplit=1)[0][:_REACH]
    if _OR.match(first):
        return True
    if label == "support":
        return bool(_HEDGE.search(first) or _DENIAL.search(first))
    return label == "not_support" and bool(re.search(r"\b(?:partial\w*|partly)\b", first, re.I))


def _last_label(body: str, words: LabelWords) -> Label | None:
    """The label behind the last colon, arrow or dash, if that is all there is."""
    cuts = [cut.end() for cut in _SEPARATOR.finditer(body, max(0, len(body) - 120))]
    return words(body[cuts[-1] :], strict_slot=False) if cuts else None
