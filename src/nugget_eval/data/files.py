"""Files of a nugget evaluation in and out, a record at a time, and what two files have in common.

Objects of castorini's nuggetizer come back as they were: unknown keys, values and their order are kept.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lm_eval.errors import DataError, listing
from lm_eval.support.files import output_file
from nugget_eval.data.records import (
    Answer,
    Assignment,
    Block,
    Gold,
    Labelled,
    Nugget,
    PassageAssignment,
    Topic,
    nugget_ids,
    with_labels,
)
from nugget_eval.data.rows import Record, Row, read_rows
from nugget_eval.files import ASSIGNMENTS
from nugget_eval.reading.spellings import RANK, Label

T = TypeVar("T")


def read_topics(path: str | Path) -> Iterator[Topic]:
    """The topics of a nuggets file. A qid that occurs twice is an error."""
    return _read(path, _topic, lambda topic: (topic.qid,))


def read_answers(path: str | Path) -> Iterator[Answer]:
    """The answers of a TREC RAG run. A run that answers a topic twice is an error."""
    return _read(path, _answer, lambda answer: (answer.run_id, answer.topic_id))


def read_assignments(path: str | Path) -> Iterator[Assignment | PassageAssignment]:
    """Labels for answers or for retrieved passages (lines with a ``docid``)."""
    return _read(path, _assignment, lambda item: (item.unit, item.qid))


def read_labelled(path: str | Path) -> Iterator[Labelled]:
    """The lines of any file with labels, each by the key that holds its nuggets."""
    return _read(path, _labelled, None)


def load_labels(path: str | Path) -> list[Labelled]:
    """The lines of a file with labels; an error if it holds nuggets and none was ever labelled."""
    records = list(read_labelled(path))
    rows = [nugget.to_row() for record in records for nugget in record.nuggets]
    if rows and not any("assignment" in row for row in rows):
        raise DataError(
            f"{path} holds no labels: none of its nuggets has an `assignment`. Label them with "
            f"`nugget-eval run`, and give the {ASSIGNMENTS} that it writes."
        )
    return records


def write_records(path: str | Path, records: Iterable[Record]) -> None:
    """Write the records as JSONL; the old file stays if that fails.

    ``records`` may be a generator that reads the file that is being written.
    """
    write_rows(path, (record.to_row() for record in records))


def write_rows(path: str | Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write objects as JSONL."""
    with output_file(path) as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def match_topics(
    first: Iterable[str], second: Iterable[str], *, names: tuple[str, str]
) -> list[str]:
    """A sentence for each of two files that has topics the other lacks; an error if they share none.

    ``names`` are what messages call the two: their paths, say.
    """
    left, right = dict.fromkeys(first), dict.fromkeys(second)
    if not left.keys() & right.keys():
        raise DataError(
            f"{names[0]} and {names[1]} have no topic in common. The first has "
            f"{listing(left, 3)}; the second has {listing(right, 3)}. Check that both belong to the "
            "same collection and spell their ids alike."
        )
    notes = []
    for has, lacks, qids in (
        (*names, [qid for qid in left if qid not in right]),
        (*names[::-1], [qid for qid in right if qid not in left]),
    ):
        if qids:
            topics = "topic" if len(qids) == 1 else "topics"
            notes.append(f"{len(qids)} {topics} of {has} not in {lacks}: {listing(qids, 5)}.")
    return notes


@dataclass(frozen=True, slots=True)
class AlignedLabels:
    """The labels of two files side by side, a nugget of a topic and run at a time."""

    gold: tuple[Label | None, ...]
    judged: tuple[Label | None, ...]
    topics: tuple[str, ...]
    not_judged: int
    """Nuggets of gold that the other file does not have; they are in the lists, without a label."""
    not_in_gold: int
    """Nuggets that gold does not have; they cannot be compared and are in no list."""


def align_labels(gold: Iterable[Labelled], judged: Iterable[Labelled]) -> AlignedLabels:
    """Put labels side by side by run or passage, topic and nugget; an error if nothing fits.

    A nugget of gold that was never judged stays in, without a label: it counts against coverage.
    """
    people, judge = _by_nugget(gold, "gold"), _by_nugget(judged, "the judged labels")
    common = people.keys() & judge.keys()
    if not common:
        raise DataError(
            "Gold and the judged labels have no nugget in common. Gold has "
            f"{_examples(people)}; the other has {_examples(judge)}. Check run ids, topic ids and that "
            "the texts of the nuggets are the same."
        )
    return AlignedLabels(
        tuple(people.values()),
        tuple(judge.get(key) for key in people),
        tuple(qid for _, qid, _ in people),
        len(people) - len(common),
        len(judge) - len(common),
    )


def _by_nugget(items: Iterable[Labelled], what: str) -> dict[tuple[str, str, str], Label | None]:
    labels: dict[tuple[str, str, str], Label | None] = {}
    seen: set[tuple[str, str]] = set()
    for item in items:
        if (item.unit, item.qid) in seen:
            where = f"topic {item.qid!r}" + (f" of {item.unit!r}" if item.unit else "")
            raise DataError(
                f"{where} occurs twice in {what}. Combine passages of one topic with "
                "best_over_passages, or remove one of the two."
            )
        seen.add((item.unit, item.qid))
        for key, nugget in zip(nugget_ids(item.qid, item.nuggets), item.nuggets, strict=True):
            labels[item.unit, item.qid, key] = nugget.assignment
    return labels


def _examples(keys: Iterable[tuple[str, str, str]]) -> str:
    names = dict.fromkeys(f"{unit}/{qid}" if unit else qid for unit, qid, _ in keys)
    return listing(names, 3)


def one_per_topic(items: Sequence[Labelled]) -> Sequence[Labelled]:
    """One item for each run and topic: answers as they are, passages put together."""
    if all(isinstance(item, Assignment) for item in items):
        return items
    return best_over_passages(items)


def best_over_passages(items: Iterable[Labelled]) -> list[Gold]:
    """One item for each topic, whose nuggets have the best label over its blocks or passages.

    A passage whose label is missing might have been better than the others, so the best is known only
    if it is ``support`` or none is missing; else it is None. A passage without the nugget is ignored.
    """
    topics: dict[str, dict[str, Nugget]] = defaultdict(dict)
    labels: dict[tuple[str, str], list[Label | None]] = defaultdict(list)
    for item in items:
        for key, nugget in zip(nugget_ids(item.qid, item.nuggets), item.nuggets, strict=True):
            topics[item.qid].setdefault(key, nugget)
            labels[item.qid, key].append(nugget.assignment)
    return [
        Gold(
            qid,
            with_labels(list(nuggets.values()), [_best(labels[qid, key]) for key in nuggets]),
        )
        for qid, nuggets in topics.items()
    ]


def _best(labels: list[Label | None]) -> Label | None:
    best = max(labels, key=lambda label: -1 if label is None else RANK[label])
    return best if best == "support" or None not in labels else None


def _topic(row: Row) -> Topic:
    if "answer" in row.values and "nuggets" not in row.values:
        raise row.error(
            "this is the answer of a run, not a topic with its nuggets. Give such a file with --answers."
        )
    return Topic.of(row)


def _answer(row: Row) -> Answer:
    if "nuggets" in row.values and "answer" not in row.values:
        raise row.error(
            "these are nuggets, not the answer of a run. Give such a file with --nuggets, or with "
            "--items if it also holds the texts."
        )
    return Answer.of(row)


def _assignment(row: Row) -> Assignment | PassageAssignment:
    return PassageAssignment.of(row) if "docid" in row.values else Assignment.of(row)


def _labelled(row: Row) -> Labelled:
    names = ("nuggets", "block_nuggets_assignment", "global_nuggets_assignment")
    if "answer" in row.values and not any(name in row.values for name in names):
        raise row.error(
            "this is the answer of a run, without nuggets. Judge it with "
            "`nugget-eval run --nuggets FILE --answers FILE`."
        )
    if {"reply", "expected_count"} <= row.values.keys():
        raise row.error(
            f"this is a reply of a judge. The labels are in {ASSIGNMENTS} in the same folder."
        )
    key = row.key(*names)
    if key == "nuggets":
        return _assignment(row)
    return Block.of(row) if key.startswith("block") else Gold.of(row)


def _read(
    path: str | Path, build: Callable[[Row], T], key: Callable[[T], tuple[str, ...]] | None
) -> Iterator[T]:
    first_line: dict[tuple[str, ...], str] = {}
    for row in read_rows(path):
        record = build(row)
        if key is not None:
            name = key(record)
            if name in first_line:
                what = ", ".join(part for part in name if part)
                raise row.error(f"{what!r} is already there ({first_line[name]}). Remove one.")
            first_line[name] = row.place
        yield record
