"""The collection of odd answers, read with a reader.

It is in ``lm_eval/formats/readers/odd_answers``: one table for each kind of answer, with what a careful
person would read, or why nothing can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml

from lm_eval.formats.items import AnswerKind
from lm_eval.formats.readers import BoundReader, Reading, fitted, read
from lm_eval.lab.reread.items import in_words
from lm_eval.scoring.metrics import same_answer
from lm_eval.support.encode import AsDict

Outcome = Literal["as expected", "otherwise", "not parsed"]


@dataclass(frozen=True)
class OddAnswer(AsDict):
    """One row of the collection, and how the reader read it."""

    table: str
    text: str
    expected: str | None
    """The answer in words; None if nothing should be read."""
    why_none: str | None
    """Why nothing should be read."""
    answer: str | None
    reason: str | None
    rule: str | None
    outcome: Outcome


def read_corpus(reader: BoundReader) -> Iterator[OddAnswer]:
    """Every row of the collection, read with ``reader``."""
    for name, table in corpus().items():
        for row in table["rows"]:
            yield _read_row(name, {**table, **row}, reader)


@cache
def corpus() -> Mapping[str, Mapping[str, Any]]:
    """Table → reader, labels, choices and rows, as in its file."""
    folder = resources.files("lm_eval.formats.readers") / "odd_answers"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".yaml"): yaml.safe_load(file.read_text(encoding="utf-8"))
        for file in files
        if file.name.endswith(".yaml")
    }


def _read_row(name: str, row: Mapping[str, Any], reader: BoundReader) -> OddAnswer:
    labels, choices = tuple(row.get("labels", ())), tuple(row.get("choices", ()))
    answers = _kind(row)
    reading = read(
        row["text"],
        (reader,),
        labels=labels,
        choices=choices,
        prefix=row.get("prefix"),
        finish=row.get("finish"),
    )
    reading = fitted(reading, answers, labels, choices)
    expected = row.get("value")
    names = choices or labels
    return OddAnswer(
        name,
        row["text"],
        None if expected is None else in_words(expected, answers, names),
        row.get("reason"),
        in_words(reading.value, answers, names) if reading.is_answer else None,
        reading.reason,
        reading.rule,
        _outcome(reading, expected, answers),
    )


def _kind(row: Mapping[str, Any]) -> AnswerKind:
    """What kind of answer a row is about, by its value or by the reader that its table is for."""
    value = row.get("value")
    if isinstance(value, list):
        return "order"
    if isinstance(value, int):
        return "choice"
    if value is None and (row.get("labels") or row.get("choices")):
        is_order = "ranking" in str(row["reader"])
        return "order" if is_order else "choice"
    return "text"


def _outcome(reading: Reading, expected: Any, answers: AnswerKind) -> Outcome:
    if not reading.is_answer:
        return "as expected" if expected is None else "not parsed"
    if expected is None:
        return "otherwise"
    if answers == "text":
        return "as expected" if same_answer(str(reading.value), str(expected)) else "otherwise"
    value = list(reading.value) if answers == "order" else reading.value
    return "as expected" if value == expected else "otherwise"
