"""Short cuts: a bare, correct answer is read by one pattern, a plain numbered list line by line.

A short cut gives the same reading as the full reader, to which anything unusual is left.
"""

from __future__ import annotations

import re

from nugget_eval.reading.candidates import FormatUsed, LabelReading, Span
from nugget_eval.reading.cues import cue_before, is_disowned, is_format
from nugget_eval.reading.notations.rows import split_cells
from nugget_eval.reading.ranking import is_menu
from nugget_eval.reading.references import item_start
from nugget_eval.reading.remarks import NEGATIONS, takes_back
from nugget_eval.reading.spellings import LABELS, STEM, Label

_ONE = r"(?:partial_|not_)?support"
_QUOTED = rf'"{_ONE}"'
_SINGLE = rf"'{_ONE}'"
_ELEMENT = rf"<label>{_ONE}</label>"
# First character (if there is but one), pattern, format, rule.
_WHOLE: tuple[tuple[str, re.Pattern[str], FormatUsed, str], ...] = (
    ("[", re.compile(rf"\[\s*{_QUOTED}(?:\s*,\s*{_QUOTED})*\s*\]"), "json", "array"),
    ("[", re.compile(rf"\[\s*{_SINGLE}(?:\s*,\s*{_SINGLE})*\s*\]"), "python_list", "array"),
    ("*", re.compile(rf"\* {_ONE}(?:[ ]*\n\* {_ONE})*"), "markdown", "bullets"),
    ("-", re.compile(rf"- {_ONE}(?:\n- {_ONE})*"), "yaml", "bullets"),
    ("<", re.compile(rf"<labels>\s*{_ELEMENT}(?:\s*{_ELEMENT})*\s*</labels>"), "xml", "elements"),
    ("1", re.compile(rf"1\. {_ONE}(?:\n[0-9]{{1,4}}\. {_ONE})*"), "numbered", "numbered"),
    ("", re.compile(rf"{_ONE}(?:,[ ]?{_ONE})+"), "csv", "row"),
    ("", re.compile(rf"{_ONE}(?:\t{_ONE})+"), "tsv", "row"),
    ("", re.compile(rf"{_ONE}(?:[ ]?\|[ ]?{_ONE})+"), "pipe", "row"),
)
_LABEL = re.compile(_ONE)


def quick_labels(response: str, count: int, format_type: str | None) -> LabelReading | None:
    """The reading of a bare, correct and complete answer; None for everything else."""
    text = response.strip()
    first = text[0]
    for start, pattern, name, rule in _WHOLE:
        if start and start != first:
            continue
        if pattern.fullmatch(text):
            return _reading(response, text, count, name, rule, format_type)
    return None


def _reading(
    response: str, text: str, count: int, name: FormatUsed, rule: str, format_type: str | None
) -> LabelReading | None:
    start = response.find(text[0])
    spans: list[Span] = [label.span() for label in _LABEL.finditer(response, start)]
    if (
        len(spans) != count
        or is_menu(text, format_type)
        or (name == "numbered" and not _counts_up(text))
    ):
        return None
    labels: tuple[Label, ...] = tuple(response[a:b] for a, b in spans)  # type: ignore[misc]
    span = (start, start + len(text))
    return LabelReading(labels, name, None, "", rule, span, tuple(spans), count)


def _counts_up(text: str) -> bool:
    numbers = [int(line.partition(".")[0]) for line in text.split("\n")]
    return numbers == list(range(1, len(numbers) + 1))


# Characters that may mean something else than text: brackets, tags, cells, escapes.
_UNUSUAL = re.compile(r"[^\x20-\x7e\n–—’]|[<>\[\]{}|\\&=`]")
_ITEM = re.compile(
    r"[ ]{0,3}(?P<named>(?:[-*][ ])?\*{0,2}(?:[Nn]ugget[ ]|N"
    r"|#)?)(?P<index>\d{1,3})[.):]\*{0,2}[ ](?P<body>[^\n]+)"
)
_LABEL_FIRST = re.compile(
    rf"\*{{0,2}}(?P<label>{_ONE})\*{{0,2}}(?:\Z|[ ]?[-–—(:][ ]?(?P<remark>.*))"
)
_LABEL_LAST = re.compile(rf"(?P<nugget>.+?)(?::|[ ][-–—])[ ]\*{{0,2}}(?P<label>{_ONE})\*{{0,2}}\.?")
_LEAD = re.compile(r"[A-Za-z][^\n]{0,200}:[ ]*\n")  # ``Here are the labels:``
_LONGEST_LIST = 20_000


def quick_list(response: str, count: int) -> LabelReading | None:
    """The reading of a plain numbered list with remarks or nuggets beside its labels; else None."""
    if len(response) > _LONGEST_LIST or _UNUSUAL.search(response):
        return None
    lead = _LEAD.match(response)
    if lead is not None and not _is_plain(lead[0]):
        return None
    at = lead.end() if lead is not None else 0
    labels: list[Label] = []
    spans: list[Span] = []
    is_explained, is_mapping = False, True
    for line in response[at:].rstrip().split("\n"):
        start, at = at, at + len(line) + 1
        item = _ITEM.match(line)
        if item is None:
            if line.strip():
                return None
            continue
        label = _body_label(item["body"].rstrip())
        if label is None or int(item["index"]) != len(labels) + 1:
            return None
        labels.append(label)
        spans.append((start, start + len(line.rstrip())))
        is_explained = is_explained or len(item["body"]) > len(label) + 4
        is_mapping = is_mapping and not item["named"] and ":" in line[:10]
    may_define = is_explained and count == len(LABELS) == len(set(labels))
    if len(labels) != count or may_define:
        return None
    kind: FormatUsed = "yaml" if is_mapping else "numbered"
    rule = "mapping" if is_mapping else "numbered"
    span = (spans[0][0], spans[-1][1])
    return LabelReading(tuple(labels), kind, None, "", rule, span, tuple(spans), count)


# Arrays with words around them, and tables

_ARRAYS: dict[str, FormatUsed] = {'"': "json", "'": "python_list"}
_ARRAY = re.compile(rf"\[\s*(?:{_QUOTED}(?:\s*,\s*{_QUOTED})*|{_SINGLE}(?:\s*,\s*{_SINGLE})*)\s*\]")
_MARKED = re.compile(
    r"[^\x20-\x7e\n]|[<>{}|\\&=~]"
)  # as ``_UNUSUAL``; brackets and fences are allowed
_LONGEST_ROUND = 2_000


def quick_array(response: str, count: int) -> LabelReading | None:
    """The reading of the only array in a reply, with a plain announcement or a fence around it."""
    start = response.find("[")
    if start < 0 or len(response) > _LONGEST_ROUND or response.find("[", start + 1) >= 0:
        return None
    array = _ARRAY.match(response, start)
    if array is None or _MARKED.search(response):
        return None
    before, after = response[:start], response[array.end() :]
    if STEM.search(before) or STEM.search(after) or not _announces(before):
        return None
    if is_disowned(response, start, array.end()) or not _FENCE_OR_WORDS.fullmatch(after):
        return None
    spans = [label.span() for label in _LABEL.finditer(response, start, array.end())]
    if len(spans) != count:
        return None
    labels: tuple[Label, ...] = tuple(response[a:b] for a, b in spans)  # type: ignore[misc]
    name = _ARRAYS[response[spans[0][0] - 1]]
    return LabelReading(labels, name, None, "", "array", array.span(), tuple(spans), count)


_FENCE_OR_WORDS = re.compile(r"[ ]*(?:\n```)?\s*(?:\Z|\n[A-Za-z][^\n]*\s*)")
_ANNOUNCEMENT = re.compile(r"\s*(?:[A-Za-z][^\n]*:[ ]*\n+)?[ ]*(?:```[a-z]{0,10}\n)?[ ]*")


def _announces(before: str) -> bool:
    """True for nothing, or a line that only announces the labels; a fence may follow it."""
    if _ANNOUNCEMENT.fullmatch(before) is None:
        return False
    lead = before.partition("\n")[0] if before.strip(" \n`") else ""
    lead = lead if ":" in lead else ""
    return not lead or (cue_before(lead) is None and not is_format(lead.strip()))


_HEADER = re.compile(
    r"\|[ ]*\*{0,2}(?:#|nugget|id|no|number|index)\*{0,2}[ ]*\|[^\n]+", re.IGNORECASE
)
_RULE = re.compile(r"\|[ :|-]*--[ :|-]*")
_CELL = re.compile(rf"[*`]{{0,2}}({_ONE})[*`]{{0,2}}")
_IN_TABLE = re.compile(r"[^\x20-\x7e\n–—’]|[<>\[\]{}\\&~]|\|\||\n(?!\|)")


def quick_table(response: str, count: int) -> LabelReading | None:
    """The reading of a table whose first column counts up, with one column called *label*; else None."""
    text = response.strip()
    if text[:1] != "|" or len(text) > _LONGEST_LIST or _IN_TABLE.search(text) or count < 2:
        return None
    header, rule, *rows = text.split("\n") if text.count("\n") == count + 1 else ("", "")
    names = [name.strip(" *").lower() for name in split_cells(header, "|")]
    if names.count("label") != 1 or not _HEADER.fullmatch(header) or not _RULE.fullmatch(rule):
        return None
    column, width = names.index("label"), len(names)
    start = response.index("|")
    at = start + len(header) + len(rule) + 2
    labels: list[Label] = []
    spans: list[Span] = []
    for number, row in enumerate(rows, 1):
        cells = split_cells(row, "|")
        label = _CELL.fullmatch(cells[column]) if len(cells) == width else None
        if label is None or cells[0] != str(number):
            return None
        cells[column] = ""
        if STEM.search("".join(cells)):
            return None
        labels.append(label[1])  # type: ignore[arg-type]
        spans.append((at, at + len(row.rstrip())))
        at += len(row) + 1
    span = (start, spans[-1][1])
    return LabelReading(tuple(labels), "markdown", None, "", "table", span, tuple(spans), count)


def _is_plain(lead: str) -> bool:
    """True if a line only announces the list: it is not an item, an example or a draft."""
    return STEM.search(lead) is None and item_start(lead) is None and cue_before(lead) is None


def _body_label(body: str) -> Label | None:
    """The label of an item; None unless it is beyond doubt."""
    first = _LABEL_FIRST.fullmatch(body)
    if first is not None:
        label: Label = first["label"]  # type: ignore[assignment]
        remark = first["remark"]
        is_plain = not remark or (
            STEM.search(remark) is None and not takes_back(label, remark[:60])
        )
        return label if is_plain else None
    last = _LABEL_LAST.fullmatch(body)
    if last is None or STEM.search(last["nugget"]) or last["nugget"].rstrip()[-1] in ":-–—":
        return None
    final_word = last["nugget"].rstrip(" \"'*.,:;!?-").rpartition(" ")[2].lower()
    return None if final_word in NEGATIONS else last["label"]  # type: ignore[return-value]
