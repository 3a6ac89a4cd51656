"""A reader over the project's collection of odd answers: what it reads as expected, otherwise, or not.

The collection is in ``lm_eval/formats/readers/odd_answers``: one table for each kind of answer, with
what a careful person would read, or why nothing can be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

import yaml

from lm_eval.formats.items import AnswerKind
from lm_eval.formats.readers import BoundReader, Reading, fitted, read
from lm_eval.lab.reread.items import in_words
from lm_eval.lab.show.phrases import quoted
from lm_eval.scoring.metrics import same_answer
from lm_eval.text.columns import Cells, Column, FittingTable, Paragraph
from lm_eval.text.encode import AsDict
from lm_eval.text.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console


Outcome = Literal["as expected", "otherwise", "not read"]


@dataclass(frozen=True)
class OddAnswer(AsDict):
    """One row of the collection, and how the reader read it."""

    table: str
    text: str
    expected: str | None
    """The answer in words; None where nothing should be read."""
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
            yield _read(name, {**table, **row}, reader)


@cache
def corpus() -> Mapping[str, Mapping[str, Any]]:
    """Table → reader, labels, choices and rows, as the files have them."""
    folder = resources.files("lm_eval.formats.readers") / "odd_answers"
    files = sorted((one for one in folder.iterdir()), key=lambda one: one.name)
    return {
        file.name.removesuffix(".yaml"): yaml.safe_load(file.read_text(encoding="utf-8"))
        for file in files
        if file.name.endswith(".yaml")
    }


def _read(name: str, row: Mapping[str, Any], reader: BoundReader) -> OddAnswer:
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
    """What kind of answer a row is about: the reader that the table belongs to tells."""
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
        return "as expected" if expected is None else "not read"
    if expected is None:
        return "otherwise"
    if answers == "text":
        return "as expected" if same_answer(str(reading.value), str(expected)) else "otherwise"
    value = list(reading.value) if answers == "order" else reading.value
    return "as expected" if value == expected else "otherwise"


_COLUMNS = (
    Column("name", "Table", stays=True),
    Column("total", "Answers", is_number=True, stays=True),
    Column("expected", "As expected", is_number=True, stays=True),
    Column("otherwise", "Otherwise", is_number=True, stays=True),
    Column("unread", "Not read", is_number=True, stays=True),
)


def print_corpus(rows: Sequence[OddAnswer], reader: str, console: Console, *, show: int) -> None:
    """Print the counts of each table, and the first answers that were read otherwise or not at all."""
    console.print(Paragraph("", f"{len(rows)} odd answers, read by {visible(reader)}"))
    tables = dict.fromkeys(row.table for row in rows)
    lines = [_row(name, [row for row in rows if row.table == name]) for name in tables]
    console.print(FittingTable(_COLUMNS, [lines, [_row("all", rows)]]))
    console.print(
        Paragraph(
            "  ",
            "As expected: the answer that the collection has, or none where it has none. Each table is "
            "made for one reader and its phrase; a reader made for other answers leaves most of it.",
        )
    )
    for outcome, title in (("otherwise", "Read otherwise"), ("not read", "Not read")):
        found = [row for row in rows if row.outcome == outcome]
        shown = found[:show]
        if shown:
            more = "" if len(shown) == len(found) else f", the first {len(shown)}"
            console.print(Paragraph("", f"{title} ({len(found)}{more}):"))
        for row in shown:
            console.print(Paragraph("  ", _words(row)))


def _row(name: str, rows: Iterable[OddAnswer]) -> Cells:
    counts = Counter(row.outcome for row in rows)
    return Cells(
        name=visible(name),
        total=str(sum(counts.values())),
        expected=str(counts["as expected"]),
        otherwise=str(counts["otherwise"]),
        unread=str(counts["not read"]),
    )


def _words(row: OddAnswer) -> str:
    expected = f"none ({row.why_none})" if row.expected is None else row.expected
    got = f"none ({row.reason})" if row.answer is None else f"{row.answer} (by {row.rule})"
    return (
        f"{visible(row.table)}: {quoted(row.text, 60)} expected {visible(expected, 40)}, "
        f"read {visible(got, 40)}"
    )
