"""The short cut: a bare, correct and complete answer is read by one pattern."""

from __future__ import annotations

import re

from nugget_eval.reading.candidates import FormatUsed, LabelReading, Span
from nugget_eval.reading.spellings import Label

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
MENU = "support|partial_support|not_support"


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
    is_menu = text == MENU and format_type not in (None, "pipe", "adaptive")
    start = response.find(text[0])
    spans: list[Span] = [found.span() for found in _LABEL.finditer(response, start)]
    if len(spans) != count or is_menu or (name == "numbered" and not _counts_up(text)):
        return None
    labels: tuple[Label, ...] = tuple(response[a:b] for a, b in spans)  # type: ignore[misc]
    span = (start, start + len(text))
    return LabelReading(labels, name, None, "", rule, span, tuple(spans), count)


def _counts_up(text: str) -> bool:
    numbers = [int(line.partition(".")[0]) for line in text.split("\n")]
    return numbers == list(range(1, len(numbers) + 1))
