"""What is judged, from whichever files it comes: a ``NuggetItem`` for each text with its nuggets.

In: a nuggets file with answers of runs, or a file whose lines hold both (blocks, retrieved passages,
assignments). Out: items, and what the user should know about topics that only one file has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lm_eval.errors import DataError, UsageError, listing
from nugget_eval.config import DataConfig
from nugget_eval.data.files import (
    load_labels,
    match_topics,
    read_answers,
    read_labelled,
    read_topics,
)
from nugget_eval.data.records import (
    Answer,
    Assignment,
    Block,
    Gold,
    Labelled,
    Nugget,
    PassageAssignment,
    TextRecord,
    Topic,
    nugget_ids,
    with_labels,
)
from nugget_eval.reading.spellings import Label


@dataclass(frozen=True)
class NuggetItem:
    """A text and the nuggets that are looked for in it."""

    qid: str
    unit: str
    """The run or passage; "" for a block, of which a topic has several."""
    query: str
    passage: str
    nuggets: tuple[Nugget, ...]
    record: TextRecord = field(repr=False)
    """What is written when the labels are known."""
    gold: tuple[Label | None, ...] = ()
    """What people said of each nugget; empty if nobody did."""

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.unit} {self.qid}".strip()

    def labelled(self, labels: Sequence[Label | None]) -> TextRecord:
        """The record with these labels."""
        return replace(self.record, nuggets=with_labels(self.nuggets, labels))


@dataclass(frozen=True)
class Loaded:
    """The items of a run, its topics if there is a nuggets file, and notes for the user."""

    items: list[NuggetItem]
    topics: list[Topic] | None
    notes: list[str]
    gold: list[Gold] = field(default_factory=list)
    """Labels of whole topics, over all their passages."""


def load_items(data: DataConfig) -> Loaded:
    """The items that the files of ``data`` hold, with gold labels if there are any."""
    if data.items:
        if data.nuggets or data.answers:
            raise UsageError(
                "--items holds texts with their nuggets, so --nuggets and --answers cannot be "
                "given with it. Give either --items, or both of the others."
            )
        loaded = _from_items(data.items)
    elif data.nuggets and data.answers:
        loaded = _from_answers(data.nuggets, data.answers)
    else:
        raise UsageError(_missing_files(data))
    if data.gold:
        loaded = _with_gold(loaded, data.gold)
    return _checked(loaded, data.limit)


def _missing_files(data: DataConfig) -> str:
    """What to say if the files do not hold both texts and nuggets."""
    if data.nuggets:
        return "--answers FILE is missing: the texts in which the nuggets are looked for."
    if data.answers:
        return "--nuggets FILE is missing: the nuggets to look for in the answers."
    return (
        "Nothing to judge. Give --nuggets FILE and --answers FILE, or --items FILE with blocks or "
        "passages."
    )


def _from_answers(nuggets: str, answers: Sequence[str]) -> Loaded:
    topics = list(read_topics(nuggets))
    if not topics:
        raise DataError(f"{nuggets} holds no topics. Each line needs a qid and a list of nuggets.")
    by_qid = {topic.qid: topic for topic in topics}
    items: list[NuggetItem] = []
    notes: list[str] = []
    seen: dict[tuple[str, str], str] = {}
    for path in answers:
        run = list(read_answers(path))
        if not run:
            raise DataError(
                f"{path} holds no answers. Each line is the answer of a run to a topic."
            )
        notes += match_topics(by_qid, [answer.qid for answer in run], names=(nuggets, path))
        for answer in run:
            _refuse_second(seen, (answer.run_id, answer.qid), path)
            if answer.qid in by_qid:
                items.append(_answer_item(by_qid[answer.qid], answer))
    return Loaded(items, topics, notes)


def _refuse_second(seen: dict[tuple[str, str], str], key: tuple[str, str], path: str) -> None:
    if key in seen:
        raise DataError(
            f"{path}: run {key[0]!r} answers topic {key[1]!r}, which {seen[key]} also has. Give each "
            "run once."
        )
    seen[key] = path


def _answer_item(topic: Topic, answer: Answer) -> NuggetItem:
    query = topic.query or answer.topic
    record = Assignment(
        query, topic.qid, answer.text, answer.response_length, answer.run_id, topic.nuggets
    )
    return replace(item_of(record), gold=())  # a label in a nuggets file belongs to no answer


def _from_items(paths: Sequence[str]) -> Loaded:
    items: list[NuggetItem] = []
    for path in paths:
        records = list(read_labelled(path))
        if not records:
            raise DataError(f"{path} holds no items. Each line is a text with its nuggets.")
        for record in records:
            if isinstance(record, Gold):
                raise DataError(
                    f"{path}: topic {record.qid!r} has labels but no text to judge. Give such a file "
                    "with --gold."
                )
            items.append(item_of(record))
    return Loaded(items, None, [])


def item_of(record: TextRecord) -> NuggetItem:
    """The item in a record; labels that the record already has are gold."""
    if isinstance(record, Block):
        text = record.text
    elif isinstance(record, PassageAssignment):
        text = record.candidate_text
    else:
        text = record.answer_text
    gold = tuple(nugget.assignment for nugget in record.nuggets)
    nuggets = with_labels(record.nuggets, [None] * len(gold))
    return NuggetItem(record.qid, record.unit, record.query, text, nuggets, record, _if_any(gold))


def _if_any(labels: tuple[Label | None, ...]) -> tuple[Label | None, ...]:
    return labels if any(labels) else ()


# Gold


def _with_gold(loaded: Loaded, path: str) -> Loaded:
    """The items with the labels of a file, found by run (or passage) and topic.

    Labels of whole topics are kept apart if the items are blocks; if the items come from a single
    run, they are the labels of the items.
    """
    records = load_labels(path)
    qids = [item.qid for item in loaded.items]
    unmatched = match_topics(qids, [gold.qid for gold in records], names=("the items", path))
    notes = [*loaded.notes, *unmatched]
    if any(isinstance(item.record, Block) for item in loaded.items):
        whole = [record for record in records if isinstance(record, Gold)]
        if not whole:
            raise DataError(
                f"{path} has no global_nuggets_assignment, the labels of a topic over all its blocks."
            )
        return Loaded(loaded.items, loaded.topics, notes, whole)
    labels = _labels_by_key(records, path)
    is_single = len({item.unit for item in loaded.items}) == 1
    items = [replace(item, gold=_gold_of(item, labels, is_single)) for item in loaded.items]
    if not any(item.gold for item in items):
        raise DataError(
            f"{path} labels no nugget of the items: the topics match, but the texts of the nuggets or "
            "the names of the runs do not. Use the file that was made for these nuggets."
        )
    return Loaded(items, loaded.topics, notes)


def _labels_by_key(
    records: Iterable[Labelled], path: str
) -> dict[tuple[str, str], Mapping[str, Label | None]]:
    labels: dict[tuple[str, str], Mapping[str, Label | None]] = {}
    for record in records:
        key = (record.unit, record.qid)
        if key in labels:
            raise DataError(
                f"{path} has two sets of labels for {listing([part for part in key if part])}. Remove "
                "one of them."
            )
        ids = nugget_ids(record.qid, record.nuggets)
        labels[key] = dict(zip(ids, (n.assignment for n in record.nuggets), strict=True))
    return labels


def _gold_of(
    item: NuggetItem, labels: Mapping[tuple[str, str], Mapping[str, Label | None]], is_single: bool
) -> tuple[Label | None, ...]:
    known = labels.get((item.unit, item.qid))
    if known is None and is_single:
        known = labels.get(("", item.qid))
    return _if_any(tuple((known or {}).get(key) for key in nugget_ids(item.qid, item.nuggets)))


# Checks


def _checked(loaded: Loaded, limit: int | None) -> Loaded:
    items = loaded.items[:limit]
    notes = list(loaded.notes)
    empty = [item.name for item in items if not item.nuggets]
    if empty:
        if len(empty) == len(items):
            raise DataError("No item has any nuggets, so there is nothing to judge.")
        notes.append(f"{len(empty)} items have no nuggets and are not judged: {listing(empty, 5)}.")
    blank = [item.name for item in items if item.nuggets and not item.passage.strip()]
    if blank:
        notes.append(f"{len(blank)} items have an empty text: {listing(blank, 5)}.")
    for item in items:
        for number, nugget in enumerate(item.nuggets, 1):
            if not nugget.text.strip():
                raise DataError(f"Item {item.name}: nugget {number} is empty. Give it a text.")
    twice = [item.name for item in items if _has_twice(item)]
    if twice:
        notes.append(
            f"{len(twice)} items have the same nugget more than once; each is judged and counted: "
            f"{listing(twice, 5)}."
        )
    return Loaded(items, loaded.topics, notes, loaded.gold)


def _has_twice(item: NuggetItem) -> bool:
    texts = [nugget.text for nugget in item.nuggets]
    return len(set(texts)) < len(texts)
