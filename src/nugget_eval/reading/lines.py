"""Text as lines: what each one is (list item, field, row of cells, a bare label, prose), and where."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from nugget_eval.reading.candidates import LABEL_KEYS, LabelWords, Span, index_of, key_of
from nugget_eval.reading.spellings import STEM, Label

_LINE = re.compile(r"[^\n]+")
FENCE = re.compile(r"\s{0,12}(?:>\s?)?(?:`{3,}|~{3,})\s{0,4}([\w+-]{0,20})")
_QUOTE = re.compile(r"\s{0,8}>\s?(?![\w/])|\s{0,8}>\s")
_ITEM = re.compile(
    r"[ \t]*(?:#{1,6}[ \t]+)?(?P<bullet>[-*+•‣·–—○●▪◦](?=[ \t]))?[ \t]*(?:\[[ xX✓]\][ \t]+)?"
    r"(?P<number>[*_`]{0,3}(?P<word>(?:nugget|item|claim|fact|statement|label|answer|number|no\.?|id)"
    r"[ \t_#-]{0,3})?[(\[#]?(?P<index>\d{1,4})(?!\d)[*_`\"]{0,3}[ \t]?"
    r"(?:\.(?!\d)|[):\]=]{1,2}|->|=>|[→–—]|-(?=[ \t])|(?(word)(?=[ \t*_`]{0,4}\Z)|(?!)))"
    r"[*_`]{0,3}(?![\w.]*\d[.:]\d))?"
    r"[ \t]*(?P<body>.*)",
    re.IGNORECASE,
)
_FIELD = re.compile(
    r"[ \t]*(?:[-*+•][ \t]+)?[*_`\"]{0,3}(?P<key>[A-Za-z][A-Za-z _-]{0,30}?)[*_`\"]{0,3}[ \t]?"
    r"(?:[:→]|=(?![\"'“<])|->|=>)[*_`]{0,3}[ \t]*(?P<value>.*)"
)
_TABLE_RULE_MARKS = frozenset(" \t|:-")
DELIMITERS = {"\t": "tsv", "|": "pipe", ",": "csv", ";": "csv"}
_LONGEST_LINE = 20_000


@dataclass(slots=True)
class Line:
    """One line that is not blank.

    ``kind`` is ``item``, ``field``, ``row``, ``label``, ``group``, ``fence``, ``rule`` or ``text``.
    ``label`` is what an item, field or bare line says; ``cells`` belong to a row.
    """

    kind: str
    text: str
    span: Span
    indent: int = 0
    after_blank: bool = False
    is_quoted: bool = False
    fence: str | None = None
    bullet: str = ""
    index: int | None = None
    label: Label | None = None
    explained: bool = False
    delimiter: str = ""
    cells: tuple[str, ...] = ()
    is_menu: bool = False


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
            opened = FENCE.match(source)
            fence = (opened[1].lower() if opened else "") if fence is None else None
            line.kind = "fence"
        else:
            _classify(line, words)
        yield line


def _classify(line: Line, words: LabelWords) -> None:
    """Fill in what the line is; lines come again and again, so this is remembered."""
    known = _known(line.text, words) if len(line.text) <= 200 else None
    if known is None:
        _fill(line, words)
        return
    for name in _FILLED:
        setattr(line, name, getattr(known, name))
    line.span = (line.span[0] + known.span[0], line.span[1])


_FILLED = (
    *("kind", "indent", "is_quoted", "bullet", "index", "label", "explained", "delimiter"),
    *("cells", "is_menu"),
)


@lru_cache(maxsize=8192)
def _known(text: str, words: LabelWords) -> Line:
    line = Line("text", text, (0, len(text)))
    _fill(line, words)
    return line


def _fill(line: Line, words: LabelWords) -> None:
    source = line.text
    if source.lstrip()[:1] == ">" and _QUOTE.match(source):
        line.is_quoted = True
        source = source.lstrip()[1:]
    line.indent = len(source) - len(source.lstrip())
    if len(source) > _LONGEST_LINE:
        return
    if "--" in source and _TABLE_RULE_MARKS.issuperset(source):
        line.kind = "rule"
        return
    if not words.plain_words and STEM.search(source) is None:
        _item(line, source, words)
        return
    label = words(source)
    if label is None and ":" in source and _group(line, source, words):
        return
    if label is not None:
        line.kind, line.label = "label", label
        _item(line, source, words)  # as ``- support``, all of which spells a label
        return
    if not _row(line, source, words) and not _field(line, source, words):
        _item(line, source, words)


_NUMBER_WORDS = frozenset(("nugget", "nuggets", "item", "items", "and", "none"))
_NUMBER_TOKEN = re.compile(r"[a-z]+|\d+|[^\s\w,;.&#()\[\]*]")


def _group(line: Line, source: str, words: LabelWords) -> bool:
    """True for ``support: 1, 3``: a label and the numbers of its nuggets."""
    head, _, tail = source.partition(":")
    label = words(head.strip(" \t-•+"), strict_slot=False)
    tokens = _NUMBER_TOKEN.findall(tail.lower()) if label is not None and tail.strip() else []
    if not tokens or not all(len(t) < 5 if t.isdigit() else t in _NUMBER_WORDS for t in tokens):
        return False
    line.kind, line.label = "group", label
    line.explained = "nugget" in tail.lower() or "item" in tail.lower() or "[" in tail
    line.cells = tuple(token for token in tokens if token.isdigit())
    return True


def _item(line: Line, source: str, words: LabelWords) -> None:
    match = _ITEM.match(source)
    if match is None or not (match["bullet"] or match["number"]):
        return
    line.kind = "item"
    line.bullet = match["bullet"] or ""
    line.index = int(match["index"]) if match["index"] else None
    line.label, line.explained = body_label(match["body"].strip(), words)


def _field(line: Line, source: str, words: LabelWords) -> bool:
    match = _FIELD.match(source)
    if match is None:
        return False
    key = key_of(match["key"])
    if key.removeprefix("final").removeprefix("the") not in LABEL_KEYS or words(match["key"]):
        return False
    label, explained = body_label(match["value"].strip(), words)
    if label is None:
        return False
    line.kind, line.label, line.explained = "field", label, explained
    return True


# Rows of cells


def _row(line: Line, source: str, words: LabelWords) -> bool:
    """True if the line is cells with a delimiter between, and at least one is a label."""
    for delimiter in DELIMITERS:
        if delimiter not in source:
            continue
        cells, lead = _without_lead(split_cells(source, delimiter), words)
        cells = [part for cell in cells for part in _and_parts(cell, words)]
        line.is_menu = _is_menu(source, delimiter, cells, words)
        if line.is_menu or (len(cells) > 1 and _is_plausible(cells, words)):
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


_LEAD = re.compile(r".{0,200}?(?:[:=]|\b(?:is|are)\b)[\s\"'*`]*(?=[^:=]{1,40}\Z)")


def _without_lead(cells: list[str], words: LabelWords) -> tuple[list[str], int]:
    """``Final answer: support, …`` without the words before the first label, and their length."""
    if len(cells[0]) > 300 or words(cells[0]) is not None:
        return cells, 0
    lead = _LEAD.match(cells[0])
    if lead is None or words(cells[0][lead.end() :]) is None or index_of(lead[0].rstrip(" :=")):
        return cells, 0
    return [cells[0][lead.end() :], *cells[1:]], lead.end()


def _and_parts(cell: str, words: LabelWords) -> list[str]:
    """``support and not_support`` as two cells; ``and support`` without its *and*."""
    if " and " not in f" {cell}":
        return [cell]
    parts = [part.strip() for part in re.split(r"(?:\A|\s)and\s", cell) if part.strip()]
    return parts if parts and all(words(part) for part in parts) else [cell]


def split_cells(source: str, delimiter: str) -> list[str]:
    """The cells of a line, quotes understood; a table's outer pipes belong to no cell."""
    if delimiter == "|":
        return [cell.strip() for cell in source.strip().strip("|").split("|")]
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


def _is_plausible(cells: list[str], words: LabelWords) -> bool:
    """False for prose with commas. Of two cells, the second may be the label of the first."""
    labels = [words(cell) for cell in cells]
    known = sum(label is not None for label in labels)
    if not known:
        return False
    if len(cells) == 2 and known == 1:
        return labels[1] is not None and not _ITEM_START.match(cells[0])
    return known * 2 > len(cells) or labels[-1] is not None


_ITEM_START = re.compile(r"[-*+•][ \t]")


_SEPARATOR = re.compile(
    r"[ \t]*(?:[:;–—→]|->|=>|[ \t]-[ \t]|[ \t]=[ \t]|\b(?:label|decision|verdict|answer)"
    r"[ \t]is\b)[ \t]*",
    re.IGNORECASE,
)
_EXPLANATION = re.compile(
    r"[*_`\"'”’\])]{0,3}[ \t]*(?:[:;.,–—(→/#]|-{1,2}[ \t]|//|because\b|since\b|as\b|due\b)[ \t]*",
    re.IGNORECASE,
)
_LABEL_WORD = (
    r"(?:(?:does|is|fully|full|completely|partially|partial|partly|not|no|un)[\s_-]?)"
    r"{0,3}support(?:ed|s)?|partial"
)
_LEADING_LABEL = re.compile(
    rf"[\"'“‘`*_(\[]{{0,4}}(?P<label>{_LABEL_WORD})(?![\w-])", re.IGNORECASE
)
_OR = re.compile(r"\W{0,4}or\b", re.IGNORECASE)
_HEDGE = re.compile(
    r"\b(?:but|only|partial\w*|partly|mostly|somewhat|however|unless|in part)\b", re.I
)
_DENIAL = re.compile(r"\b(?:not|no|un\w+|n't|never|contradict\w*|absent)\b", re.IGNORECASE)
_REACH = 60


def body_label(body: str, words: LabelWords) -> tuple[Label | None, bool]:
    """The label in an item's text, and whether the text holds more than the label.

    ``support``, ``support - the passage says so``, ``Bees collect nectar: support``. None where both
    ends name different labels, or the explanation takes the label back (``support (only partly)``).
    """
    whole = words(body)
    if whole is not None:
        return whole, False
    if not STEM.search(body):
        return None, False
    first, last = _first_label(body, words), _last_label(body, words)
    if first is not None and last is not None and first != last:
        return None, True
    return first or last, True


def _first_label(body: str, words: LabelWords) -> Label | None:
    leading = _LEADING_LABEL.match(body)
    if leading is None:
        return None
    label = words(leading["label"], strict_slot=False)
    rest = body[leading.end() : leading.end() + 400]
    gap = _EXPLANATION.match(rest)
    if label is None or gap is None or _takes_back(label, rest[gap.end() : gap.end() + _REACH]):
        return None
    return label


def _takes_back(label: Label, explanation: str) -> bool:
    """True if the first words of an explanation speak for another label."""
    first = re.split(r"[.;\n]", explanation, maxsplit=1)[0][:_REACH]
    if _OR.match(first):
        return True
    if label == "support":
        return bool(_HEDGE.search(first) or _DENIAL.search(first))
    return label == "not_support" and bool(re.search(r"\b(?:partial\w*|partly)\b", first, re.I))


def _last_label(body: str, words: LabelWords) -> Label | None:
    """The label behind the last colon, arrow or dash, if that is all there is."""
    cuts = [cut.end() for cut in _SEPARATOR.finditer(body, max(0, len(body) - 120))]
    return words(body[cuts[-1] :], strict_slot=False) if cuts else None
