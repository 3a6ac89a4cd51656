"""Candidates made of lines: bullets, numbered lists, records, tables, rows of cells, bare labels."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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
from nugget_eval.reading.lines import DELIMITERS, Line, read_lines, split_cells

_INLINE_NUMBER = re.compile(
    r"(?:\A|(?<=[\s,;(]))(?:nugget[ \t]{0,2}#?)?\(?#?(\d{1,4})[ \t]?(?:[.):=]|->|→|-(?=[ \t]))[ \t]*",
    re.IGNORECASE,
)
_FENCE_FORMATS = {
    "json": "json",
    "yaml": "yaml",
    "yml": "yaml",
    "markdown": "markdown",
    "md": "markdown",
    "csv": "csv",
    "tsv": "tsv",
}


@dataclass(slots=True)
class _Run:
    """Lines that belong together, as they are collected. ``kind`` is that of its lines."""

    kind: str
    lines: list[Line] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    has_text_after_blank: bool = False

    @property
    def holds_items(self) -> bool:
        return self.kind.startswith(("numbered", "bullet")) and bool(self.slots)


def listed(text: str, words: LabelWords) -> list[Candidate]:
    """Candidates made of lines, in order."""
    collector = _Collector(words)
    for line in read_lines(text, words):
        collector.take(line)
    collector.finish()
    return collector.found


class _Collector:
    """Takes lines one by one and puts those together that are one list."""

    def __init__(self, words: LabelWords) -> None:
        self.words = words
        self.found: list[Candidate] = []
        self.run: _Run | None = None

    def take(self, line: Line) -> None:
        if line.kind == "fence":
            self.finish()
            return
        if self.run is not None and self.run.lines[-1].is_quoted != line.is_quoted:
            self.finish()
        if line.kind == "rule":
            return
        inline = _inline_numbered(line, self.words)
        if inline is not None:
            self.finish()
            self.found.append(inline)
            return
        getattr(self, f"_{line.kind}", self._text)(line)

    def finish(self) -> None:
        """Close the list that is being collected."""
        run, self.run = self.run, None
        if run is None or not run.lines:
            return
        if run.kind == "group" and not _is_of_numbers(run):
            return
        candidate = grid(run.lines, self.words) if run.kind == "row" else _of_slots(run)
        if candidate is not None:
            self.found.append(candidate)

    def _start(self, kind: str) -> _Run:
        self.finish()
        self.run = _Run(kind)
        return self.run

    def _add(self, kind: str, line: Line, *slots: Slot, joins: bool = True) -> None:
        """Put a line into the list of its kind that is being collected, or into a new one."""
        run = self.run
        if run is None or run.kind != kind or not joins:
            run = self._start(kind)
        run.lines.append(line)
        run.slots += slots

    def _item(self, line: Line) -> None:
        run = self.run
        if run is not None and run.kind == "numbered" and _is_below(run, line):
            if line.label is not None:
                self._complete(line)
            return
        if run is None or not _fits(run, line):
            run = self._start("numbered" if line.index is not None else f"bullet{line.bullet}")
        run.has_text_after_blank = False
        run.lines.append(line)
        run.slots.append(Slot(line.label, line.index, line.span, line.explained))

    def _label(self, line: Line) -> None:
        run = self.run
        awaits = run is not None and run.holds_items and run.slots[-1].label is None
        if awaits and not line.after_blank:
            self._complete(line)
            return
        joins = run is not None and not run.has_text_after_blank
        self._add("label", line, Slot(line.label, None, line.span), joins=joins)

    def _field(self, line: Line) -> None:
        """``Label: support``: of the item above it, or one of a list of fields."""
        if self.run is not None and self.run.holds_items:
            self._complete(line)
        else:
            self._add("field", line, Slot(line.label, None, line.span, line.explained))

    def _group(self, line: Line) -> None:
        joins = self.run is not None and not self.run.has_text_after_blank
        slots = (Slot(line.label, int(number), line.span) for number in line.cells)
        self._add("group", line, *slots, joins=joins)

    def _complete(self, line: Line) -> None:
        """Give the last item its label; a second, different one makes it unknown."""
        assert self.run is not None
        last = self.run.slots[-1]
        is_new = last.label is None
        label = line.label if is_new or last.label == line.label else None
        start = (last.span or line.span)[0]
        self.run.slots[-1] = Slot(label, last.index, (start, line.span[1]), explained=True)
        self.run.lines.append(line)

    def _row(self, line: Line) -> None:
        run = self.run
        last = run.lines[-1] if run is not None and run.kind == "row" else None
        if (
            last is None
            or line.after_blank
            or (last.delimiter, len(last.cells)) != (line.delimiter, len(line.cells))
        ):
            header = self._header(line)
            self._start("row").lines += header
        self._add("row", line)

    def _header(self, line: Line) -> list[Line]:
        """The line before the first row, if it has as many cells and names a column."""
        before = self._before
        if before is None or line.after_blank or line.delimiter not in before.text:
            return []
        cells = split_cells(before.text, line.delimiter)
        names = [key_of(cell) for cell in cells]
        is_header = any(name in LABEL_KEYS for name in names) or all(
            index_of(cell) is not None for cell in cells
        )
        if len(cells) != len(line.cells) or not is_header:
            return []
        before.cells, before.delimiter = tuple(cells), line.delimiter
        return [before]

    _before: Line | None = None

    def _text(self, line: Line) -> None:
        run = self.run
        self._before = line
        if run is None:
            return
        if run.kind in ("row", "label", "field"):
            if run.kind == "row" and _is_row_like(run.lines[-1], line):
                run.lines.append(line)
            elif run.kind != "field" or line.after_blank:
                self.finish()
        elif line.after_blank and not line.indent:
            run.has_text_after_blank = True


def _is_of_numbers(run: _Run) -> bool:
    """False where ``support: 2`` may be a count: each label has one number and no word says *nugget*."""
    return any(line.explained or len(line.cells) > 1 for line in run.lines)


def _is_row_like(last: Line, line: Line) -> bool:
    """A row whose label is not known keeps its place in the table."""
    cells = split_cells(line.text, last.delimiter)
    if len(cells) != len(last.cells) or line.after_blank or last.delimiter == ",":
        return False
    line.cells, line.delimiter = tuple(cells), last.delimiter
    return True


def _is_below(run: _Run, line: Line) -> bool:
    """True for a bullet under a numbered item: it says more about that item."""
    if line.index is not None:
        return False
    item = next((one for one in reversed(run.lines) if one.index is not None), run.lines[0])
    is_remark = line.label is None and not line.after_blank
    return line.indent > item.indent or is_remark


def _fits(run: _Run, line: Line) -> bool:
    """True if an item goes on with the list: the same bullet, or the next number."""
    if line.index is None:
        same = run.kind == f"bullet{line.bullet}" and line.indent == run.lines[0].indent
        return same and not run.has_text_after_blank
    if run.kind != "numbered":
        return False
    numbers = [slot.index for slot in run.slots[-1:]]
    if run.has_text_after_blank:
        return numbers[-1] is not None and line.index == numbers[-1] + 1
    restarts = line.index <= 1 and len(run.slots) > 1 and numbers[-1] != line.index
    return not (restarts and run.slots[0].index == line.index)


def _of_slots(run: _Run) -> Candidate | None:
    span = (run.lines[0].span[0], run.lines[-1].span[1])
    name = _FENCE_FORMATS.get(run.lines[0].fence or "")
    kind, rule = _style(run)
    kind = name if name in ("yaml", "markdown") else kind
    return make(kind, rule, span, run.slots, excluded=_quoted(run.lines))


def _style(run: _Run) -> tuple[str, str]:
    """The format and rule of a list of items."""
    if run.kind == "numbered":
        is_mapping = all(
            line.kind != "item" or (line.text.lstrip()[:1].isdigit() and ":" in line.text[:10])
            for line in run.lines
        )
        return ("yaml", "mapping") if is_mapping else ("numbered", "numbered")
    if run.kind == "label":
        return "csv", "lines"
    if run.kind == "field":
        return "prose", "fields"
    if run.kind == "group":
        return "yaml", "grouped"
    return ("yaml" if run.kind == "bullet-" else "markdown"), "bullets"


# One line


def _inline_numbered(line: Line, words: LabelWords) -> Candidate | None:
    """``1. support, 2. not_support`` on one line, also behind a few words and a colon."""
    if line.kind not in ("item", "row", "text", "field") or len(line.text) > 20_000:
        return None
    marks = list(_INLINE_NUMBER.finditer(line.text))
    if len(marks) < 2:
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(line.text)]
    slots = [
        Slot(words(line.text[mark.end() : end].strip(" ,;.")), int(mark[1]))
        for mark, end in zip(marks, ends, strict=True)
    ]
    if not all(slot.label for slot in slots):
        return None
    start = line.span[0] + marks[0].start()
    return make("numbered", "inline", (start, line.span[1]), slots, excluded=_quoted([line]))


def _quoted(lines: list[Line]) -> str | None:
    return "quote" if all(line.is_quoted for line in lines) else None


def grid(lines: list[Line], words: LabelWords) -> Candidate | None:
    """A table or rows of cells: the column that holds labels, or one row that is the answer."""
    span = (lines[0].span[0], lines[-1].span[1])
    excluded = "menu" if any(line.is_menu for line in lines) else _quoted(lines)
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
