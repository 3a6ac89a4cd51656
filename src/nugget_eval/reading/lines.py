"""Answers in lines: tables, labels in a row, and lists with or without bullets and numbers."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from nugget_eval.reading.answers import LabelList
from nugget_eval.reading.brackets import Region
from nugget_eval.reading.outcome import FormatUsed, Span
from nugget_eval.reading.pieces import Piece, Slot, read_piece
from nugget_eval.reading.prose import read_sentence
from nugget_eval.reading.spellings import LABELS, SPELLING, label_of, spelled
from nugget_eval.reading.words import pattern

_SAYS_NOTHING = re.compile(r"\s*(?:```|~~~)\s*\w*.*|[\s|:=_*-]*|[\x00-/:-@\[-`{-\x7f]*")


@dataclass(slots=True)
class Line:
    text: str
    start: int
    region: Region | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _lines_of(text: str, regions: Sequence[Region]) -> Iterator[Line]:
    """The lines of ``text`` that say something, each with the brackets around it."""
    ahead, at = [*regions][::-1], 0
    ends = {region.span[1] for region in regions}
    for raw in text.split("\n"):
        while ahead and ahead[-1].span[1] <= at:
            ahead.pop()
        if not _SAYS_NOTHING.fullmatch(raw) and at not in ends:  # no remark behind brackets
            yield Line(raw, at, ahead[-1] if ahead and ahead[-1].span[0] <= at else None)
        at += len(raw) + 1


def read_lines(text: str, regions: Sequence[Region] = ()) -> list[LabelList]:
    """Every answer in lines. In ``regions``, which were brackets, each line is an entry."""
    lines = list(_lines_of(text, regions))
    listing = _Listing()
    at = tried = 0
    while at < len(lines):
        line = lines[at]
        answer, size = _table(lines, at) if line.region is None and at >= tried else (None, 1)
        if answer is None:
            tried, size = max(tried, at + size), 1
            answer = _row(line)
        if answer is None:
            listing.add(line)
        else:
            listing.flush()
            listing.answers.append(answer)
        at += size
    listing.flush()
    return listing.answers


# Tables

_SEPARATORS: tuple[tuple[str, FormatUsed], ...] = (
    *(("|", "markdown"), ("\t", "tsv")),
    *((",", "csv"), (";", "csv")),
)


def _table(lines: list[Line], at: int) -> tuple[LabelList | None, int]:
    """The answer in the table that begins at a line, and how many lines were looked at."""
    most = 1
    for separator, name in _SEPARATORS:
        rows: list[list[str]] = []
        while at + len(rows) < len(lines) and separator in lines[at + len(rows)].text:
            cells = _cells(lines[at + len(rows)].text, separator)
            if len(cells) < 2 or (separator in ",;" and rows and len(cells) != len(rows[0])):
                break
            rows.append(cells)
        slots = _column(rows) if len(rows) > 1 else []
        if slots:
            span = (lines[at].start, lines[at + len(rows) - 1].end)
            body = rows[len(rows) - len(slots) :]
            texts = tuple(
                (" ".join(cell for cell in row if not label_of(cell)), "") for row in body
            )
            is_about_labels = any(pattern("defining").fullmatch(cell.lower()) for cell in rows[0])
            why = "definitions" if is_about_labels else None
            answer = LabelList(name, "table", span, tuple(slots), texts, excluded=why)
            return answer, len(rows)
        most = max(most, len(rows))
    return None, most


def _cells(text: str, separator: str) -> list[str]:
    if separator == "," and '"' in text:
        try:
            return next(csv.reader([text], skipinitialspace=True))
        except (csv.Error, StopIteration):
            return []
    if separator == "|":
        text = text.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in text.split(separator)]


def _column(rows: list[list[str]]) -> list[Slot]:
    """The labels of the column that holds them, with the numbers beside them; none if it is unclear."""
    width = max(map(len, rows))
    labels = [[label_of(row[c]) if c < len(row) else None for row in rows] for c in range(width)]
    counts = [sum(label is not None for label in column) for column in labels]
    names = [name.lower().strip(" *_`") for name in rows[0]] + [""] * width
    best = max(range(width), key=lambda c: (bool(pattern("verdict").search(names[c])), counts[c]))
    first = 0 if labels[best][0] else 1
    chosen = labels[best][first:]
    others = [row[:best] + row[best + 1 :] for row in rows[first:]]
    if (
        sum(count >= len(rows) - 1 for count in counts) > 1
        or counts[best] * 2 < len(chosen)
        or (counts[best] == 1 and len(rows) > 2)
        or (best == 0 and all(cells and cells[0].isdecimal() for cells in others))  # label, count
    ):
        return []
    numbers = [[read_piece(f"{cell}:").index for cell in cells] for cells in others]
    found = [next((n for n in row if n is not None), None) for row in numbers]
    found = [None] * len(found) if None in found else found
    return [Slot(label, n) for label, n in zip(chosen, found, strict=True)]


# Labels in a row

_WRAP = r"[\s\"'`*()\[\]{}<>#$]*"
_BETWEEN = re.compile(
    rf"{_WRAP}(?P<sep>[,;|/+·•&~:∣¦–—→-]|//|&&|\|\||->|=>|>{{1,2}}|,?\s?\b(?:and|then|und|et|y|e|и)\b|和|と|및|와|و|और)?"
    rf"{_WRAP}(?P<or>(?:,\s?)?\b(?:or|oder|ou|o|или)\b|或|または|또는|أو|या)?{_WRAP}"
)
_ALTERNATING = frozenset(("/", "//", "+", "-", "–", "—", ":", "~", "→", "->", "=>", ">", ">>"))
_NAMES: dict[str, FormatUsed] = {"|": "pipe", "||": "pipe", "\t": "tsv"}
_ANOTHER = re.compile(  # where the next entry of an enumeration on one line begins
    r"(?:(?<=[\s;,|])|(?<=\]))(?=[\[(#]?(?:\d{1,3}|[a-j]|i{1,3})(?:[.):\]]|\s?(?:[-=:→]|->|=>)\s?(?=[a-z]))(?!\d)"
    r"|#\d{1,3}\s|(?:nugget|item|fact|claim|n)[ _#]?\d{1,3}\b)",
    re.IGNORECASE,
)
_SPLITS = (
    re.compile(r";\s?"),
    re.compile(r",\s(?=[^,;]*(?:support|partial))(?!(?:because|but|so|and therefore)\b)"),
)


def _row(line: Line) -> LabelList | None:
    """The answer in a line of several labels: in a row, or each with its number or nugget."""
    found = list(SPELLING.finditer(line.text))
    if len(found) < 2:
        return None
    low = line.text.lower()
    between = [_BETWEEN.fullmatch(low, a.end(), b.start()) for a, b in pairwise(found)]
    if not all(between) or not all(map(spelled, found)):
        return _enumerated(line)
    start, end = found[0].start(), found[-1].end()
    before, after = low[:start], low[end:].lstrip("\"'`*_)]}> ")
    is_introduced = (
        not before.strip(" \t\"'`*_([{<>-•+")
        or re.search(r"[:=→>|\[(\"-][\s*_`\"'(\[{<]*\Z", before)
        or (len(before) < 120 and pattern("verdict").search(before))
    )
    if not is_introduced or (after.strip("\t[](){}.,;!|。~$") and after[0] not in "(#–—.["):
        return None
    labels = tuple(label for match in found if (label := spelled(match)))
    separators = ["\t" if "\t" in m[0] else (m["sep"] or "").strip(", ") for m in between if m]
    has_order = _ALTERNATING.isdisjoint(separators) or len(set(labels)) < len(labels)
    is_menu = (
        any(m["or"] for m in between if m)
        or pattern("example").search(after)
        or (labels == LABELS and (before.endswith("<") or low[start:end] == "|".join(LABELS)))
        or (not has_order and (len(labels) == 2 or labels == LABELS))
    )
    name = _NAMES.get(max(set(separators), key=separators.count), "csv")
    span, why = (line.start + start, line.start + end), "menu" if is_menu else None
    return LabelList(name, "row", span, tuple(map(Slot, labels)), excluded=why)


def _enumerated(line: Line) -> LabelList | None:
    """``1. support, 2. not_support``; ``opened → support; closed → not_support``."""
    text = line.text
    cuts = [0, *(match.start() for match in _ANOTHER.finditer(text)), len(text)]
    numbered = [text[a:b] for a, b in pairwise(cuts)]
    lead = numbered.pop(0) if not SPELLING.search(numbered[0]) else ""
    for parts, is_numbered in ((numbered, True), *((each.split(text), False) for each in _SPLITS)):
        pieces = [read_piece(re.sub(r"^\s*and\s", "", part).strip(" ,;|\t")) for part in parts]
        numbers = [piece.index for piece in pieces if piece.index is not None]
        is_fit = len(numbers) == len(pieces) * is_numbered and numbers == sorted(numbers)
        if len(parts) > 1 and is_fit and all(p.label for p in pieces):
            span = (line.start + len(lead) * is_numbered, line.end)
            slots = [Slot(p.label, p.index) for p in pieces]
            return _answer("numbered" if is_numbered else "csv", "row", span, slots, pieces)
    return None


def _answer(
    name: FormatUsed, rule: str, span: Span, slots: list[Slot], pieces: list[Piece]
) -> LabelList:
    texts = tuple((piece.before, piece.after) for piece in pieces)
    return LabelList(name, rule, span, tuple(slots), texts=texts)


# Lists


@dataclass(slots=True)
class _Listing:
    """Collects lines with one label each into lists."""

    answers: list[LabelList] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    span: Span = (0, 0)
    pending: int | None = None  # the number of a nugget without a label so far
    name: FormatUsed = "markdown"
    region: Region | None = None
    has_skipped: bool = False  # several numbers in a row had no label

    def add(self, line: Line) -> None:
        if line.region is not self.region:
            self.flush()
            self.region = line.region
        piece = read_piece(line.text)
        if piece.is_said and (piece.index is not None or self.pending is not None):
            piece = replace(piece, label=read_sentence(piece.before))
        if piece.label is not None:
            self._take(piece, line)
        elif piece.index is not None:
            self._open(piece.index, line)
        elif self._is_unknown(line.text, piece):
            self._append(Slot(None, self.pending), line)
            self.pending = None
        elif self.slots and self.slots[-1].index is not None and not self.pieces[-1].index:
            low = line.text.lower()
            if pattern("revision").search(low) or "wrong" in low:  # about the list above
                self.slots = [Slot(None, slot.index) for slot in self.slots]

    def _is_unknown(self, text: str, piece: Piece) -> bool:
        """True if a line without a label stands where a label should."""
        if self.region is not None and ":" not in text:
            return True
        if len(text) > 60 or self.pending is not None:
            return False
        if re.match(rf"\W*(?:{pattern('verdict').pattern})\W*:\s*\S", text.lower()):
            return True
        if not piece.mark:
            return False
        return piece.mark == self.pieces[-1].mark if self.pieces else len(text) < 25

    def _append(self, slot: Slot, line: Line) -> None:
        self.span = (self.span[0] if self.slots else line.start, line.end)
        self.slots.append(slot)

    def _open(self, index: int, line: Line) -> None:
        """A number without a label: its label may follow."""
        self.has_skipped = self.pending is not None and not self.slots
        if any(slot.index == index for slot in self.slots):
            self.flush()
        elif self.pending is not None and self.slots:
            self._append(Slot(None, self.pending), line)
        self.pending = index

    def _take(self, piece: Piece, line: Line) -> None:
        index, pending, self.pending = piece.index, self.pending, None
        last = self.slots[-1].index if self.slots else None
        if index is None and pending is not None:
            index = None if self.has_skipped else pending
        elif pending is not None and pending != index and (self.slots or index == pending + 1):
            self._append(Slot(None, pending), line)
        elif index is None and last is not None and self._restated(piece, last):
            return
        is_other = last is not None or bool(self.pieces and piece.mark != self.pieces[-1].mark)
        if any(slot.index == index for slot in self.slots) if index is not None else is_other:
            self.flush()
        if not self.pieces:
            self.name = "yaml" if piece.mark == "-" else "markdown"
            if index is not None:
                is_key = re.match(r"\s*(?:-\s)?\d+:\s", line.text)
                self.name = "yaml" if is_key else "numbered"
        self._append(Slot(piece.label, index), line)
        self.pieces.append(piece)

    def _restated(self, piece: Piece, index: int) -> bool:
        """True for a second label of the same nugget; it counts if the first was in a sentence."""
        last = self.pieces[-1]
        if last.index is not None and not last.is_said:
            return False
        if piece.label != self.slots[-1].label:
            label = piece.label if last.is_said and not piece.is_said else None
            self.slots[-1] = Slot(label, index)
        return True

    def flush(self) -> None:
        if self.pending is not None and self.slots:
            self.slots.append(Slot(None, self.pending))
        if self.pieces:
            name, rule = (self.region.format, "brackets") if self.region else (self.name, "list")
            answer = _answer(name, rule, self.span, self.slots, self.pieces)
            is_cut = self.region is not None and self.region.is_cut and not self.slots[-1].label
            self.answers.append(replace(answer, is_cut=is_cut))
        self.slots, self.pieces, self.pending = [], [], None
