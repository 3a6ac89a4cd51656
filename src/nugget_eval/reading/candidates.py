"""Candidate answers, made of slots (label, number, span), and ``LabelReading``, the outcome of reading.

Also the names of fields that hold a label, a number, a draft or the final answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from nugget_eval.reading.spellings import Label, label_of

Span = tuple[int, int]


def names(listed: str) -> frozenset[str]:
    """The names in a text, as a set."""
    return frozenset(listed.split())


# Field names, in lower case without separators.
LABEL_KEYS = names(
    "label labels decision assignment judgment judgement verdict answer classification class category "
    "status rating value result supportlabel supportlevel nuggetlabel finallabel finaldecision support "
    "assessment evaluation finalanswer output response"
)
FOREIGN_LABEL_KEYS = names(
    "urteil bewertung entscheidung antwort étiquette verdict décision réponse etiqueta veredicto "
    "decisión "
    "respuesta rótulo decisão resposta etichetta verdetto decisione risposta метка вердикт "
    "решение ответ оценка "
    "标签 標籤 结论 判定 判断 答案 ラベル 評価 回答 레이블 라벨 판정 답 التصنيف الحكم الإجابة "
    "التسمية लेबल निर्णय उत्तर"
)
"""The same in the other languages of the prompts, with their own letters."""
INDEX_KEYS = names(
    "nugget id index number no n k i nuggetid nuggetindex nuggetnumber nuggetno num idx key item "
    "itemid claim fact statement position order"
)
DRAFT_KEYS = names(
    "draft drafts initial example examples first preliminary reasoning thoughts thinking analysis "
    "rationale snippet explanation reason old previous allowedlabels options choices"
)
FINAL_KEYS = names(
    "final finallabels finallabel finalanswer finaldecision corrected revised correctedlabels "
    "revisedlabels answer"
)


@dataclass(frozen=True, slots=True)
class LabelWords:
    """Recognises labels, in the spellings that this reply may use."""

    case_sensitive: bool = False
    plain_words: bool = False

    def __call__(self, text: str, *, strict_slot: bool = True) -> Label | None:
        """The label ``text`` spells; yes and no count in a strict slot only."""
        return label_of(
            text,
            case_sensitive=self.case_sensitive,
            plain_words=self.plain_words and strict_slot,
        )


@dataclass(frozen=True, slots=True)
class Slot:
    """One entry of an answer. ``label`` is None if the entry is not a known label."""

    label: Label | None
    index: int | None = None
    span: Span | None = None
    explained: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible answer: its slots in the order written, and how it was written.

    ``is_cut``: the reply ends inside it. ``excluded`` says why it cannot be the answer.
    ``needs_all``: its numbers may be counts, unless they are those of all nuggets.
    """

    format: str
    rule: str
    span: Span
    slots: tuple[Slot, ...]
    repairs: tuple[str, ...] = ()
    is_cut: bool = False
    excluded: str | None = None
    rank: int = 0
    needs_all: bool = False

    @property
    def is_numbered(self) -> bool:
        return any(slot.index is not None for slot in self.slots)

    @property
    def known(self) -> int:
        """How many slots hold a label."""
        return sum(slot.label is not None for slot in self.slots)

    def repaired(self, *repairs: str) -> Candidate:
        new = [repair for repair in repairs if repair not in self.repairs]
        return replace(self, repairs=(*self.repairs, *new))


def make(
    format_: str,
    rule: str,
    span: Span,
    slots: Iterable[Slot],
    *,
    is_cut: bool = False,
    excluded: str | None = None,
    needs_all: bool = False,
) -> list[Candidate]:
    """A candidate; none if no slot holds a label, since it is then about something else."""
    kept = tuple(slots)
    if not any(slot.label is not None for slot in kept):
        return []
    return [
        Candidate(format_, rule, span, kept, is_cut=is_cut, excluded=excluded, needs_all=needs_all)
    ]


def cut_out(text: str, spans: Iterable[Span]) -> str:
    """``text`` of equal length with ``spans`` blanked out; they are in order and do not overlap.

    Text before and after a span ends up on different lines: the *no* before a tag that is cut out and
    the *support* after it are not one label.
    """
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += (text[at:start], gap(end - start))
        at = end
    return "".join(pieces) + text[at:] if pieces else text


def gap(length: int) -> str:
    """``length`` characters of white space with a line break at both ends."""
    return "\n" + " " * (length - 2) + "\n" if length > 1 else "\n" * length


@lru_cache(maxsize=4096)
def key_of(name: str) -> str:
    """A field name in lower case, letters only: ``Nugget_ID`` → ``nuggetid``."""
    return re.sub(r"[^a-z]", "", name.lower()) if len(name) <= 60 else ""


FORMAT_TYPES = (
    *("json", "markdown", "csv", "yaml", "xml", "adaptive"),
    *("tsv", "numbered", "python_list", "pipe"),
)
"""Output formats that a judge can be asked for; ``adaptive`` leaves the choice to the judge."""

FormatUsed = Literal[
    "json",
    "markdown",
    "csv",
    "yaml",
    "xml",
    "tsv",
    "numbered",
    "python_list",
    "pipe",
    "prose",
    "empty",
    "failed",
]
"""``prose`` is an answer in sentences, ``empty`` a reply without text, ``failed`` any other."""

ErrorType = Literal[
    "truncation",
    "count_mismatch",
    "format_error",
    "ambiguous",
    "unknown_label",
    "incomplete_index",
    "refusal",
    "empty",
    "echo",
]
"""Why labels are missing.

``truncation``        fewer labels than nuggets: the end is missing, or thinking never ended
``count_mismatch``    more labels than nuggets, or a number that no nugget has
``format_error``      no answer was found
``ambiguous``         two answers, or two labels for one nugget, and nothing says which counts
``unknown_label``     something that is not a label where a label should be
``incomplete_index``  a numbered answer with gaps
``refusal``           the model declined
``empty``             no text at all, or nothing but closed reasoning
``echo``              only an example, a list of allowed labels, a definition or a quotation
"""

LabelTuple = tuple["list[Label | None] | None", int, str, "str | None"]


@dataclass(frozen=True, slots=True)
class LabelReading:
    """The labels in a reply, one entry per nugget, and how they were found.

    ``labels`` always has one entry per nugget; None is missing. ``error_type`` is None exactly if
    none is missing; ``reason`` says the same in words. ``span`` is the position of the answer in
    the reply, ``spans`` that of each label if it is known. ``conforms`` tells whether the answer is
    in the format that was asked for (None if no particular one was). ``found`` counts the labels
    that the answer holds, even if they could not be placed. ``candidates`` are all the answers
    considered, each with its ``excluded`` or ``rank``.
    """

    labels: tuple[Label | None, ...]
    format_used: FormatUsed
    error_type: ErrorType | None = None
    reason: str = ""
    rule: str | None = None
    span: Span | None = None
    spans: tuple[Span | None, ...] = ()
    found: int = 0
    repairs: tuple[str, ...] = ()
    conforms: bool | None = None
    candidates: tuple[Candidate, ...] = ()

    @property
    def is_complete(self) -> bool:
        return self.error_type is None

    @property
    def missing(self) -> tuple[int, ...]:
        """The numbers, from 1, of the nuggets without a label."""
        return tuple(i for i, label in enumerate(self.labels, 1) if label is None)

    def as_tuple(self) -> LabelTuple:
        """``(labels, count, format_used, error_type)``; ``labels`` is None if none was placed."""
        labels = list(self.labels) if any(self.labels) else None
        return labels, self.found, self.format_used, self.error_type
