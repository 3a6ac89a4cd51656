"""Candidates in sentences: ``Nugget 1 is fully supported``. Only with the nugget's number."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nugget_eval.reading.candidates import Candidate, LabelWords, Slot, make

_STATEMENT = re.compile(
    r"\bnugget[ \t]{0,2}(?:number[ \t]{0,2}|#)?(?P<index>\d{1,4})[\"')*_`]{0,3}[ \t]{0,2}"
    r"(?:\([^()\n]{0,200}\)[ \t]{0,2})?(?:is|was|as|gets|:|=|→|->|should[ \t]be|would[ \t]be)[ \t]{1,2}"
    r"(?:(?:labell?ed|marked|rated|judged|classified|assigned)[ \t])?(?:as[ \t])?"
    r"(?P<label>[\"'*`]{0,3}(?:(?:fully|partially|partly|partial|not|un)[ _-]?){0,2}support(?:ed)?(?!\w)"
    r"[\"'*`]{0,3})(?P<rest>[^.\n]{0,80})",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|whether|unless|suppose|when|that)\s{1,3}\Z", re.IGNORECASE)
_OPEN = re.compile(
    r"\b(?:but|only|or|unless|if|in\s+part|partly|partially|however|mostly)\b|\?", re.I
)


def stated(text: str, words: LabelWords) -> list[Candidate]:
    """One candidate of all sentences that give a numbered nugget a label."""
    slots = list(_slots(text, words))
    if not slots:
        return []
    starts = [slot.span[0] for slot in slots if slot.span]
    ends = [slot.span[1] for slot in slots if slot.span]
    candidate = make("prose", "statements", (min(starts), max(ends)), slots)
    return [candidate] if candidate else []


def _slots(text: str, words: LabelWords) -> Iterator[Slot]:
    for statement in _STATEMENT.finditer(text):
        if _CONDITION.search(text, max(0, statement.start() - 20), statement.start()):
            continue
        is_open = _OPEN.search(statement["rest"]) is not None
        label = None if is_open else words(statement["label"], strict_slot=False)
        yield Slot(label, int(statement["index"]), (statement.start(), statement.end("label")))
