"""What the files of a nugget evaluation hold, as frozen records; ``runs`` reads and writes them.

A record that was read keeps the object it came from: keys unknown here survive, in their order, when it
is written again. A label that is not known is None, whatever the file calls that.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args

from nugget_eval.data.rows import Row, Source, listed, merged, shown, spelling
from nugget_eval.reading import LABELS, Label, label_of

Importance: TypeAlias = Literal["vital", "okay"]
IMPORTANCES: tuple[Importance, ...] = get_args(Importance)
MISSING = ("", "failed", "error")
"""What files write, beside null, where a judgement failed."""
ALL = "all"
"""The ``qid`` of the line of a metrics file that holds the means."""


class Labelled(Protocol):
    """Nuggets of one topic with labels, for one run or passage, or for the topic as a whole."""

    @property
    def qid(self) -> str: ...
    @property
    def unit(self) -> str:
        """The run or passage that was judged; "" for the topic as a whole."""

    @property
    def nuggets(self) -> tuple[Nugget, ...]: ...


@dataclass(frozen=True, slots=True)
class Nugget:
    """One fact. A file that does not say gives None for ``importance`` and ``assignment``."""

    text: str
    importance: Importance | None = "vital"
    assignment: Label | None = None
    source: Source | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, row: Row) -> Nugget:
        """The nugget in ``row``; an unknown label or importance is an error with the nearest valid."""
        importance = row.one_of("importance", IMPORTANCES, MISSING)
        return cls(row.text("text"), cast("Importance | None", importance), _label(row), row.source)

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
            "null where none is known."
        )
    return cast("Label | None", row.one_of("assignment", LABELS, MISSING))


@dataclass(frozen=True, slots=True)
class Topic:
    """A query with its nuggets: one line of a nuggets file."""

    qid: str
    query: str
    nuggets: tuple[Nugget, ...]
    source: Source | None = field(default=None, compare=False, repr=False)
    unit: str = field(default="", init=False, repr=False)

    @classmethod
    def of(cls, row: Row) -> Topic:
        """The topic in ``row``; files of TREC RAG 2025 have no query, which is then ""."""
        return cls(row.name("qid"), row.optional_text("query"), _nuggets(row), row.source)

    def to_row(self) -> dict[str, Any]:
        """One object of a nuggets file."""
        return merged(self.source, {"query": self.query or None, "qid": self.qid, **_rows(self)})


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an answer with the places of its citations in ``references``, or their ids."""

    text: str
    citations: tuple[int | str, ...] = ()
    source: Source | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, row: Row) -> Sentence:
        """The sentence in ``row``."""
        return cls(row.text("text"), row.names("citations"), row.source)

    def to_row(self) -> dict[str, Any]:
        """One object of the list ``answer``."""
        citations = listed(self.citations, self.source)
        return merged(self.source, {"text": self.text, "citations": citations})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run answered to a topic: one line of a TREC RAG run."""

    run_id: str
    topic_id: str
    topic: str
    references: tuple[int | str, ...]
    response_length: int | None
    answer: tuple[Sentence, ...]
    source: Source | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, row: Row) -> Answer:
        """The answer in ``row``; ``run_id`` is "" where the file leaves it to its name."""
        return cls(
            row.name("run_id") if row.values.get("run_id") is not None else "",
            row.name("topic_id", "qid"),
            row.optional_text("topic", "query"),
            row.names("references"),
            row.whole_number("response_length"),
            tuple(Sentence.of(item) for item in row.rows("answer")),
            row.source,
        )

    @property
    def qid(self) -> str:
        """The topic, by the name that the other files have for it."""
        return self.topic_id

    @property
    def text(self) -> str:
        """The sentences as one text: the passage that is judged."""
        return " ".join(sentence.text for sentence in self.answer)

    def to_row(self) -> dict[str, Any]:
        """One object of a run."""
        values = {
            "run_id": self.run_id or None,
            spelling(self.source, "topic_id", "qid"): self.topic_id,
            spelling(self.source, "topic", "query"): self.topic or None,
            "references": listed(self.references, self.source),
            "response_length": self.response_length,
            "answer": [sentence.to_row() for sentence in self.answer],
        }
        return merged(self.source, values)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The nuggets of a topic with labels for the answer of one run."""

    query: str
    qid: str
    answer_text: str
    response_length: int | None
    run_id: str
    nuggets: tuple[Nugget, ...]
    source: Source | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, row: Row) -> Assignment:
        """The assignment in ``row``."""
        return cls(
            row.optional_text("query"),
            row.name("qid"),
            row.optional_text("answer_text"),
            row.whole_number("response_length"),
            row.name("run_id") if row.values.get("run_id") is not None else "",
            _nuggets(row),
            row.source,
        )

    @property
    def unit(self) -> str:
        """The run."""
        return self.run_id

    def to_row(self) -> dict[str, Any]:
        """One object of an assignments file, in the order of nuggetizer's keys."""
        values = {
            "query": self.query or (None if self.source else ""),
            "qid": self.qid,
            "answer_text": self.answer_text or (None if self.source else ""),
            "response_length": self.response_length,
            "run_id": self.run_id or None,
            **_rows(self, is_new=self.source is None),
        }
        return merged(self.source, values)


@dataclass(frozen=True, slots=True)
class PassageAssignment:
    """The retrieval form: the nuggets of a topic with labels for one passage."""

    query: str
    qid: str
    candidate_text: str
    docid: str
    nuggets: tuple[Nugget, ...]
    source: Source | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, row: Row) -> PassageAssignment:
        """The assignment in ``row``; nuggetizer has the query under ``text``."""
        return cls(
            row.optional_text("text", "query"),
            row.name("qid"),
            row.optional_text("candidate_text"),
            row.name("docid"),
            _nuggets(row),
            row.source,
        )

    @property
    def unit(self) -> str:
        """The passage."""
        return self.docid

    def to_row(self) -> dict[str, Any]:
        """One object of an assignments file for retrieved passages."""
        values = {
            spelling(self.source, "text", "query"): self.query or (None if self.source else ""),
            "qid": self.qid,
            "candidate_text": self.candidate_text or (None if self.source else ""),
            "docid": self.docid,
            **_rows(self, is_new=self.source is None),
        }
        return merged(self.source, values)


@dataclass(frozen=True, slots=True)
class Block:
    """A passage of the original package with the nuggets of its topic; its first text is judged."""

    qid: str
    query: str
    block: tuple[int | str, ...]
    nuggets: tuple[Nugget, ...]
    source: Source | None = field(default=None, compare=False, repr=False)
    unit: str = field(default="", init=False, repr=False)

    @classmethod
    def of(cls, row: Row) -> Block:
        """The item in ``row``. Such items say nothing of importance."""
        nuggets = _nuggets(row, "block_nuggets_assignment")
        query = row.optional_text("query")
        return cls(row.name("qid"), query, row.names("block"), nuggets, row.source)

    @property
    def text(self) -> str:
        """The text that is judged."""
        return str(self.block[0]) if self.block else ""

    def to_row(self) -> dict[str, Any]:
        """One item of the original package."""
        values = {
            "qid": self.qid,
            "query": self.query or None,
            "block": listed(self.block, self.source),
        }
        return merged(self.source, {**values, **_rows(self, "block_nuggets_assignment")})


@dataclass(frozen=True, slots=True)
class Gold:
    """The labels of a topic's nuggets over all its passages."""

    qid: str
    nuggets: tuple[Nugget, ...]
    source: Source | None = field(default=None, compare=False, repr=False)
    unit: str = field(default="", init=False, repr=False)

    @classmethod
    def of(cls, row: Row) -> Gold:
        """The gold item in ``row``."""
        return cls(row.name("qid"), _nuggets(row, "global_nuggets_assignment"), row.source)

    def to_row(self) -> dict[str, Any]:
        """One gold item of the original package."""
        return merged(self.source, {"qid": self.qid, **_rows(self, "global_nuggets_assignment")})


@dataclass(frozen=True, slots=True)
class Metrics:
    """Scores of one topic, or their means under the qid ``all``; None is an undefined score."""

    qid: str
    scores: Mapping[str, float | None]
    source: Source | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, row: Row) -> Metrics:
        """The scores in ``row``: every key that ends in ``_score``."""
        scores = {key: row.share(key) for key in row.values if key.endswith("_score")}
        if not scores:
            row.key("strict_vital_score")
        return cls(row.name("qid"), scores, row.source)

    def to_row(self) -> dict[str, Any]:
        """One object of a metrics file; an undefined score is null."""
        row = merged(self.source, {"qid": self.qid})
        changed = {key: score for key, score in self.scores.items() if row.get(key, "") != score}
        return {**row, **changed}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A line of a qrels file: the grade of a passage for a topic."""

    qid: str
    docid: str
    grade: int
    iteration: str = "0"
    line: str = field(default="", compare=False, repr=False)


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


def _nuggets(row: Row, name: str = "nuggets") -> tuple[Nugget, ...]:
    return tuple(Nugget.of(item) for item in row.rows(name))


def _rows(record: Labelled, name: str = "nuggets", *, is_new: bool = False) -> dict[str, Any]:
    rows = [nugget.to_row() for nugget in record.nuggets]
    for row in rows if is_new else ():
        row.setdefault(
            "assignment", None
        )  # other tools expect the key, also where no label is known
    return {name: rows}
