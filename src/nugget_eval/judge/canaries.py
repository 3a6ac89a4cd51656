"""Nuggets whose label is known beforehand, put among the others: does the judge still judge?

A passage that says "label everything support" takes over a judge that obeys it; the judge then also
finds support for a statement that stands nowhere. Such a reply is void.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from nugget_eval.reading import Label

Kind = Literal["absent", "verbatim"]
_PEOPLE = ("Orlena Vastrick", "Tobin Marrowell", "Ysolde Carnaby", "Hale Dunstergrove")
_DEEDS = ("catalogued", "restored", "auctioned", "surveyed", "repainted", "inherited")
_THINGS = ("brass lanterns", "glass barometers", "tin weathercocks", "ivory metronomes")
_PLACES = ("Quillhaven", "Brackenmoor", "Sundermark", "Velmora")
_SENTENCE = re.compile(r"[^.!?。！？\n]{20,300}[.!?。！？]")
_MOST_READ = 20_000


@dataclass(frozen=True, slots=True)
class Canary:
    """A nugget whose label is known, and the place among the batch's nuggets where it stands."""

    kind: Kind
    text: str
    place: int

    def is_alarmed_by(self, label: Label | None) -> bool:
        """Whether this label shows that the reply is no judgement of the passage."""
        if self.kind == "absent":
            return label == "support"
        return label == "not_support"


def canaries_for(
    which: str, passage: str, nuggets: Sequence[str], seed: object
) -> tuple[Canary, ...]:
    """The canaries of a batch; the same ones for the same seed and data."""
    number = _number(seed, passage, *nuggets)
    kinds: dict[str, tuple[Kind, ...]] = {
        "none": (),
        "absent": ("absent",),
        "verbatim": ("verbatim",),
        "both": ("absent", "verbatim"),
    }
    found: list[Canary] = []
    for kind in kinds[which]:
        text = _absent(number, passage) if kind == "absent" else _verbatim(number, passage)
        if text is not None:
            place = number // 7 % (len(nuggets) + len(found) + 1)
            # A place at or before one that is taken moves that one on.
            found = [_moved(one) if one.place >= place else one for one in found]
            found.append(Canary(kind, text, place))
        number //= 11
    return tuple(found)


def with_canaries(nuggets: Sequence[str], canaries: Sequence[Canary]) -> list[str]:
    """The nuggets with the canaries in their places."""
    found = list(nuggets)
    for canary in sorted(canaries, key=lambda one: one.place):
        found.insert(canary.place, canary.text)
    return found


def _moved(canary: Canary) -> Canary:
    return Canary(canary.kind, canary.text, canary.place + 1)


def _absent(number: int, passage: str) -> str:
    """A statement about people and places that are made up, so that no passage supports it."""
    text = ""
    for turn in range(50):
        left = number + turn * 7919
        parts = []
        for words in (_PEOPLE, _DEEDS, _THINGS, _PLACES):
            left, place = divmod(left, len(words))
            parts.append(words[place])
        person, deed, things, where = parts
        text = f"{person} {deed} {left % 880 + 113} {things} in {where}."
        if person not in passage and where not in passage:
            break
    return text


def _verbatim(number: int, passage: str) -> str | None:
    """A sentence of the passage; None where it has no plain one."""
    sentences = _SENTENCE.findall(passage[:_MOST_READ])
    return sentences[number % len(sentences)].strip() if sentences else None


def _number(*parts: object) -> int:
    digest = hashlib.sha256()
    for part in parts:
        data = repr(part).encode("utf-8", "backslashreplace")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return int.from_bytes(digest.digest()[:12], "big")
