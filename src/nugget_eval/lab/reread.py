"""Reads a judge's stored replies again with another reader and combines labels as the judge did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lm_eval.errors import UsageError
from lm_eval.formats.readers import BoundReader, read
from lm_eval.lab.reread.items import ReadAgain, Rereading, Verdict
from nugget_eval.judge.canaries import Canary
from nugget_eval.judge.voting import combine, median_label
from nugget_eval.lab.nuggets import JudgedFolder, JudgedNugget, Key
from nugget_eval.prompts import get_output_format
from nugget_eval.reading import LABELS, Label

READER_NAME = "nugget_labels"


def reread_folder(folder: JudgedFolder, reader: BoundReader) -> Rereading:
    """Every nugget with its label before and after."""
    notes = list(folder.notes())
    if len(folder.summary["judges"]) > 1:
        notes.append("several judges: their labels are combined as before, by the new readings")
    return Rereading(folder.metric, _items(folder, reader), folder.format()["reader"], notes)


def _items(folder: JudgedFolder, reader: BoundReader) -> Iterator[ReadAgain]:
    votes: dict[Key, dict[tuple[str, int], Label]] = defaultdict(dict)
    asked: dict[Key, set[tuple[str, int]]] = defaultdict(set)
    verdicts: dict[Key, Verdict] = {}
    for row in folder.replies("judge", "permutation", "expected_count", "texts"):
        labels, how = _labels(row, reader)
        voter = (str(row["judge"]), int(row["permutation"]))
        for key, label in zip(folder.keys_of(row), labels, strict=True):
            asked[key].add(voter)
            if label is not None:
                votes[key].setdefault(voter, label)
            if key not in verdicts or not verdicts[key].is_read:
                verdicts[key] = how if label is None else replace(how, answer=label, reason=None)
    after = _combined(folder, asked, votes)
    for nugget in folder.nuggets():
        how = verdicts.get(nugget.key, Verdict(0.0, None, reason="missing"))
        yield _item(folder, nugget, after.get(nugget.key), how)


def _item(
    folder: JudgedFolder, nugget: JudgedNugget, label: Label | None, how: Verdict
) -> ReadAgain:
    row = nugget.row or {}
    span = row.get("span")
    return ReadAgain(
        f"topic {nugget.qid}, {nugget.unit} nugget {nugget.key[1] + 1}".replace(",  ", ", "),
        nugget.number,
        str(row.get("reply", "")),
        nugget.gold or "unknown",
        Verdict(
            nugget.score,
            nugget.label,
            row.get("format_used"),
            None if span is None else (int(span[0]), int(span[1])),
            None if nugget.label is not None else str(row.get("problem") or "missing"),
        ),
        Verdict(
            folder.score(label, nugget.gold),
            label,
            None if label is None else how.rule,
            None if label is None else how.span,
            None if label is not None else how.reason or "missing",
        ),
        nugget.qid,
    )


def _labels(row: Mapping[str, Any], reader: BoundReader) -> tuple[list[Label | None], Verdict]:
    """The labels of a reply, one per nugget it was asked about, and how they were read."""
    canaries = [Canary(**canary) for canary in row.get("canaries") or ()]
    count = int(row["expected_count"])
    reply = str(row.get("reply") or "")
    if reader.name == READER_NAME:
        asked_for = get_output_format(dict(reader.options).get("format_type") or "adaptive")
        reading = asked_for.read(reply, count)
        labels: Sequence[Any] = reading.labels
        how = Verdict(0.0, None, reading.format_used, reading.span, reading.error_type)
    else:
        labels, how = _by_other(row, reader, count, reply)
    if any(canary.is_alarmed_by(labels[canary.place]) for canary in canaries):
        return [None] * len(row["nuggets"]), Verdict(0.0, None, reason="canary")
    taken = {canary.place for canary in canaries}
    kept = [label for index, label in enumerate(labels) if index not in taken]
    if row.get("problem") == "snippet":  # a label that its snippet did not bear out stays void
        kept = [None if was is None else now for was, now in zip(row["labels"], kept, strict=True)]
    return kept, how


def _by_other(
    row: Mapping[str, Any], reader: BoundReader, count: int, reply: str
) -> tuple[list[Any], Verdict]:
    """The labels by any other reader, which must give a list of labels."""
    reading = read(reply, (reader,), choices=list(row["texts"]), finish=row.get("finish"))
    value = reading.value
    if not reading.is_answer:
        return [None] * count, Verdict(0.0, None, reason=reading.reason)
    if not isinstance(value, list) or any(label not in LABELS for label in value):
        raise UsageError(
            f"Reader {reader.name!r} gives {value!r}, which is no list of labels. The replies of judges "
            f"are read by --scorer {READER_NAME}, or --scorer {READER_NAME},format_type=csv."
        )
    padded = [*value, *[None] * count][:count]
    return padded, Verdict(0.0, None, reading.rule, reading.span)


def _combined(
    folder: JudgedFolder,
    asked: Mapping[Key, set[tuple[str, int]]],
    votes: Mapping[Key, Mapping[tuple[str, int], Label]],
) -> dict[Key, Label | None]:
    """The label of each nugget: the median over orders, then combined over judges as in the run."""
    judges = [str(described["name"]) for described in folder.summary["judges"]]
    keys = sorted(asked)
    table = [
        [
            median_label(
                [votes.get(key, {}).get(voter) for voter in sorted(asked[key]) if voter[0] == judge]
            )
            for judge in judges
        ]
        for key in keys
    ]
    how = str(folder.summary["config"]["evaluation"].get("combine", "median"))
    labels = [row[0] for row in table] if len(judges) == 1 else combine(table, how)
    return dict(zip(keys, labels, strict=True))
