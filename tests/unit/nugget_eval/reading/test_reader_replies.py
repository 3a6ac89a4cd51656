"""Replies in files, each with the reading a careful person would accept.

A label that such a person would not read is never given; of the rest, few may be refused. Real replies
of a judge are read one by one, if the folder with them is there.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nugget_eval.common import LABELS, parse_labels_multi_format, read_labels
from tests.support.paths import DATA, ROOT

FOLDER = DATA / "nuggets/replies"
LETTERS = dict(zip("SPN", LABELS, strict=True))
MIN_RIGHT = {"written": 0.90, "model": 0.99, "kinds": 0.92}
REAL = ROOT.parent / "shared/data/real/wice_judge_replies.jsonl.gz"


def rows(file: Path) -> Iterator[dict[str, Any]]:
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    kinds = content if isinstance(content, dict) else {file.stem: content}
    for replies in kinds.values():
        yield from replies


@pytest.mark.parametrize("name", MIN_RIGHT)
def test_reads_as_a_careful_person_does(name: str) -> None:
    right, refused, wrong = 0, [], []
    for row in rows(FOLDER / f"{name}.yaml"):
        expected = tuple(LETTERS.get(letter) for letter in row["reads"])
        options = {"format_type": row.get("asked"), **row.get("options", {})}
        reading = read_labels(row["reply"], row.get("n", len(expected)), **options)
        assert bool(reading.reason) == (reading.error_type is not None)
        assert (reading.error_type is None) == (None not in reading.labels)
        if reading.labels == expected:
            right += 1
        elif any(a not in (None, b) for a, b in zip(reading.labels, expected, strict=True)):
            wrong.append((row["reply"], reading))
        else:
            refused.append((row["reply"], reading))
    assert not wrong
    assert right >= MIN_RIGHT[name] * (right + len(refused)), refused


def test_the_tuple_says_the_same() -> None:
    for row in (row for file in FOLDER.glob("*.yaml") for row in rows(file)):
        if {"asked", "options"} & set(row):
            continue
        count = row.get("n", len(row["reads"]))
        reading = read_labels(row["reply"], count)
        labels, found, format_used, error = parse_labels_multi_format(row["reply"], count)
        assert labels == (list(reading.labels) if any(reading.labels) else None)
        assert (found, format_used, error) == (
            reading.found,
            reading.format_used,
            reading.error_type,
        )
        assert found >= sum(label is not None for label in reading.labels)


@pytest.mark.skipif(not REAL.exists(), reason="shared/data/real is not there")
def test_real_replies_of_a_judge_with_explanations_are_all_read() -> None:
    meant = dict(zip(("supported", "partially_supported", "not_supported"), LABELS, strict=True))
    with gzip.open(REAL, "rt", encoding="utf-8") as lines:
        replies = [json.loads(line) for line in lines]
    unlike = [
        row["response"]
        for row in replies
        if read_labels(row["response"], 1, data=(row["prompt"],)).labels
        != tuple(meant[answer] for answer in re.findall(r"<answer>(.*?)</answer>", row["response"]))
    ]
    assert len(replies) == 300
    assert not unlike
