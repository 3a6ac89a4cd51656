"""A changed format beside its base, rendered with texts that occur nowhere else and taken apart again.

In: two formats. Out: a ``Probe``, from which every check of ``equivalence`` reads what it needs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from lm_eval.config.fields import compile_field, fields_read, is_jinja
from lm_eval.formats.assemble import Joints, spoken
from lm_eval.formats.items import Item
from lm_eval.formats.prompt_format import JINJA_FIELDS, PromptFormat, label_variables

SHOWN_CHOICES = 4
# Made-up words: no format says them, no reader takes them for a label. The second set has blanks, stops,
# commas and digits inside, as real texts do.
MARKS = ("qqzq", ("xxzx", "yyzy", "wwzw", "vvzv"))
WORDS = ("Kuvo zeti, 7 rano?", ("belo rami", "difu. nuko", "3 sapi; toru", "wex, luno"))


@dataclass(frozen=True)
class Probe:
    """A changed format beside its base, rendered for the checks."""

    base: PromptFormat
    format: PromptFormat
    most_choices: int = 9
    """The largest number of choices for which the labels are looked at."""

    @cached_property
    def text(self) -> str:
        """What the user says, with the second set of texts."""
        return self._shown.question_turn(self.item).user

    @cached_property
    def item(self) -> Item:
        return self.item_of(WORDS, 0)

    def item_of(self, texts: tuple[str, tuple[str, ...]], gold: int) -> Item:
        """The question and choices as an item whose right answer is at place ``gold``."""
        question, choices = texts
        labels = self.format.choice_labels
        if labels == "choices":  # then they are words of the format, which may name them anywhere
            choices = WORDS[1]
        count = min(len(choices), len(labels)) if isinstance(labels, tuple) else len(choices)
        kept = choices[:count]
        right: Any = gold
        if self.format.answers == "text":
            right = kept[gold]
        elif self.format.answers == "order":
            right = (*range(gold, count), *range(gold))
        return Item({}, question, kept, (right,))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """What a reader of the prompt must be able to find: the question and the shown choices."""
        return (self.item.question, *(self.item.choices if self.format.shows_labels else ()))

    @cached_property
    def pieces(self) -> list[str] | None:
        """The text around the fields, learnt from the first set; None if a field is not there once."""
        marked = self.item_of(MARKS, 0)
        text = self._shown.question_turn(marked).user
        pieces, at = [], 0
        for mark in (marked.question, *marked.choices)[: len(self.fields)]:
            found = text.find(mark, at)
            if found < 0 or text.count(mark) != 1:
                return None
            pieces.append(text[at:found])
            at = found + len(mark)
        return [*pieces, text[at:]]

    @cached_property
    def parsed(self) -> list[str] | None:
        """The fields as the second text gives them back, cut at the pieces; None if that fails."""
        return None if self.pieces is None else parse(self.text, self.pieces)

    @property
    def labels(self) -> tuple[str, ...]:
        return self.format.labels(self.item)

    @cached_property
    def _shown(self) -> PromptFormat:
        """The format without what it reads from docs, which no made-up item has."""
        changes: dict[str, Any] = {
            name: literal(getattr(self.format, name))
            for name in JINJA_FIELDS
            if reads_doc(getattr(self.format, name))
        }
        return replace(self.format, **changes) if changes else self.format

    @cached_property
    def digests(self) -> tuple[bytes, bytes]:
        """Hashes of an answered example and the question, as plain text and as in chat."""
        shot = self._shown.shot_turn(self.item_of(MARKS, 1))
        joints = Joints(self.format.target_delimiter, self.format.fewshot_delimiter)
        plain = f"{joints.shot_text(shot)}\0{self.text}\0{shot.gen_prefix}"
        chat = f"{shot.user}\0{spoken(shot)}\0{self.text}\0{shot.gen_prefix}"
        return _digest(plain), _digest(chat)


def parse(text: str, pieces: Sequence[str]) -> list[str] | None:
    """The text between ``pieces`` in ``text``, if there is exactly one way to see it.

    From the left, each piece is taken where it first occurs; from the right, where it last does. Only
    where both agree is every border certain.
    """
    left = _borders(text, pieces)
    mirrored = _borders(text[::-1], [piece[::-1] for piece in reversed(pieces)])
    if left is None or mirrored is None:
        return None
    size = len(text)
    right = [(size - end, size - start) for start, end in reversed(mirrored)]
    return [text[start:end] for start, end in left] if left == right else None


def _borders(text: str, pieces: Sequence[str]) -> list[tuple[int, int]] | None:
    if not text.startswith(pieces[0]) or not text.endswith(pieces[-1]):
        return None
    spans, at = [], len(pieces[0])
    for piece in pieces[1:-1]:
        end = text.find(piece, at + 1) if piece else -1
        if end < 0:
            return None
        spans.append((at, end))
        at = end + len(piece)
    return [*spans, (at, len(text) - len(pieces[-1]))]


@lru_cache(maxsize=1024)
def literal(source: str) -> str:
    """A template's text outside its braces; a text without braces as it is."""
    return compile_field(source).literal_text if is_jinja(source) else source


@lru_cache(maxsize=1024)
def reads_doc(source: str | None) -> bool:
    """Whether a text is a template that reads more than labels, which no made-up item has."""
    if source is None or not is_jinja(source):
        return False
    return not fields_read(source) <= label_variables(()).keys()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
