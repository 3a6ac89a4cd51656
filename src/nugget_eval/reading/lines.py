"""Answers in lines: tables, labels in a row, and lists with or without bullets and numbers."""

from __future__ import annotations

import csv
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from nugget_eval.reading.answers import LabelList
from nugget_eval.reading.brackets import Region
from nugget_eval.reading.outcome import Span
from nugget_eval.reading.pieces import Piece, Slot, read_piece
from nugget_eval.reading.prose import read_sentence
from nugget_eval.reading.spellings import LABELS, SPELLING, label_of, spelled
from nugget_eval.reading.words import pattern

_FENCE = re.compile(r"\s*(?:```|~~~)\s*(\w*)")
_SAYS_NOTHING = re.compile(r"[\s|:=_*-]*|[\x00-/:-@\[-`{-\x7f]*")


@dataclass(slots=True)
class Line:
    text: str
    start: int
    fence: str = ""
    region: Region | None = None

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _lines_of(text: str, regions: Sequence[Region]) -> Iterator[Line]:
    """The lines of ``text`` that say something; fences give their language to what they enclose."""
    starts, ends = [region.span[0] for region in regions], {region.span[1] for region in regions}
    at, fence = 0, ""
    for raw in text.split("\n"):
        mark = _FENCE.match(raw)
        if mark is not None:
            fence = "" if fence else (mark[1].lower() or "plain")
        elif not _SAYS_NOTHING.fullmatch(raw) and at not in ends:  # no remark behind brackets
            around = regions[max(0, bisect_right(starts, at) - 1)] if regions else None
            is_inside = around is not None and around.span[0] <= at < around.span[1]
            yield Line(raw, at, fence, around if is_inside else None)
        at += len(raw) + 1


def read_lines(text: str, regions: Sequence[Region] = ()) -> list[LabelList]:
    """Every answer in lines. In ``regions``, which were brackets, each line is an entry."""
    lines = list(_lines_of(text, regions))
    grouped = _grouped(lines)
    if grouped is not None:
        return [grouped]
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


def _cells(text: str, separator: str) -> list[str]:
    if separator == "," and '"' in text:
        try:
            return next(csv.reader([text], skipinitialspace=True))
        except (csv.Error, StopIteration):
            return []
    if separator == "|":
        text = text.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in text.split(separator)]


def _table(lines: list[Line], at: int) -> tuple[LabelList | None, int]:
    """The answer in the table that begins at a line, and how many lines were looked at."""
    most = 1
    for separator, name in (("|", "markdown"), ("\t", "tsv"), (",", "csv"), (";", "csv")):
        rows: list[list[str]] = []
        while at + len(rows) < len(lines) and separator in lines[at + len(rows)].text:
            cells = _cells(lines[at + len(rows)].text, separator)
            if len(cells) < 2 or (separator in ",;" and rows and len(cells) != len(rows[0])):
                break
            rows.append(cells)
        slots = _columns(rows) if len(rows) > 1 else []
        if slots:
            span = (lines[at].start, lines[at + len(rows) - 1].end)
            texts = tuple(
                (" ".join(cell for cell in row if not label_of(cell)), "") for row in rows
            )
            answer = LabelList(
                name, "table", span, tuple(slots), texts=texts[len(rows) - len(slots) :]
            )
            is_about_labels = any(pattern("defining").fullmatch(cell.lower()) for cell in rows[0])
            return answer.without("definitions") if is_about_labels else answer, len(rows)
        most = max(most, len(rows))
    return None, most


def _columns(rows: list[list[str]]) -> list[Slot]:
    """The labels of the column that holds them, with the numbers of the column that numbers them."""
    width = max(map(len, rows))
    labels = [[label_of(row[c]) if c < len(row) else None for row in rows] for c in range(width)]
    counts = [sum(label is not None for label in column) for column in labels]
    if sum(count >= len(rows) - 1 for count in counts) > 1:
        return []
    names = [name.lower().strip(" *_`") for name in rows[0]] + [""] * width
    best = max(range(width), key=lambda c: (bool(pattern("verdict").search(names[c])), counts[c]))
    first = 0 if labels[best][0] else 1
    body, chosen = rows[first:], labels[best][first:]
    others = [row[:best] + row[best + 1 :] for row in body]
    if counts[best] * 2 < len(body) or (counts[best] == 1 and len(rows) > 2):
        return []
    values = [cells[0] for cells in others if cells]
    is_sharp = "#" in names and values == sorted(values)
    is_indexed = is_sharp or re.search(r"nugget|id\b|n[ro]\b", " ".join(names)) is not None
    is_count = (
        all(cells and cells[0].isdecimal() for cells in others) and best == 0 and not is_indexed
    )
    if is_count and len(set(chosen)) == len(chosen):
        return []
    found = [
        next((n for c in cells if (n := read_piece(f"{c}:").index) is not None), None)
        for cells in others
    ]
    return [
        Slot(label, n if None not in found else None)
        for label, n in zip(chosen, found, strict=True)
    ]


# Labels in a row

_WRAP = r"[\s\"'`*()\[\]{}<>#$]*"
_BETWEEN = re.compile(
    rf"{_WRAP}(?P<sep>[,;|/+·•&~:∣¦–—→-]|//|&&|\|\||->|=>|>{{1,2}}|,?\s?\b(?:and|then|und|et|y|e|и)\b|和|と|및|와|و|और)?"
    rf"{_WRAP}(?P<or>(?:,\s?)?\b(?:or|oder|ou|o|или)\b|或|または|또는|أو|या)?{_WRAP}"
)
_ALTERNATING = frozenset(("/", "//", "+", "-", "–", "—", ":", "~", "→", "->", "=>", ">", ">>"))
_NAMES = {"|": "pipe", "||": "pipe", "\t": "tsv"}
_ANOTHER = re.compile(  # where the next entry of an enumeration on one line begins
    r"(?:(?<=[\s;,|])|(?<=\]))(?=[\[(#]?(?:\d{1,3}|[a-j]|i{1,3})(?:[.):\]]|\s?(?:[-=:→]|->|=>)\s?(?=[a-z]))(?!\d)"
    r"|#\d{1,3}\s|(?:nugget|item|fact|claim|n)[ _#]?\d{1,3}\b)",
    re.IGNORECASE,
)
_SPLITS = (
    r";\s?",
    r",\s(?=[^,;]*(?:support|partial))(?!(?:because|but|so|and therefore)\b)",
    r"\s[/|]\s",
)


def _row(line: Line) -> LabelList | None:
    """The answer in a line of several labels: in a row, or each with its number or nugget."""
    found = list(SPELLING.finditer(line.text))
    if len(found) < 2:
        return None
    between = [
        _BETWEEN.fullmatch(line.text[a.end() : b.start()].lower()) for a, b in pairwise(found)
    ]
    if not all(between) or not all(map(spelled, found)):
        return _enumerated(line)
    start, end = found[0].start(), found[-1].end()
    before, after = line.text[:start].lower(), line.text[end:].lower()
    if not _is_introduced(before) and not pattern("respectively").search(after):
        return None
    rest = after.strip(" \t\"'`*_()[]{}<>.,;!|。~$")
    if (
        rest
        and not pattern("respectively").match(rest)
        and after.lstrip("\"'`*_)]}> ")[:1] not in "(#–—.["
    ):
        return None
    labels = [label for match in found if (label := spelled(match))]
    separators = ["\t" if "\t" in m[0] else (m["sep"] or "").strip(", ") for m in between if m]
    is_menu = any(m["or"] for m in between if m) or pattern("example").search(rest) is not None
    if len(set(labels)) == len(labels) and _ALTERNATING & set(separators):
        is_menu = is_menu or len(labels) == 2 or tuple(labels) == LABELS
    is_menu = is_menu or (tuple(labels) == LABELS and before.endswith("<"))
    name = _NAMES.get(max(set(separators), key=separators.count), "csv")
    answer = LabelList(
        name, "row", (line.start + start, line.start + end), tuple(map(Slot, labels))
    )
    return answer.without("menu") if is_menu else answer


def _is_introduced(before: str) -> bool:
    """True if what stands before labels in a row announces them."""
    is_empty = not before.strip(" \t\"'`*_([{<>-•+")
    is_led = re.search(r"[:=→>|\[(\"-][\s*_`\"'(\[{<]*\Z", before) is not None
    return (
        is_empty or is_led or (len(before) < 120 and pattern("verdict").search(before) is not None)
    )


def _enumerated(line: Line) -> LabelList | None:
    """``1. support, 2. not_support``; ``opened → support; closed → not_support``."""
    text = line.text
    if pattern("revision").search(text.lower()):
        return None
    cuts = [0, *(match.start() for match in _ANOTHER.finditer(text)), len(text)]
    numbered = [text[a:b] for a, b in pairwise(cuts)]
    lead = numbered.pop(0) if len(numbered) > 1 and not SPELLING.search(numbered[0]) else ""
    for parts, name in (
        (numbered, "numbered"),
        *((re.split(each, text), "csv") for each in _SPLITS),
    ):
        pieces = [read_piece(re.sub(r"^\s*and\s", "", part).strip(" ,;|\t")) for part in parts]
        numbers = [piece.index for piece in pieces if piece.index is not None]
        kinds = {piece.kind for piece in pieces}
        is_fit = len(numbers) == (len(pieces) if name == "numbered" else 0) and numbers == sorted(
            numbers
        )
        if (
            len(parts) > 1
            and is_fit
            and all(p.label for p in pieces)
            and kinds <= {"bare", "explained", "ended", "field"}
        ):
            span = (line.start + (len(lead) if name == "numbered" else 0), line.end)
            return _answer(name, "row", span, [Slot(p.label, p.index) for p in pieces], pieces)
    return None


def _answer(name: str, rule: str, span: Span, slots: list[Slot], pieces: list[Piece]) -> LabelList:
    texts = tuple((piece.before, piece.after) for piece in pieces)
    return LabelList(name, rule, span, tuple(slots), texts=texts)


_NUMBERS = r"(?:(?:nuggets?|n|items?)[\s#]{0,3})?\d{1,3}"
_GROUP = re.compile(
    rf"\s?[:=→-]\W{{0,9}}(?P<numbers>{_NUMBERS}(?:\s?(?:,|and|&|, and)\s?{_NUMBERS})*|none|-)\W*",
    re.IGNORECASE,
)


def _grouped(lines: list[Line]) -> LabelList | None:
    """``support: 1, 3`` and on the next line ``not_support: 2``, if each number occurs once."""
    groups: list[tuple[Line, re.Match[str]]] = []
    slots: list[Slot] = []
    for line in lines:
        label = SPELLING.search(line.text, 0, 40)
        match = _GROUP.fullmatch(line.text.rstrip(" *_`"), label.end()) if label else None
        if (
            label is not None
            and match is not None
            and not re.search(r"\w", line.text[: label.start()])
        ):
            groups.append((line, match))
            slots += (Slot(spelled(label), int(n)) for n in re.findall(r"\d+", match["numbers"]))
    numbers = [slot.index for slot in slots]
    if len(groups) < 2 or set(numbers) != set(range(1, len(set(numbers)) + 1)):
        return None
    name = groups[0][0].region.format if groups[0][0].region else "yaml"
    is_counts = len(numbers) != len(set(numbers)) and len(numbers) == len(groups)
    return (
        None
        if is_counts
        else LabelList(name, "groups", (groups[0][0].start, groups[-1][0].end), tuple(slots))
    )


# Lists


@dataclass(slots=True)
class _Listing:
    """Collects lines with one label each into lists."""

    answers: list[LabelList] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    span: Span = (0, 0)
    pending: int | None = None  # the number of a nugget without a label so far
    name: str = ""
    region: Region | None = None
    has_skipped: bool = False  # several numbers in a row had no label

    def add(self, line: Line) -> None:
        if line.region is not self.region:
            self.flush()
            self.region = line.region
        piece = read_piece(line.text)
        if piece.kind == "said" and (piece.index is not None or self.pending is not None):
            label = read_sentence(piece.before)
            piece = Piece("said", label, piece.index, piece.mark, piece.before)
        is_text = piece.kind in ("text", "said") and piece.label is None and piece.index is None
        if is_text and self._is_unknown(line.text, piece):
            self._append(Slot(None, self.pending), line)
            self.pending = None
        elif piece.label is not None:
            self._take(piece, line)
        elif piece.index is not None:
            self._open(piece.index, line)
        else:
            self._pass(line.text.lower())

    def _is_unknown(self, text: str, piece: Piece) -> bool:
        """True if a line without a label stands where a label should."""
        if self.region is not None and ":" not in text:
            return True
        if len(text) > 60 or self.pending is not None:
            return False
        if re.match(rf"\W*(?:{pattern('verdict').pattern})\W*:\s*\S", text.lower()):
            return True
        if not self.pieces:
            return piece.mark != "" and len(text) < 25
        return piece.mark != "" and piece.mark == self.pieces[-1].mark

    def _append(self, slot: Slot, line: Line) -> None:
        self.span = (self.span[0] if self.slots else line.start, line.end)
        self.slots.append(slot)

    def _pass(self, text: str) -> None:
        """A line of text: it ends a list that it comments on."""
        is_revised = pattern("revision").search(text) or "wrong" in text
        if (
            is_revised
            and self.slots
            and self.slots[-1].index is not None
            and not self.pieces[-1].index
        ):
            self.slots = [Slot(None, slot.index) for slot in self.slots]
            return
        is_remark = self.region is not None and not text.rstrip().endswith(":")
        kinds = ("revision", "final", "draft", "example")
        if not is_remark and any(pattern(kind).search(text) for kind in kinds):
            self.flush()

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
        if index is None and pending is not None:
            index = None if self.has_skipped else pending
        elif pending is not None and pending != index and (self.slots or index == pending + 1):
            self._append(Slot(None, pending), line)
        elif (
            index is None
            and self.slots
            and self.slots[-1].index is not None
            and self._restated(piece)
        ):
            return
        if self._is_new(piece, index):
            self.flush()
        if not self.pieces:
            self.name = _name(piece, line, index)
        self._append(Slot(piece.label, index), line)
        self.pieces.append(piece)

    def _restated(self, piece: Piece) -> bool:
        """True for a second label of the same nugget; it counts if the first was in a sentence."""
        last = self.pieces[-1]
        if last.index is not None and last.kind != "said":
            return False
        if piece.label != self.slots[-1].label:
            label = piece.label if last.kind == "said" and piece.kind != "said" else None
            self.slots[-1] = Slot(label, self.slots[-1].index)
        return True

    def _is_new(self, piece: Piece, index: int | None) -> bool:
        """True if an entry cannot go on with the list: its number was there, or it has none."""
        if not self.pieces:
            return False
        if index is not None:
            return any(slot.index == index for slot in self.slots)
        return self.slots[-1].index is not None or piece.mark != self.pieces[-1].mark

    def flush(self) -> None:
        if self.pending is not None and self.slots:
            self.slots.append(Slot(None, self.pending))
        if self.pieces:
            region = self.region
            rule = (
                "brackets"
                if region
                else "sentences"
                if any(p.kind == "said" for p in self.pieces)
                else "list"
            )
            answer = _answer(
                region.format if region else self.name, rule, self.span, self.slots, self.pieces
            )
            if region is not None and region.is_cut and self.slots[-1].label is None:
                answer = replace(answer, is_cut=True)
            self.answers.append(answer)
        self.slots, self.pieces, self.pending = [], [], None


def _name(piece: Piece, line: Line, index: int | None) -> str:
    if index is not None:
        return "yaml" if re.match(r"\s*(?:-\s)?\d+:\s", line.text) else "numbered"
    if line.fence in ("yaml", "yml", "markdown", "md", "csv"):
        return {"yml": "yaml", "md": "markdown"}.get(line.fence, line.fence)
    return "yaml" if piece.mark == "-" else "markdown"
