"""Candidates in sentences: what they say of all nuggets, or of the only one.

Also labels that one sentence lists: ``The labels are support and not_support, respectively``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from nugget_eval.reading.candidates import Candidate, LabelWords, Slot, make
from nugget_eval.reading.cues import cue_before
from nugget_eval.reading.prose import vocabulary as v
from nugget_eval.reading.prose.claims import LABEL, SENTENCE, claimed
from nugget_eval.reading.prose.single import assigned, single
from nugget_eval.reading.spellings import LABELS

LONGEST_PROSE = 200_000
"""Characters; sentences are not looked for in a longer reply."""


def stated(text: str, words: LabelWords, count: int) -> list[Candidate]:
    """The candidate of all sentences that give nuggets labels; of one nugget, one per sentence."""
    if len(text) > LONGEST_PROSE:
        return []
    slots = claimed(text, words, count)
    candidate = None
    everyone = range(1, count + 1)
    covered = {slot.index for slot in slots if slot.label and slot.index in everyone}
    is_reasoning = len(covered) < count and any(slot.explained for slot in slots)
    if covered and not is_reasoning:
        starts = [slot.span[0] for slot in slots if slot.span]
        ends = [slot.span[1] for slot in slots if slot.span]
        candidate = make("prose", "statements", (min(starts), max(ends)), slots)
    if count > 1 and candidate is not None:
        return [candidate]
    if count > 1:
        return list(enumerated(text, words, count)) or list(single(text, words))
    found = sorted([*single(text, words), *assigned(text, words)], key=lambda one: one.span)
    return found or ([candidate] if candidate else [])


_LONGEST_LISTING = 4_000
_JOIN = re.compile(rf"[ \t,&/*`\"']*(?:{v.AND}[ \t*`\"']*)?", re.IGNORECASE)
_LEAD = re.compile(
    rf"(?:[^\w?]|{v.GLUE}|{v.NOUN}|{v.LISTING}|{v.RESPECTIVELY}|{'|'.join(v.NUMBERS.values())}|\d)*",
    re.I,
)
_TAIL = re.compile(rf"(?:[^\w?]|{v.RESPECTIVELY}|です|である|입니다|이다|है|हैं)*", re.IGNORECASE)
_LABEL_NOUN = re.compile(v.LABEL_NOUN, re.IGNORECASE)
_RESPECTIVELY = re.compile(v.RESPECTIVELY, re.IGNORECASE)


def enumerated(text: str, words: LabelWords, count: int) -> Iterator[Candidate]:
    """One candidate per sentence that lists a label for each nugget and says nothing else."""
    for sentence in SENTENCE.finditer(text):
        if len(sentence[0]) <= _LONGEST_LISTING and not sentence[0].endswith("?"):
            candidate = _enumerated(sentence[0], sentence.start(), words, count)
            if candidate is not None:
                yield candidate


def _enumerated(sentence: str, at: int, words: LabelWords, count: int) -> Candidate | None:
    found = list(LABEL.finditer(sentence))
    if len(found) != count or count < 2:
        return None
    if not all(_JOIN.fullmatch(sentence, a.end(), b.start()) for a, b in pairwise(found)):
        return None
    start, end = found[0].start(), found[-1].end()
    lead, tail = sentence[:start], sentence[end:]
    if not _LEAD.fullmatch(lead) or not _TAIL.fullmatch(tail) or cue_before(lead):
        return None
    labels = [words(one[0], strict_slot=False) for one in found]
    if None in labels:
        return None
    is_each = _RESPECTIVELY.search(lead) or _RESPECTIVELY.search(tail)
    if not is_each and (not _LABEL_NOUN.search(lead) or tuple(labels) == LABELS):
        return None
    slots = (
        Slot(label, None, (at + one.start(), at + one.end()))
        for label, one in zip(labels, found, strict=True)
    )
    return make("prose", "series", (at + start, at + end), slots)
