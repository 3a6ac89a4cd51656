"""Candidates in tags: ``<label>support</label>``, attributes, self-closing, name spaces, CDATA.

No XML parser: replies are seldom well formed, and the text around the tags is prose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from nugget_eval.reading.candidates import (
    DRAFT_KEYS,
    INDEX_KEYS,
    LABEL_KEYS,
    Candidate,
    LabelWords,
    Slot,
    Span,
    gap,
    key_of,
    make,
    names,
)
from nugget_eval.reading.references import index_of
from nugget_eval.reading.remarks import slot_label

_TAG = re.compile(r"<(/?)([A-Za-z_][\w.:-]{0,60})((?:\s[^<>]{0,500}?)?)(/?)>")
_ATTRIBUTE = re.compile(r"([\w.:-]{1,40})\s{0,4}=\s{0,4}(?:\"([^\"<>]{0,200})\"|'([^'<>]{0,200})')")
_ANSWER_TAG = re.compile(
    r"</?(?:[A-Za-z_][\w.-]{0,19}:)?(?:answers?|final(?:[_-]?answer)?|output"
    r"|labels)(?:\s[^<>]{0,500}?)?/?>",
    re.IGNORECASE,
)
_BOX = re.compile(
    r"(?P<open>\${0,2}\\boxed\{(?:\\text\{)?)(?P<inside>[^{}\n]{0,2000})(?P<close>\}{1,2}\${0,2})"
)
_LINE_BREAK = re.compile(r"<br[ \t]{0,3}/?>|</?p>", re.IGNORECASE)
_EMPHASIS = re.compile(
    r"</?(?:b|strong|i|em|u|code|mark|tt|kbd|small|font|span)(?:\s[^<>]{0,200})?>", re.IGNORECASE
)
_COMMENT = re.compile(r"<!--|-->|<\?|\?>|<!\[CDATA\[|\]\]>")
_SLOT_NAMES = LABEL_KEYS | names("item li nugget entry element l n claim fact td dd div")
# These wrap an answer of any format; only a bare label in them is a slot.
_WRAPPERS = names("answer answers labels output result results response final finalanswer")
_TRAILING_NUMBER = re.compile(r"(.*?)[_.-]?(\d{1,4})\Z")


@dataclass(slots=True)
class _Tag:
    """One tag, with the text up to the next."""

    name: str
    number: int | None
    attributes: dict[str, str]
    kind: str  # open, close, empty
    span: Span


@dataclass(slots=True)
class _Group:
    """Slots of one list, while it is being read."""

    slots: list[Slot] = field(default_factory=list)
    start: int = 0
    end: int = 0
    index: int | None = None
    depth: int = 0
    is_in_row: bool = False

    def add(self, slot: Slot, span: Span) -> None:
        if not self.slots:
            self.start = span[0]
        self.slots.append(slot)
        self.end = span[1]
        self.is_in_row = True

    def number_cell(self, number: int) -> None:
        """Apply the number in a table cell to the label before or after it in its row."""
        if self.is_in_row and self.slots[-1].index is None:
            self.slots[-1] = replace(self.slots[-1], index=number)
        elif self.index is None:
            self.index = number


def tagged(text: str, words: LabelWords) -> list[Candidate]:
    """Candidates written as elements or attributes, in order."""
    if "<" not in text or ">" not in text:
        return []
    source = _without_comments(text)
    tags = list(_tags(source))
    candidates: list[Candidate] = []
    group = _Group()
    last_end, skip = 0, -1
    for i, tag in enumerate(tags):
        gap = source[last_end : tag.span[0]]
        last_end = tag.span[1]
        if i == skip:
            continue
        if _starts_anew(tag, group, gap):
            candidates += _finished(group)
            group = _Group(depth=group.depth)
        following = tags[i + 1] if i + 1 < len(tags) else None
        if tag.kind == "open" and following and _closes(tag, following):
            skip = i + 1
            content = source[tag.span[1] : following.span[0]]
            _leaf(group, tag, content, (tag.span[0], following.span[1]), words)
            last_end = following.span[1]
        else:
            _other(group, tag, words)
    candidates += _finished(group)
    return candidates


def answer_spans(text: str) -> list[Span]:
    """The spans inside ``<answer>``, ``<final_answer>`` and similar tags, in order."""
    spans: list[Span] = []
    opened: dict[str, int] = {}
    for match in _ANSWER_TAG.finditer(text):
        tag = _Tag(*_parsed(match[0]), match.span())
        if tag.name == "labels":
            continue
        if tag.kind == "open":
            opened[tag.name] = tag.span[1]
        elif tag.kind == "close" and tag.name in opened:
            spans.append((opened.pop(tag.name), tag.span[0]))
    return spans


def plain_html(text: str) -> str:
    """``text`` of equal length, with line breaks in place of ``<br>``, and blanks for emphasis."""
    if "<" not in text:
        return text
    text = _LINE_BREAK.sub(lambda tag: " " * (len(tag[0]) - 1) + "\n", text)
    return _EMPHASIS.sub(lambda tag: " " * len(tag[0]), text)


def without_answer_tags(text: str) -> str:
    """``text`` of equal length, with ``<answer>``, similar tags and boxes blanked out."""
    if "<" in text:
        text = _ANSWER_TAG.sub(lambda tag: gap(len(tag[0])), text)
    if "\\boxed{" not in text:
        return text
    return _BOX.sub(
        lambda box: gap(len(box["open"])) + box["inside"] + gap(len(box["close"])), text
    )


def _without_comments(text: str) -> str:
    """``text`` of equal length without comments, declarations and the marks of CDATA."""
    if "<!" not in text and "<?" not in text:
        return text
    pieces, at, opened = [], 0, ""
    for mark in _COMMENT.finditer(text):
        piece = text[at : mark.start()]
        pieces.append(" " * len(piece) if opened else piece)
        pieces.append(" " * len(mark[0]))
        at = mark.end()
        if mark[0] in ("<!--", "<?"):
            opened = opened or mark[0]
        elif (mark[0], opened) in (("-->", "<!--"), ("?>", "<?")):
            opened = ""
    pieces.append(" " * (len(text) - at) if opened else text[at:])
    return "".join(pieces)


def _tags(text: str) -> Iterator[_Tag]:
    for match in _TAG.finditer(text):
        yield _Tag(*_parsed(match[0]), match.span())


@lru_cache(maxsize=4096)
def _parsed(source: str) -> tuple[str, int | None, dict[str, str], str]:
    """Name, number, attributes and kind of a tag; cached, because replies repeat tags."""
    tag = _TAG.match(source)
    assert tag is not None
    local = tag[2].rpartition(":")[2]
    numbered = _TRAILING_NUMBER.match(local) if local[-1:].isdigit() else None
    kind = "close" if tag[1] else "empty" if tag[4] else "open"
    attributes = _attributes(tag[3]) if tag[3] and not tag[1] else {}
    return key_of(local), int(numbered[2]) if numbered else None, attributes, kind


def _attributes(source: str) -> dict[str, str]:
    return {
        key_of(name.rpartition(":")[2]): double or single
        for name, double, single in _ATTRIBUTE.findall(source)
    }


def _closes(tag: _Tag, following: _Tag) -> bool:
    return following.kind == "close" and following.name == tag.name


def _starts_anew(tag: _Tag, group: _Group, gap: str) -> bool:
    """True if a new list begins: a wrapper opens, or prose separates outermost elements."""
    if not group.slots:
        return False
    is_wrapper = tag.kind == "open" and tag.name in _WRAPPERS and group.depth == 0
    return is_wrapper or (group.depth == 0 and bool(gap.strip(" \t\r\n,;|&")))


def _finished(group: _Group) -> list[Candidate]:
    return make("xml", "elements", (group.start, group.end), group.slots)


def _leaf(group: _Group, tag: _Tag, content: str, span: Span, words: LabelWords) -> None:
    """An element without elements in it: a label, the number of the next label, or neither."""
    index = _index(tag)
    by_attribute = _label_attribute(tag)
    label = slot_label(by_attribute if by_attribute is not None else content, words)
    number = index_of(content.strip()) if label is None else None
    if number is not None and tag.name in INDEX_KEYS:
        group.index = number
        return
    if number is not None and tag.name == "td":
        group.number_cell(number)
        return
    if tag.name in DRAFT_KEYS or not (tag.name in _SLOT_NAMES or by_attribute is not None):
        return
    is_other = tag.name in _WRAPPERS or tag.name not in LABEL_KEYS
    if label is None and by_attribute is None and is_other:
        return  # a wrapper of another format, or the nugget's own text
    chosen = index if index is not None else group.index
    group.add(Slot(label, chosen, span), span)
    group.index = None


def _other(group: _Group, tag: _Tag, words: LabelWords) -> None:
    """A tag that is not a leaf: it may carry the label, or the number of what it holds."""
    if tag.name == "tr":
        group.index, group.is_in_row = None, False
    if tag.kind == "close":
        group.depth = max(0, group.depth - 1)
        return
    by_attribute = _label_attribute(tag)
    if by_attribute is not None:
        label = words(by_attribute)
        group.add(Slot(label, _index(tag), tag.span), tag.span)
    elif tag.kind == "empty":
        return
    elif _index(tag) is not None:
        group.index = _index(tag)
    if tag.kind == "open":
        group.depth += 1


def _label_attribute(tag: _Tag) -> str | None:
    for name, value in tag.attributes.items():
        if name in LABEL_KEYS:
            return value
    return None


def _index(tag: _Tag) -> int | None:
    if tag.number is not None:
        return tag.number
    for name, value in tag.attributes.items():
        if name in INDEX_KEYS and index_of(value) is not None:
            return index_of(value)
    return None
