"""JSON, Python and the like as lines: brackets and commas end a line, and the text keeps its length.

``{"1": "support", "2": "not_support"}`` reads as ``1: support`` and ``2: not_support``. What a reasoning
field holds is blanked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nugget_eval.reading.outcome import FormatUsed, Span
from nugget_eval.reading.spellings import SPELLING, label_of
from nugget_eval.reading.words import pattern

_TOKEN = re.compile(
    r"(?P<string>\"(?:[^\"\\\n]|\\.)*(?:\"|\Z)|'(?:[^'\\\n]|\\.)*'(?=\s*(?:[,:\]})]|\Z)))"
    r"|(?P<comment>(?<=\s)(?:#|//)\s[^\n]*)|[\[\]{}(),:]"
)
_PAIRS = {"]": "[", "}": "{", ")": "("}
_PAIR = re.compile(
    r"([\[(]\s*[\"']?\d{1,3}[\"']?\s*|[\[(,]\s*[\[(]\s*(?:\"[^\"\n]*\"|'[^'\n]*')\s*),"
    r"(?=\s*[\"'][\w ]{4,20}[\"']\s*[\])])"
)


@dataclass(frozen=True, slots=True)
class Region:
    """Brackets that hold labels: each line in them is an entry."""

    span: Span
    format: FormatUsed
    is_cut: bool


def as_lines(text: str) -> tuple[str, list[Region]]:
    """``text`` with its bracketed data as lines, and where they are."""
    regions: list[Region] = []
    pieces: list[str] = []
    at = 0
    for start, end, is_cut in _outermost(text):
        source = text[start:end]
        if SPELLING.search(source) is None or not _is_data(text, start, end, is_cut):
            continue
        is_python = source[0] != "{" and ("'" in source or '"' not in source)
        name: FormatUsed = "python_list" if is_python else "json"
        blanks = " \t\r\n,;$" if source[0] == "{" else " \t,;"
        if regions and not text[regions[-1].span[1] : start].strip(blanks):
            regions[-1] = Region((regions[-1].span[0], end), name, is_cut)
        else:
            regions.append(Region((start, end), name, is_cut))
        pieces += (text[at:start], _lines(source))
        at = end
    return "".join(pieces) + text[at:], regions


def _outermost(text: str) -> list[tuple[int, int, bool]]:
    """Where brackets open and close that are in no others, and the first that never closes."""
    found: list[tuple[int, int, bool]] = []
    stack: list[tuple[str, int]] = []
    opened = dict.fromkeys("[{(", 0)
    for token in _TOKEN.finditer(text):
        char = token[0]
        if char in opened:
            stack.append((char, token.start()))
            opened[char] += 1
        elif char in _PAIRS and opened[_PAIRS[char]]:
            while True:
                opener, start = stack.pop()
                opened[opener] -= 1
                if opener == _PAIRS[char]:
                    break
            if not stack:
                found.append((start, token.end(), False))
    if stack and re.match(r"[\[{]\s*[\"'\[{]", text[stack[0][1] : stack[0][1] + 40]):
        return [*found, (stack[0][1], len(text), True)]
    return found


def _is_data(text: str, start: int, end: int, is_cut: bool) -> bool:
    """False for a remark in parentheses, and for one label in brackets on a line of text."""
    source = text[start + 1 : end - 1].strip()
    if text[start] == "(":
        return False
    return is_cut or source[:1] in "\"'[{" or re.search(r"[,:\n]", source) is not None


def _lines(source: str) -> str:
    """Bracketed text as lines of equal total length."""
    source = _PAIR.sub(lambda m: m[0] if label_of(m[1].strip("[(, \"'")) else f"{m[1]}:", source)
    pieces: list[str] = []
    at, depth, hidden = 0, 0, -1  # hidden: the depth of a reasoning field whose value is left out
    key = ""
    for token in _TOKEN.finditer(source):
        between, char = source[at : token.start()], token[0]
        at = token.end()
        pieces.append(between if hidden < 0 else " " * len(between))
        depth += (char in "[{(") - (char in "]})")
        if hidden >= 0 and ((char == "," and depth == hidden) or depth < hidden):
            hidden = -1
        if char == ":":
            is_hidden = hidden < 0 and pattern("reasoning").fullmatch(
                re.split(r"[\s_-]", key.lower())[0]
            )
            hidden = depth if is_hidden else hidden
            pieces.append(":")
        elif len(char) == 1:
            pieces.append("\n")
        else:
            key = char.strip("\"'")
            shown = f" {key} ".replace("\n", " ").replace('\\"', "  ").ljust(len(char))[: len(char)]
            pieces.append(shown if hidden < 0 and token["string"] else " " * len(char))
    return "".join(pieces) + source[at:]
