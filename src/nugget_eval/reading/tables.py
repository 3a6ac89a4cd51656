"""Candidates in cells: tables of Markdown, CSV and TSV, and single rows of labels."""

from __future__ import annotations

from nugget_eval.reading.candidates import (
    INDEX_KEYS,
    LABEL_KEYS,
    Candidate,
    LabelWords,
    Slot,
    index_of,
    key_of,
    make,
)
from nugget_eval.reading.lines import DELIMITERS, Line


def grid(lines: list[Line], words: LabelWords) -> Candidate | None:
    """A table or rows of cells: the column that holds labels, or one row that is the answer."""
    span = (lines[0].span[0], lines[-1].span[1])
    excluded = "quote" if all(line.is_quoted for line in lines) else None
    excluded = "menu" if any(line.is_menu for line in lines) else excluded
    is_table = len(lines) > 1 and lines[0].delimiter == "|"
    name = "markdown" if is_table else DELIMITERS[lines[0].delimiter]
    header = _header(lines, words, is_table)
    body = lines[1:] if header else lines
    slots = _row_slots(header, body[0], words) if len(body) == 1 else _columns(header, body, words)
    return make(name, "row" if len(body) == 1 else "table", span, slots, excluded=excluded)


def _header(lines: list[Line], words: LabelWords, is_table: bool) -> tuple[str, ...] | None:
    """The first row if it names the columns or numbers them; in a table, any row without a label."""
    cells = lines[0].cells
    if len(lines) == 1 or any(words(cell) for cell in cells):
        return None
    names_label = any(key_of(cell) in LABEL_KEYS for cell in cells)
    is_numbers = all(index_of(cell) is not None for cell in cells)
    return cells if is_table or names_label or is_numbers else None


def _row_slots(header: tuple[str, ...] | None, line: Line, words: LabelWords) -> list[Slot]:
    labels = [words(cell) for cell in line.cells]
    known = sum(label is not None for label in labels)
    if header is not None and all(index_of(name) is not None for name in header):
        return [
            Slot(label, index_of(name), line.span)
            for name, label in zip(header, labels, strict=True)
        ]
    if known == 1 and len(labels) > 1 and labels[-1] is not None:
        # The label of the cells before it.
        return [Slot(labels[-1], index_of(line.cells[0]), line.span)]
    return [Slot(label, None, line.span) for label in labels]


def _columns(header: tuple[str, ...] | None, body: list[Line], words: LabelWords) -> list[Slot]:
    width = len(body[0].cells)
    counts = [sum(words(line.cells[c]) is not None for line in body) for c in range(width)]
    named = [c for c in range(width) if header and key_of(header[c]) in LABEL_KEYS and counts[c]]
    best = named or [c for c in range(width) if counts[c] == max(counts)]
    if len(best) != 1:
        return []
    number = _index_column(header, body, best[0])
    return [
        Slot(
            words(line.cells[best[0]]),
            index_of(line.cells[number]) if number is not None else None,
            line.span,
        )
        for line in body
    ]


def _index_column(
    header: tuple[str, ...] | None, body: list[Line], label_column: int
) -> int | None:
    for column in range(len(body[0].cells)):
        is_numbers = all(index_of(line.cells[column]) is not None for line in body)
        is_named = (
            header is None or key_of(header[column]) in INDEX_KEYS or not key_of(header[column])
        )
        if column != label_column and is_numbers and is_named:
            return column
    return None
