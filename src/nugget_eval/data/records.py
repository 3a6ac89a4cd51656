"""What the files of a nugget evaluation hold, as frozen records; ``files`` reads and writes them.

A record that was read keeps the object it came from: keys unknown here survive, in their order, when it
is written again. A label that is not known is None, whatever the file calls that.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast, get_args

from nugget_eval.data.rows import Record, Row, merged, shown, stored
from nugget_eval.reading.spellings import LABELS, Label, label_of

Importance: TypeAlias = Literal["vital", "okay"]
IMPORTANCES: tuple[Importance, ...] = get_args(Importance)
MISSING = ("", "failed", "error")
"""What files write, besides null, for a judgement that failed."""
ALL = "all"
"""The ``qid`` of the line of a metrics file that holds the means."""


@dataclass(frozen=True, slots=True)
class Nugget(Record):
    """One fact. ``importance`` and ``assignment`` are None if the file does not give them."""

    text: str
    importance: Importance | None = "vital"
    assignment: Label | None = None

    @classmethod
    def of(cls, row: Row) -> Nugget:
        """The nugget in ``row``; an unknown label or importance is an error with the nearest valid."""
        importance = row.one_of("importance", IMPORTANCES, MISSING)
        kind = cast("Importance | None", importance)
        return cls(row.text("text"), kind, _label(row), source=row.values)

    def to_row(self) -> dict[str, Any]:
        """This nugget as a file holds it."""
        row = merged(self.source, {"text": self.text})
        for key, value in (("importance", self.importance), ("assignment", self.assignment)):
            # "failed" in the file is None here, and stays "failed" unless a value was put in.
            if value is not None or row.get(key) not in (None, *MISSING):
                row[key] = value
        return row


def _label(row: Row) -> Label | None:
    value = row.values.get("assignment")
    meant = label_of(value) if isinstance(value, str) and value not in LABELS else None
    if meant:
        raise row.error(
            f"unknown assignment {shown(value)}. Did you mean {meant!r}? Valid: {', '.join(LABELS)}; "
            "null if there is none."
        )
    return cast("Label | None", row.one_of("assignment", LABELS, MISSING))


def _nuggets(row: Row, name: str) -> tuple[Nugget, ...]:
    return tuple(Nugget.of(item) for item in row.rows(name))


def _sentences(row: Row, name: str) -> tuple[Sentence, ...]:
    return tuple(Sentence.of(item) for item in row.rows(name))


def _labelled_rows(nuggets: Sequence[Nugget], was_read: bool) -> list[dict[str, Any]]:
    """The nuggets of an assignment: other tools expect the label's key, even without a label."""
    rows = [nugget.to_row() for nugget in nuggets]
    return rows if was_read else [{**row, "assignment": row.get("assignment")} for row in rows]


@dataclass(frozen=True, slots=True)
class Topic(Record):
    """A query with its nuggets: one line of a nuggets file. TREC RAG 2025 has no queries: ""."""

    qid: str = stored(Row.name)
    query: str = stored(Row.optional_text, is_optional=True)
    nuggets: tuple[Nugget, ...] = stored(_nuggets)

    def to_row(self) -> dict[str, Any]:
        """One object of a nuggets file; nuggetizer writes the query first."""
        is_new = self.query and self.source is None
        return {**({"query": self.query} if is_new else {}), **Record.to_row(self)}


@dataclass(frozen=True, slots=True)
class Sentence(Record):
    """A sentence of an answer; a citation is a position in ``references``, or an id."""

    text: str = stored(Row.text)
    citations: tuple[int | str, ...] = stored(Row.names, default=())


@dataclass(frozen=True, slots=True)
class Answer(Record):
    """What a run answered to a topic: one line of a TREC RAG run.

    ``run_id`` is "" if only the file names the run.
    """

    run_id: str = stored(Row.optional_name, is_optional=True)
    topic_id: str = stored(Row.name, "topic_id", "qid")
    topic: str = stored(Row.optional_text, "topic", "query", is_optional=True)
    references: tuple[int | str, ...] = stored(Row.names)
    response_length: int | None = stored(Row.whole_number)
    answer: tuple[Sentence, ...] = stored(_sentences)

    @property
    def qid(self) -> str:
        """The topic, by the name it has in the other files."""
        return self.topic_id

    @property
    def text(self) -> str:
        """The sentences as one text: the passage that is judged."""
        return " ".join(sentence.text for sentence in self.answer)


@dataclass(frozen=True, slots=True)
class Assignment(Record):
    """The nuggets of a topic with labels for the answer of one run."""

    query: str = stored(Row.optional_text)
    qid: str = stored(Row.name)
    answer_text: str = stored(Row.optional_text)
    response_length: int | None = stored(Row.whole_number)
    run_id: str = stored(Row.optional_name, is_optional=True)
    nuggets: tuple[Nugget, ...] = stored(_nuggets, write=_labelled_rows)

    @property
    def unit(self) -> str:
        """The run."""
        return self.run_id


@dataclass(frozen=True, slots=True)
class PassageAssignment(Record):
    """The retrieval form: the nuggets of a topic with labels for one passage."""

    query: str = stored(Row.optional_text, "text", "query")
    qid: str = stored(Row.name)
    candidate_text: str = stored(Row.optional_text)
    docid: str = stored(Row.name)
    nuggets: tuple[Nugget, ...] = stored(_nuggets, write=_labelled_rows)

    @property
    def unit(self) -> str:
        """The passage."""
        return self.docid


@dataclass(frozen=True, slots=True)
class Block(Record):
    """A passage of the original package with the nuggets of its topic, without importance."""

    qid: str = stored(Row.name)
    query: str = stored(Row.optional_text, is_optional=True)
    block: tuple[int | str, ...] = stored(Row.names)
    nuggets: tuple[Nugget, ...] = stored(_nuggets, "block_nuggets_assignment")

    @property
    def text(self) -> str:
        """The text that is judged: the first of the block."""
        return str(self.block[0]) if self.block else ""


@dataclass(frozen=True, slots=True)
class Gold(Record):
    """The labels of a topic's nuggets over all its passages."""

    qid: str = stored(Row.name)
    nuggets: tuple[Nugget, ...] = stored(_nuggets, "global_nuggets_assignment")


TextRecord: TypeAlias = Assignment | PassageAssignment | Block
"""A text with its nuggets: what can be judged."""
Labelled: TypeAlias = TextRecord | Gold
"""Nuggets of one topic with labels: for one text, or for the topic as a whole."""


def nugget_ids(qid: str, nuggets: Iterable[Nugget]) -> list[str]:
    """A stable id for each nugget of a topic: a hash of qid, text and how often the text came before.

    So the id does not depend on the order of different nuggets, and the second of two equal ones has
    its own: nuggets are never merged by their text.
    """
    seen: Counter[str] = Counter()
    ids = []
    for nugget in nuggets:
        key = f"{len(qid)}:{qid}{seen[nugget.text]}:{nugget.text}"
        ids.append(hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:16])
        seen[nugget.text] += 1
    return ids


def with_labels(nuggets: Sequence[Nugget], labels: Sequence[Label | None]) -> tuple[Nugget, ...]:
    """The nuggets with these labels in their order."""
    return tuple(
        replace(nugget, assignment=label) for nugget, label in zip(nuggets, labels, strict=True)
    )
