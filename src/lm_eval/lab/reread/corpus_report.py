"""How a reader read the collection of odd answers, as a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lm_eval.lab.reread.odd_answers import OddAnswer
from lm_eval.lab.show.excerpts import quoted
from lm_eval.text.columns import Cells, Column, FittingTable, Paragraph
from lm_eval.text.terminal import visible

if TYPE_CHECKING:
    from rich.console import Console

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
