"""Several labels on one line: rows of cells, tables made of them, and numbered labels in a row.

``read_row`` tells a row from prose with commas; ``grid`` makes rows a candidate: the column of a table
that holds labels, or one row of labels. ``one_line`` reads ``1. support, 2. not_support``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence

from nugget_eval.reading.candidates import (
    FOREIGN_LABEL_KEYS,
    INDEX_KEYS,
    LABEL_KEYS,
    Candidate,
    LabelWords,
    Slot,
    key_of,
    make,
    names,
)
from nugget_eval.reading.notations.lines import Line
from nugget_eval.reading.references import (
    begins_with_number,
    cell_number,
    index_of,
    indices_of,
    is_nugget,
    numbers_of,
)
from nugget_eval.reading.remarks import body_label, slot_label
from nugget_eval.reading.spellings import LABELS, ORDER, STEM, Label

DELIMITERS = {"\t": "tsv", "|": "pipe", ",": "csv", ";": "csv"}
ROW_FORMATS = {**DELIMITERS, " ": "csv"}


# One line


def read_row(line: Line, words: LabelWords) -> bool:
    """True if the line consists of cells separated by a delimiter, and at least one is a label."""
    source = line.content
    for delimiter in DELIMITERS:
        if delimiter not in source:
            continue
        start = _announced(source) if delimiter in ",;" else 0
        cells, lead = _without_lead(split_cells(source[start:], delimiter), words)
        lead += start
        cells = [_CELL_KEY.sub("", part) for cell in cells for part in _and_parts(cell, words)]
        line.is_menu = _is_menu(source, delimiter, cells, words)
        if line.is_menu or (len(cells) > 1 and _is_plausible(cells, delimiter, words)):
            line.kind, line.delimiter, line.cells = "row", delimiter, tuple(cells)
            line.span = (line.span[0] + lead, line.span[1])
            return True
    return False


def _is_menu(source: str, delimiter: str, cells: list[str], words: LabelWords) -> bool:
    """``support, partial_support, or not_support`` and ``<support|…>`` show what is allowed."""
    last = cells[-1].strip()
    if last[:3].lower() == "or " and words(last[3:]):
        cells[-1] = last[3:]
        return True
    bare = source.strip()
    is_placeholder = delimiter == "|" and bare[:1] == "<" and bare[-1:] == ">"
    return is_placeholder and any(words(cell) for cell in cells)


_ANNOUNCED = re.compile(
    r"[^\d:=\n]{1,200}:[\s\"'*`]*(?=(?:partial[_ ]|not[_ ])?support)", re.IGNORECASE
)


def _announced(source: str) -> int:
    """Where the labels begin after a sentence with commas: ``Sure, here they are: support, …``."""
    lead = _ANNOUNCED.match(source)
    is_sentence = lead is not None and ("," in lead[0] or ";" in lead[0])
    return lead.end() if lead and is_sentence and not STEM.search(lead[0]) else 0


_CELL_KEY = re.compile(r"\A(?:label|decision|verdict|answer)[ \t]?[=:][ \t]?(?=\S)", re.IGNORECASE)
_LEAD = re.compile(
    r".{0,200}?(?:[:=]|\b(?:is|are|sind|sont|son|são|sono)\b)[\s\"'*`]*(?=[^:=]{1,40}\Z)"
)


def _without_lead(cells: list[str], words: LabelWords) -> tuple[list[str], int]:
    """``Final answer: support, …`` without the words before the first label, and their length."""
    if len(cells[0]) > 300 or words(cells[0]) is not None:
        return cells, 0
    lead = _LEAD.match(cells[0])
    if lead is None or words(cells[0][lead.end() :]) is None or index_of(lead[0].rstrip(" :=")):
        return cells, 0
    return [cells[0][lead.end() :], *cells[1:]], lead.end()


_LEADING_AND = re.compile(
    r"\A(?:and|und|et|y|e|и)\s+(?=(?:partial_|not_)?support\b)", re.IGNORECASE
)
_JOINING = re.compile(r"(?:\A|\s)(?:and|then)\s")


def _and_parts(cell: str, words: LabelWords) -> list[str]:
    """``support and not_support`` as two cells; ``and support`` without its *and*."""
    cell = _LEADING_AND.sub("", cell)
    if " and " not in f" {cell}" and cell[:5] != "then ":
        return [cell]
    parts = [part.strip() for part in _JOINING.split(cell) if part.strip()]
    return parts if parts and all(words(part) for part in parts) else [cell]


def split_cells(source: str, delimiter: str) -> list[str]:
    """The cells of a line, CSV quotes respected; a table's outer pipes are dropped."""
    if delimiter == "|":
        source = source.strip().strip("|").replace("||", "|")
        return [cell.strip() for cell in source.split("|")]
    if '"' not in source:
        cells = [cell.strip() for cell in source.split(delimiter)]
    else:
        try:
            cells = next(csv.reader([source.strip()], delimiter=delimiter, skipinitialspace=True))
        except (csv.Error, StopIteration):
            cells = source.split(delimiter)
        cells = [cell.strip() for cell in cells]
    if delimiter != "\t" and len(cells) > 1 and not cells[-1]:
        cells.pop()  # a trailing comma
    return cells


def _is_plausible(cells: list[str], delimiter: str, words: LabelWords) -> bool:
    """False for prose with commas. Of two cells, the second may be the label of the first."""
    has_definitions = delimiter in ",;"  # ``support = stated, not_support = absent``
    labels = [slot_label(cell, words, comments_only=has_definitions) for cell in cells]
    known = sum(label is not None for label in labels)
    if delimiter == ";" and known < len(cells) and _all_remarked(cells, words):
        return True
    if not known:
        return False
    if delimiter in "|\t":
        return True
    if len(cells) == 2 and known == 1:
        is_number = labels[0] is not None and cell_number(cells[1]) is not None
        is_answer = labels[1] is not None and not _NO_NUGGET.match(cells[0])
        is_number_alone = cell_number(cells[0]) is not None and not STEM.search(cells[0])
        is_placed = is_number_alone or not begins_with_number(cells[0])
        return is_number or (is_answer and is_placed)
    is_numbered = any(cell_number(cell) is not None for cell in (*cells[:2], cells[-1]))
    if labels[0] is None and not is_numbered and begins_with_number(cells[0]):
        return False
    return is_numbered or known * 2 > len(cells) or labels[-1] is not None


def _all_remarked(cells: list[str], words: LabelWords) -> bool:
    """True for ``support: the year is given; not_support: no colour``, which defines neither."""
    if any("=" in cell or _GENERAL.search(cell) for cell in cells):
        return False
    return all(slot_label(cell, words) for cell in cells)


_GENERAL = re.compile(r"\b(?:passage|nugget|text|document)s?\b", re.IGNORECASE)  # defines a label
_NO_NUGGET = re.compile(
    r"[-*+•][ \t]|(?:no|not|nein|non|não|нет|yes|ja|oui|sí|sim|да|wait|so|then)\Z", re.I
)


# All rows


def grid(lines: list[Line], words: LabelWords) -> list[Candidate]:
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
    return make(name, "table", span, slots, excluded=excluded, needs_all=may_be_counts)


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
        # The label of the cells before it, or with a remark after it.
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
    """True if numbers after labels may say how often each label was given.

    No count has several numbers, a word beside it, or comes twice for one label.
    """
    if len(set(labels)) < len(labels) or (header and key_of(header[column]) in _NUGGET_NAMES):
        return False
    return all(line.cells[column].strip(" *_`").isdigit() for line in body)


_NUGGET_NAMES = INDEX_KEYS - names("number no n k i num")


def _index_column(
    header: tuple[str, ...] | None, body: list[Line], label_column: int
) -> int | None:
    """The column that numbers the nuggets; it may hold several numbers after one label."""
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
    """``quote`` if all lines are quoted, which excludes them as the answer."""
    return "quote" if all(line.is_quoted for line in lines) else None


# Several labels on one line, each with the number or text of its nugget


_INLINE_NUMBER = re.compile(
    r"(?:\A|(?<=[\s,;(\[/|]))(?:(?:nugget|item|claim|fact|no\.|nr\."
    r"|[nkcfq])[ \t]{0,2})?[(\[]?#?(?P<index>\d{1,4})"
    r"(?:[ \t]?(?:\.\)|[.):=\]]{1,2}|->|→|-(?=[ \t]|[^\W\d]{2}))|(?P<bare>(?=[ \t])))[ \t]*",
    re.IGNORECASE,
)
_INLINE_LETTER = re.compile(
    r"(?:\A|(?<=[\s,;(\[/|]))[(\[]?(?P<mark>[a-z]|[ivx]{1,4})(?:[.):\]]{1,2})[ \t]*", re.IGNORECASE
)
_YEARS = 1000  # a number from here on is hardly that of a nugget


def one_line(line: Line, words: LabelWords) -> list[Candidate]:
    """The candidate that a single line makes, if any: ``1. support, 2. not_support``."""
    return _inline_numbered(line, words) or _inline_keyed(line, words)


def are_grades(slots: Sequence[Slot]) -> bool:
    """True for labels in order, with grades: ``0 = not_support``, ``1 = partial_support``, …"""
    labels = [slot.label for slot in sorted(slots, key=lambda slot: slot.index or 0)]
    has_zero = any(slot.index == 0 for slot in slots)
    return labels in (list(LABELS), list(ORDER)) or (has_zero and len(set(labels)) == len(labels))


def _inline_numbered(line: Line, words: LabelWords) -> list[Candidate]:
    """``1. support, 2. not_support`` on one line, also after a few words and a colon."""
    if line.kind in ("fence", "rule", "group") or len(line.text) > 20_000:
        return []
    if not words.plain_words and not _has_two_labels(line.text):
        return []
    marks = list(_INLINE_NUMBER.finditer(line.text))
    if len(marks) < 2:
        return _inline_lettered(line, words)
    ends = [mark.start() for mark in marks[1:]] + [len(line.text)]
    slots = [
        Slot(_inline_label(line.text[mark.end() : end], words), int(mark["index"]))
        for mark, end in zip(marks, ends, strict=True)
    ]
    if not all(slot.label and slot.index < _YEARS for slot in slots if slot.index is not None):
        return []
    is_bare = any(mark["bare"] is not None for mark in marks)
    if is_bare and [slot.index for slot in slots] != list(range(1, len(slots) + 1)):
        return []  # ``2 support, 1 not_support`` counts labels
    start = line.span[0] + marks[0].start()
    is_scale = all("=" in mark[0] or mark["bare"] is not None for mark in marks)
    excluded = "menu" if is_scale and are_grades(slots) else quoted([line])
    span = (start, line.span[1])
    return make("numbered", "inline", span, slots, excluded=excluded, needs_all=is_bare)


def _inline_lettered(line: Line, words: LabelWords) -> list[Candidate]:
    """``a) support, b) not_support`` on one line."""
    marks = list(_INLINE_LETTER.finditer(line.text))
    numbers = numbers_of([mark["mark"].lower() for mark in marks]) if len(marks) > 1 else None
    if numbers is None or numbers[0] != 1:
        return []
    ends = [mark.start() for mark in marks[1:]] + [len(line.text)]
    slots = [
        Slot(_inline_label(line.text[mark.end() : end], words), number)
        for mark, end, number in zip(marks, ends, numbers, strict=True)
    ]
    if not all(slot.label for slot in slots):
        return []
    excluded = "menu" if [slot.label for slot in slots] == list(LABELS) else quoted([line])
    span = (line.span[0] + marks[0].start(), line.span[1])
    return make("numbered", "inline", span, slots, excluded=excluded)


_INLINE_KEYED = re.compile(
    r"[ \t]*(?P<key>[^;→]{2,300}?)[ \t]*(?P<mark>→|->|=>|:)[ \t]*(?P<label>[^;,:→]{4,40}?)[ \t]*"
    r"(?:[;,]|\.?\Z)"
)


def _inline_keyed(line: Line, words: LabelWords) -> list[Candidate]:
    """``Opened in 1932 → support; closed in 1999 → not_support`` on one line."""
    if line.kind in ("fence", "rule", "group", "item") or not _MARKED_PAIR.search(line.text):
        return []
    slots, at = [], 0
    while at < len(line.text.rstrip()):
        pair = _INLINE_KEYED.match(line.text, at)
        label = words(pair["label"], strict_slot=False) if pair else None
        if (
            pair is None
            or label is None
            or not is_nugget(pair["key"], is_pointed=pair["mark"] != ":")
        ):
            return []
        slots.append(Slot(label, None, (line.span[0] + at, line.span[0] + pair.end())))
        at = pair.end()
    if len(slots) < 2:
        return []
    return make("prose", "keyed", line.span, slots, excluded=quoted([line]))


_MARKED_PAIR = re.compile(r"(?:→|->|=>|:)[^;,]{4,40}[;,][^;]{2,300}(?:→|->|=>|:)")


def _has_two_labels(text: str) -> bool:
    first = STEM.search(text)
    return first is not None and STEM.search(text, first.end()) is not None


def _inline_label(text: str, words: LabelWords) -> Label | None:
    part = text.strip(" ,;./|([").removesuffix(" and")
    return words(part) or body_label(part, words)[0]
