"""Replies in files, each with the reading a careful person would accept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nugget_eval.common import LABELS, parse_labels_multi_format, read_labels
from tests.support.paths import DATA

FOLDER = DATA / "nuggets/replies"
LETTERS = dict(zip("SPN", LABELS, strict=True))


def rows(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The replies of a file, each with its kind; a plain list is of one kind."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    kinds = content if isinstance(content, dict) else {file.stem: content}
    for kind, replies in kinds.items():
        for number, row in enumerate(replies, 1):
            yield f"{kind}-{number}", row


ROWS: list[Any] = [
    pytest.param(row, id=name) for file in sorted(FOLDER.glob("*.yaml")) for name, row in rows(file)
]
KINDS: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (FOLDER / "kinds.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_cases_that_are_read_and_cases_that_are_not(kind: str) -> None:
    refused = [row for row in KINDS[kind] if "error" in row]
    assert len(refused) >= 5
    assert len(KINDS[kind]) - len(refused) >= 20


def test_corpus_is_large_and_half_of_it_real() -> None:
    written = [row for row in ROWS if row.id.startswith("written")]
    model = [row for row in ROWS if row.id.startswith("model")]
    assert len(written) >= 100
    assert len(model) >= 100


@pytest.mark.parametrize("row", ROWS)
def test_reads_as_a_careful_person_does(row: dict[str, Any]) -> None:
    expected = tuple(LETTERS.get(letter) for letter in row["reads"])
    count = row.get("n", len(expected))
    reading = read_labels(
        row["reply"], count, format_type=row.get("asked"), **row.get("options", {})
    )
    assert reading.labels == expected, reading
    assert reading.error_type == row.get("error"), reading
    assert reading.format_used == row.get("format", reading.format_used)
    assert bool(reading.reason) == (reading.error_type is not None)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if not {"asked", "options"} & set(row.values[0])]
)
def test_the_tuple_says_the_same(row: dict[str, Any]) -> None:
    expected = [LETTERS.get(letter) for letter in row["reads"]]
    labels, count, format_used, error = parse_labels_multi_format(row["reply"], len(expected))
    assert labels == (expected if any(expected) else None)
    assert error == row.get("error")
    assert count >= sum(label is not None for label in expected)
    assert format_used == row.get("format", format_used)
