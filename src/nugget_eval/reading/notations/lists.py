"""Candidates made of lines: lists with bullets, numbers or letters, fields, tables, bare labels."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from nugget_eval.reading.candidates import Candidate, LabelWords, Slot, make
from nugget_eval.reading.cues import is_revising, is_turn_back
from nugget_eval.reading.notations.lines import Line, read_plain, read_worded
from nugget_eval.reading.notations.rows import (
    are_grades,
    grid,
    names_label,
    one_line,
    quoted,
    read_row,
    split_cells,
)
from nugget_eval.reading.references import index_of, is_numbers, numbers_of
from nugget_eval.reading.spellings import LABELS, STEM

_ARROWS = ("→", "->", "=>")
_LINE = re.compile(r"[^\n]+")
_FENCE = re.compile(r"\s{0,12}(?:>\s?)?(?:`{3,}|~{3,})\s{0,4}([\w+-]{0,20})")
_FENCE_FORMATS = {"yaml": "yaml", "yml": "yaml", "markdown": "markdown", "md": "markdown"}


# Lines


def read_lines(text: str, words: LabelWords) -> Iterator[Line]:
    """The lines of ``text`` that are not blank, each with what it is."""
    fence: str | None = None
    last_end = 0
    for match in _LINE.finditer(text):
        source = match[0].rstrip()
        if not source:
            continue
        line = Line("text", source, (match.start(), match.start() + len(source)))
        line.after_blank = text.count("\n", last_end, match.start()) > 1
        line.fence = fence
        last_end = match.end()
        if source.lstrip(" \t>")[:3] in ("```", "~~~"):
            opened = _FENCE.match(source)
            fence = (opened[1].lower() if opened else "") if fence is None else None
            line.kind = "fence"
        else:
            _classify(line, words)
        yield line


def _classify(line: Line, words: LabelWords) -> None:
    """Set what the line is; replies repeat lines, so short ones are cached."""
    known = _known(line.text, words) if len(line.text) <= 200 else None
    if known is None:
        _fill(line, words)
        return
    for name in _FILLED:
        setattr(line, name, getattr(known, name))
    line.span = (line.span[0] + known.span[0], line.span[1])


_FILLED = (
    *("kind", "indent", "is_quoted", "bullet", "index", "mark", "is_bare", "is_scale", "label"),
    *("explained", "delimiter", "cells", "is_menu"),
)


@lru_cache(maxsize=8192)
def _known(text: str, words: LabelWords) -> Line:
    line = Line("text", text, (0, len(text)))
    _fill(line, words)
    return line


def _fill(line: Line, words: LabelWords) -> None:
    if not read_plain(line, words) and not read_row(line, words):
        read_worded(line, words)


# Lists


@dataclass(slots=True)
class _Run:
    """Consecutive lines of one kind that may form one list."""

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
    return collector.candidates


class _Collector:
    """Takes lines one by one and joins those that form one list."""

    def __init__(self, words: LabelWords) -> None:
        self.words = words
        self.candidates: list[Candidate] = []
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
        inline = one_line(line, self.words)
        if inline:
            self.finish()
            self.candidates += inline
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
        self.candidates += grid(run.lines, self.words) if run.kind == "row" else _of_slots(run)

    def _start(self, kind: str) -> _Run:
        self.finish()
        self.run = _Run(kind)
        return self.run

    def _add(self, kind: str, line: Line, *slots: Slot, joins: bool = True) -> None:
        """Add a line to the current list if it is of the same kind, else start a new list."""
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
            heading = next(above for above in reversed(run.lines) if above.kind == "label")
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
        """True if only the last item lacks a label, so that a later label must be its label."""
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
        """The conclusion about a numbered item; it counts if every earlier item has a label."""
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
        """Treat a line below ``label,nugget`` as a row if it has as many cells, one of them a label."""
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
    """False if ``support: 2`` may be a count.

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
    """True for a row with an unknown label: it still takes up a row of the table."""
    cells = split_cells(line.text, last.delimiter)
    if len(cells) != len(last.cells) or line.after_blank or last.delimiter == ",":
        return False
    line.cells, line.delimiter = tuple(cells), last.delimiter
    return True


def _is_below(run: _Run, line: Line) -> bool:
    """True for a bullet under a numbered item, which adds to that item."""
    if line.index is not None:
        return False
    item = next((above for above in reversed(run.lines) if above.index is not None), run.lines[0])
    is_remark = line.label is None and not line.after_blank
    return line.indent > item.indent or is_remark


def _fits(run: _Run, line: Line) -> bool:
    """True if an item continues the list: the same bullet, or the next number."""
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


def _of_slots(run: _Run) -> list[Candidate]:
    span = (run.lines[0].span[0], run.lines[-1].span[1])
    kind, rule = _style(run)
    kind = _FENCE_FORMATS.get(run.lines[0].fence or "", kind)
    slots, excluded = run.slots, quoted(run.lines)
    if run.kind == "lettered":
        slots = _lettered(run)
        is_menu = [slot.label for slot in slots] == list(LABELS) and run.lines[0].mark != "一"
        excluded = excluded or ("menu" if is_menu else None)
    if all(line.is_scale for line in run.lines) and are_grades(slots):
        excluded = "menu"
    is_bare = any(line.is_bare for line in run.lines)
    return make(kind, rule, span, slots, excluded=excluded, needs_all=is_bare)


def _lettered(run: _Run) -> list[Slot]:
    """The slots of a list numbered by letters; none if no single alphabet has all the letters."""
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
