"""A stored reply that is read twice: what is known of it, and the verdict before and after.

Shared by everything that reads answers again, the runs of other packages included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from lm_eval.formats.items import AnswerKind
from lm_eval.formats.readers import BoundReader
from lm_eval.lab.stored.run import StoredRun
from lm_eval.text.encode import AsDict


@dataclass(frozen=True)
class Verdict(AsDict):
    """How one reader read a reply, and the score of that reading."""

    score: float
    answer: str | None
    """The answer in words; None where there is none."""
    rule: str | None = None
    span: tuple[int, int] | None = None
    reason: str | None = None
    """Why no answer was read."""

    KEYS = ("score", "answer", "rule", "span", ("no_answer", "reason"))

    @property
    def is_read(self) -> bool:
        return self.reason is None


@dataclass(frozen=True)
class ReadAgain(AsDict):
    """One item whose reply was read twice."""

    item: str
    """What it is called: ``doc 3``."""
    doc_id: int
    reply: str
    right: str
    """The right answer in words."""
    before: Verdict
    after: Verdict
    cluster: str | None = None
    is_part: bool = False
    """Whether it is one of several replies to its doc, which count together."""

    KEYS = ("item", "doc_id", "reply", "right", "before", "after")


@dataclass
class Rereading:
    """The items of one result as they are read again, and what should be known about it."""

    metric: str
    items: Iterable[ReadAgain]
    before: str = "as stored"
    """How the replies were read the first time, in words."""
    notes: list[str] = field(default_factory=list)
    """Filled while the items are read."""
    part: str = ""
    """Which part of the answers this is, where a result has several."""


@runtime_checkable
class RereadsItself(Protocol):
    """A run of another package, which knows how to read its replies again."""

    def reread(self, name: str, reader: BoundReader) -> Rereading:
        """The items of a result, read with ``reader``."""
        ...


def first_reply(sample: Mapping[str, Any]) -> str | None:
    """The text that a model gave first for this sample; None where it gave none."""
    answers = sample.get("resps") or ()
    first = answers[0] if answers else None
    while isinstance(first, list | tuple):
        first = first[0] if first else None
    return None if first is None else str(first)


def in_words(value: Any, answers: AnswerKind, choices: Sequence[str]) -> str:
    """An answer as people read it: the text of a choice, or what was written."""
    if value is None:
        return ""
    if answers == "choice" and isinstance(value, int) and value < len(choices):
        return choices[value]
    if answers == "order" and isinstance(value, list | tuple):
        return ", ".join(in_words(place, "choice", choices) for place in value)
    return str(value)


def answered_samples(
    run: StoredRun, name: str, filter_name: str | None
) -> Iterator[dict[str, Any]]:
    """The samples with an answer, under one filter."""
    for sample in run.samples(name):
        if sample.get("missing") or first_reply(sample) is None:
            continue
        if filter_name is None or sample.get("filter", "none") == filter_name:
            yield sample
