"""Rows of cells → a candidate: the column of a table that holds labels, or one row of labels."""

from __future__ import annotations

from dataclasses import replace

from nugget_eval.reading.candidates import (
    FOREIGN_LABEL_KEYS,
    INDEX_KEYS,
    LABEL_KEYS,
    Candidate,
    LabelWords,
    Slot,
    index_of,
    indices_of,
    key_of,
    make,
    names,
)
from nugget_eval.reading.lines import ROW_FORMATS, Line
from nugget_eval.reading.numbering import cell_number
from nugget_eval.reading.remarks import slot_label
from nugget_eval.reading.spellings import Label


def grid(lines: list[Line], words: LabelWords) -> Candidate | None:
    """A table or rows of cells: the column that holds labels, or one row that is the answer."""
    span = (lines[0].span[0], lines[-1].span[1])
    excluded = "menu" if any(line.is_menu for line in lines) else quoted(lines)
    is_table = len(lines) > 1 and lines[0].delimiter == "|"
    name = "markdown" if is_table else ROW_FORMATS[lines[0].delimiter]
    header = _header(lines, words, is_table)
    body = lines[1:] if header else lines
    if len(body) == 1:
        return make(name, "row", span, _row_slots(header, body[0], words), excluded=excluded)
    slots, may_be_counts = _columns(header, body, words)
    candidate = make(name, "table", span, slots, excluded=excluded)
    return replace(candidate, needs_all=may_be_counts) if candidate else None


def _header(lines: list[Line], words: LabelWords, is_table: bool) -> tuple[str, ...] | None:
    """The first row if it names the columns or numbers them; in a table, any row without a label."""
    cells = lines[0].cells
    if len(lines) == 1 or any(slot_label(cell, words) for cell in cells):
        return None
    is_named = any(map(names_label, cells))
    is_numbers = all(index_of(cell) is not None for cell in cells)
    return cells if is_table or is_named or is_numbers else None


def _row_slots(header: tuple[str, ...] | None, line: Line, words: LabelWords) -> list[Slot]:
    cells = line.cells
    labels = [slot_label(cell, words) for cell in cells]
    if len(cells) > 2 and labels[0] is None and names_label(cells[0]):  # the row's own name
        header, cells, labels = (header[1:] if header else None), cells[1:], labels[1:]
    known = sum(label is not None for label in labels)
    if header is not None and all(index_of(name) is not None for name in header):
        return [
            Slot(label, index_of(name), line.span)
            for name, label in zip(header, labels, strict=True)
        ]
    if known == 1 and len(labels) > 1:
        # The label of the cells before it, or with a remark behind it.
        if labels[-1] is None and line.delimiter != "|" and index_of(cells[0]) is None:
            return []
        index = cell_number(cells[0]) if labels[0] is None else None
        return [Slot(next(filter(None, labels)), index, line.span)]
    explained = [words(cell) is None for cell in cells]
    return [Slot(label, None, line.span, why) for label, why in zip(labels, explained, strict=True)]


def _columns(
    header: tuple[str, ...] | None, body: list[Line], words: LabelWords
) -> tuple[list[Slot], bool]:
    """The slots of a table, and whether its numbers may be counts."""
    width = len(body[0].cells)
    counts = [
        sum(slot_label(line.cells[c], words) is not None for line in body) for c in range(width)
    ]
    named = [c for c in range(width) if header and names_label(header[c]) and counts[c]]
    best = named or [c for c in range(width) if counts[c] == max(counts)]
    if len(best) != 1:
        return [], False
    labels = [slot_label(line.cells[best[0]], words) for line in body]
    column = _index_column(header, body, best[0])
    if column is None:
        explained = best[0] == 0 and width > 1 and not (header and key_of(header[1]) in INDEX_KEYS)
        slots = [
            Slot(label, None, line.span, explained)
            for label, line in zip(labels, body, strict=True)
        ]
        return slots, False
    slots = [
        Slot(label, index, line.span)
        for label, line in zip(labels, body, strict=True)
        for index in (indices_of(line.cells[column]) or (cell_number(line.cells[column]),))
    ]
    if column < best[0] or not _may_be_counts(header, body, column, labels):
        return slots, False
    is_count = header is not None and header[column].strip(" *_`").lower() in _COUNT_NAMES
    return ([] if is_count else slots), True


def names_label(cell: str) -> bool:
    """True if a cell is the heading of the labels."""
    return key_of(cell) in LABEL_KEYS or cell.strip(" *_`").lower() in FOREIGN_LABEL_KEYS


_COUNT_NAMES = names(
    "count counts total totals number numbers frequency freq sum n anzahl häufigkeit nombre "
    "effectif cantidad "
    "recuento número quantidade contagem numero conteggio количество число 数量 个数 计数 件数 "
    "개수 عدد संख्या"
)


def _may_be_counts(
    header: tuple[str, ...] | None, body: list[Line], column: int, labels: list[Label | None]
) -> bool:
    """True where numbers behind labels may say how often each label was given.

    No count has several numbers, a word beside it, or comes twice for one label.
    """
    if len(set(labels)) < len(labels) or (header and key_of(header[column]) in _NUGGET_NAMES):
        return False
    return all(line.cells[column].strip(" *_`").isdigit() for line in body)


_NUGGET_NAMES = INDEX_KEYS - names("number no n k i num")


def _index_column(
    header: tuple[str, ...] | None, body: list[Line], label_column: int
) -> int | None:
    """The column that numbers the nuggets; it may hold several numbers behind one label."""
    for column in range(len(body[0].cells)):
        if column == label_column:
            continue
        before = column < label_column
        is_numbers = all(
            cell_number(line.cells[column]) is not None
            or (not before and bool(indices_of(line.cells[column])))
            for line in body
        )
        name = key_of(header[column]) if header else ""
        if is_numbers and (not before or not name or name in INDEX_KEYS):
            return column
    return None


def quoted(lines: list[Line]) -> str | None:
    """Why lines that are all quoted cannot be the answer."""
    return "quote" if all(line.is_quoted for line in lines) else None
