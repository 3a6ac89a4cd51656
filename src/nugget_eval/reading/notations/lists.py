"""Candidates made of lines: bullets, numbered lists, records, tables, rows of cells, bare labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nugget_eval.reading.candidates import Candidate, LabelWords, Line, Slot, index_of, make
from nugget_eval.reading.cues import is_nugget, is_revising, is_turn_back
from nugget_eval.reading.notations.lines import read_lines
from nugget_eval.reading.notations.rows import grid, names_label, quoted, split_cells
from nugget_eval.reading.references import is_numbers, numbers_of
from nugget_eval.reading.remarks import body_label
from nugget_eval.reading.spellings import LABELS, ORDER, STEM, Label

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
_ARROWS = ("→", "->", "=>")
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
        return self.kind.startswith(("numbered", "lettered", "bullet")) and bool(self.slots)


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
        self._under_header(line)
        inline = _inline_numbered(line, self.words) or inline_keyed(line, self.words)
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
        if run.kind == "heading" and run.lines[-1].kind == "label":
            return  # the labels may belong to what is above them
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
        if run is not None and self._is_under_label(run, line):
            if run.kind == "label":
                run.kind, run.slots = "heading", []
            heading = next(one for one in reversed(run.lines) if one.kind == "label")
            run.lines.append(line)
            run.slots.append(Slot(heading.label, line.index, line.span))
            return
        if line.bullet in _ARROWS and line.label is not None and self._awaits_label():
            self._complete(line)
            return
        if run is not None and run.kind == "numbered" and _is_below(run, line):
            if line.label is not None:
                self._complete(line)
            return
        if run is None or not _fits(run, line):
            run = self._start(_kind(line))
        run.has_text_after_blank = False
        run.lines.append(line)
        run.slots.append(Slot(line.label, line.index, line.span, line.explained))

    @staticmethod
    def _is_under_label(run: _Run, line: Line) -> bool:
        """True for ``- Nugget 3``, and nothing else, below a line that is a label."""
        is_headed = run.kind == "heading" or (run.kind == "label" and len(run.lines) == 1)
        is_one = line.index is not None and len(re.findall(r"\d+", line.text)) == 1
        return is_headed and is_one and is_numbers(line.text)

    def _label(self, line: Line) -> None:
        run = self.run
        if run is not None and run.kind == "heading":
            run.lines.append(line)
            return
        if self._awaits_label() and (not line.after_blank or self._awaits_only_one()):
            self._complete(line)
            return
        joins = run is not None and not run.has_text_after_blank
        self._add("label", line, Slot(line.label, None, line.span, line.explained), joins=joins)

    def _awaits_label(self) -> bool:
        run = self.run
        return run is not None and run.holds_items and run.slots[-1].label is None

    def _awaits_only_one(self) -> bool:
        """True if the last item is the only one without a label: one that follows later is its own."""
        run = self.run
        return run is not None and all(slot.label is not None for slot in run.slots[:-1])

    def _field(self, line: Line) -> None:
        """``Label: support``: of the item above it, or one of a list of fields."""
        if self.run is not None and self.run.holds_items:
            self._complete(line)
        else:
            self._add("field", line, Slot(line.label, None, line.span, line.explained))

    def _keyed(self, line: Line) -> None:
        joins = self.run is not None and not self.run.has_text_after_blank
        self._add("keyed", line, Slot(line.label, None, line.span), joins=joins)

    def _group(self, line: Line) -> None:
        joins = self.run is not None and not self.run.has_text_after_blank
        slots = (Slot(line.label, int(number), line.span) for number in line.cells)
        self._add("group", line, *slots, joins=joins)

    def _verdict(self, line: Line) -> None:
        """The end of what is said about a numbered item, as far as every item before it has a label."""
        run = self.run
        if run is not None and run.kind == "numbered" and run.slots:
            is_first = run.slots[-1].label is None and self._awaits_only_one()
            if is_first or run.lines[-1].kind == "verdict":
                self._complete(line)
                return
        (self._keyed if line.explained else self._text)(line)

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
            or line.has_lead
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
        is_header = any(map(names_label, cells)) or all(
            index_of(cell) is not None for cell in (cells[1:] or cells)
        )
        if len(cells) != len(line.cells) or not is_header:
            return []
        before.cells, before.delimiter = tuple(cells), line.delimiter
        return [before]

    _before: Line | None = None

    def _under_header(self, line: Line) -> None:
        """Make a row of a line below ``label,nugget`` that has as many cells and a label in place."""
        header = self._before
        if header is None or line.after_blank or line.kind == "row" or STEM.search(header.text):
            return
        for delimiter in ",;":
            names = split_cells(header.text, delimiter) if delimiter in header.text else []
            cells = split_cells(line.text, delimiter) if len(names) > 1 else []
            if len(cells) == len(names) and any(
                names_label(name) and self.words(cell)
                for name, cell in zip(names, cells, strict=True)
            ):
                line.kind, line.delimiter, line.cells = "row", delimiter, tuple(cells)
                return

    def _text(self, line: Line) -> None:
        run = self.run
        self._before = line
        if run is None:
            return
        if run.kind == "numbered" and run.lines[-1].kind == "verdict" and _may_revise(line.text):
            run.slots[-1] = replace(run.slots[-1], label=None)  # the verdict may be taken back
        if run.kind in ("row", "label", "field", "keyed"):
            if run.kind == "row" and _is_row_like(run.lines[-1], line):
                run.lines.append(line)
            elif run.kind != "field" or is_turn_back(line.text):
                self.finish()
        elif line.after_blank and not line.indent:
            run.has_text_after_blank = True


def _may_revise(text: str) -> bool:
    """True if a line below a verdict may take it back."""
    return bool(STEM.search(text)) or is_revising(text) or text.startswith("But ")


def _is_of_numbers(run: _Run) -> bool:
    """False where ``support: 2`` may be a count.

    No count has several numbers, comes twice for one label, or has the word *nugget* beside it.
    """
    is_repeated = len({line.label for line in run.lines}) < len(run.lines)
    return is_repeated or any(line.explained or len(line.cells) > 1 for line in run.lines)


def _kind(line: Line) -> str:
    """The kind of list that an item belongs to."""
    if line.index is not None:
        return "numbered"
    return "lettered" if line.mark else f"bullet{line.bullet}"


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
        same = run.kind == _kind(line) and line.indent == run.lines[0].indent
        return same and (not run.has_text_after_blank or line.bullet in _ARROWS)
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
    slots, excluded = run.slots, quoted(run.lines)
    if run.kind == "lettered":
        slots = _lettered(run)
        is_menu = [slot.label for slot in slots] == list(LABELS) and run.lines[0].mark != "一"
        excluded = excluded or ("menu" if is_menu else None)
    if all(line.is_scale for line in run.lines) and _is_scale(slots):
        excluded = "menu"
    candidate = make(kind, rule, span, slots, excluded=excluded)
    is_bare = any(line.is_bare for line in run.lines)
    return replace(candidate, needs_all=True) if candidate and is_bare else candidate


def _is_scale(slots: Sequence[Slot]) -> bool:
    """True for labels in order, with grades: ``0 = not_support``, ``1 = partial_support``, …"""
    labels = [slot.label for slot in sorted(slots, key=lambda slot: slot.index or 0)]
    has_zero = any(slot.index == 0 for slot in slots)
    return labels in (list(LABELS), list(ORDER)) or (has_zero and len(set(labels)) == len(labels))


def _lettered(run: _Run) -> list[Slot]:
    """The slots of a list numbered by letters; none if the letters are of no one alphabet."""
    marks = [line.mark for line in run.lines if line.mark]
    numbers = numbers_of(marks) if len(marks) == len(run.slots) else None
    return [replace(slot, index=n) for slot, n in zip(run.slots, numbers or (), strict=False)]


def _style(run: _Run) -> tuple[str, str]:
    """The format and rule of a list of items."""
    if run.kind == "numbered":
        is_mapping = all(
            line.kind != "item" or (line.text.lstrip()[:1].isdigit() and ":" in line.text[:10])
            for line in run.lines
        )
        return ("yaml", "mapping") if is_mapping else ("numbered", "numbered")
    is_dashed = run.kind == "bullet-"
    return _STYLES.get(run.kind) or ("yaml" if is_dashed else "markdown", "bullets")


_STYLES = {
    "lettered": ("numbered", "lettered"),
    "label": ("csv", "lines"),
    "field": ("prose", "fields"),
    "keyed": ("yaml", "keyed"),
    "group": ("yaml", "grouped"),
    "heading": ("markdown", "grouped"),
}


# One line


def _inline_numbered(line: Line, words: LabelWords) -> Candidate | None:
    """``1. support, 2. not_support`` on one line, also behind a few words and a colon."""
    if line.kind in ("fence", "rule", "group") or len(line.text) > 20_000:
        return None
    if not words.plain_words and not _has_two_labels(line.text):
        return None
    marks = list(_INLINE_NUMBER.finditer(line.text))
    if len(marks) < 2:
        return _inline_lettered(line, words)
    ends = [mark.start() for mark in marks[1:]] + [len(line.text)]
    slots = [
        Slot(_inline_label(line.text[mark.end() : end], words), int(mark["index"]))
        for mark, end in zip(marks, ends, strict=True)
    ]
    if not all(slot.label and slot.index < _YEARS for slot in slots if slot.index is not None):
        return None
    is_bare = any(mark["bare"] is not None for mark in marks)
    if is_bare and [slot.index for slot in slots] != list(range(1, len(slots) + 1)):
        return None  # ``2 support, 1 not_support`` counts labels
    start = line.span[0] + marks[0].start()
    is_scale = all("=" in mark[0] or mark["bare"] is not None for mark in marks)
    excluded = "menu" if is_scale and _is_scale(slots) else quoted([line])
    candidate = make("numbered", "inline", (start, line.span[1]), slots, excluded=excluded)
    return replace(candidate, needs_all=True) if candidate and is_bare else candidate


def _inline_lettered(line: Line, words: LabelWords) -> Candidate | None:
    """``a) support, b) not_support`` on one line."""
    marks = list(_INLINE_LETTER.finditer(line.text))
    numbers = numbers_of([mark["mark"].lower() for mark in marks]) if len(marks) > 1 else None
    if numbers is None or numbers[0] != 1:
        return None
    ends = [mark.start() for mark in marks[1:]] + [len(line.text)]
    slots = [
        Slot(_inline_label(line.text[mark.end() : end], words), number)
        for mark, end, number in zip(marks, ends, numbers, strict=True)
    ]
    if not all(slot.label for slot in slots):
        return None
    excluded = "menu" if [slot.label for slot in slots] == list(LABELS) else quoted([line])
    span = (line.span[0] + marks[0].start(), line.span[1])
    return make("numbered", "inline", span, slots, excluded=excluded)


_INLINE_KEYED = re.compile(
    r"[ \t]*(?P<key>[^;→]{2,300}?)[ \t]*(?P<mark>→|->|=>|:)[ \t]*(?P<label>[^;,:→]{4,40}?)[ \t]*"
    r"(?:[;,]|\.?\Z)"
)


def inline_keyed(line: Line, words: LabelWords) -> Candidate | None:
    """``Opened in 1932 → support; closed in 1999 → not_support`` on one line."""
    if line.kind in ("fence", "rule", "group", "item") or not _MARKED_PAIR.search(line.text):
        return None
    slots, at = [], 0
    while at < len(line.text.rstrip()):
        pair = _INLINE_KEYED.match(line.text, at)
        label = words(pair["label"], strict_slot=False) if pair else None
        if (
            pair is None
            or label is None
            or not is_nugget(pair["key"], is_pointed=pair["mark"] != ":")
        ):
            return None
        slots.append(Slot(label, None, (line.span[0] + at, line.span[0] + pair.end())))
        at = pair.end()
    return (
        make("prose", "keyed", line.span, slots, excluded=quoted([line]))
        if len(slots) > 1
        else None
    )


_MARKED_PAIR = re.compile(r"(?:→|->|=>|:)[^;,]{4,40}[;,][^;]{2,300}(?:→|->|=>|:)")


def _has_two_labels(text: str) -> bool:
    first = STEM.search(text)
    return first is not None and STEM.search(text, first.end()) is not None


def _inline_label(text: str, words: LabelWords) -> Label | None:
    part = text.strip(" ,;./|([").removesuffix(" and")
    return words(part) or body_label(part, words)[0]
