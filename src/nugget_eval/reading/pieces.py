"""One line, cell or string of a reply → the number and the label it gives, if it gives one.

The smallest unit of every notation: ``1. support``, ``Nugget 2 (opening): not_support``, ``- support
(stated)``, ``It opened in 1932 → support``. ``read_piece`` looks at its shape; sentences are ``prose``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from nugget_eval.reading.spellings import MARK, MARKS, SPELLING, Label, label_of, spelled
from nugget_eval.reading.words import alternatives, ordinals, pattern

_ROMAN = {"i": 1, "ii": 2, "iii": 3, "iv": 4, "v": 5, "vi": 6, "vii": 7, "viii": 8}
_CLOSING = " \t\r\n\"'`*_()[]{}<>.,;:!|。"
_BULLET = re.compile(
    r"[\s>]{0,9}(?P<mark>[-*+–—](?=\s|\[)|•|->|=>|→)?[ \t]*(?:\[[ xX]\]\s)?[\s*_`\"'(\[#]{0,6}"
)
_SEPARATOR_END = re.compile(r"(?:[:=→>|(\[–—.,;\"]|\s-+|^)[\s*_`\"'(\[<]*\Z")
_AFTER_LABEL = re.compile(
    r"[\s*_`\"')\]>.]*(?:[:;,.(\[–—/|←→#\n]|-+(?=\s)|\Z)|\s*<-|[`\"']?(?:\*\*|[)\]])\s"
)


_NEXT = re.compile(r"\W*,\s*\d+\s?[:.)]")  # another numbered entry


@dataclass(frozen=True, slots=True)
class Slot:
    """One entry of an answer. ``label`` is None if the entry is not a known label."""

    label: Label | None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """What one line says. ``before`` is the text in front of the label, ``after`` that behind it.

    ``is_said``: the line has labels, but none of them stands where a label of the list does.
    """

    label: Label | None = None
    index: int | None = None
    mark: str = ""
    before: str = ""
    after: str = ""
    is_said: bool = False


@cache
def _index_pattern() -> re.Pattern[str]:
    """The number with which a line begins, up to its label or text."""
    words = "|".join(f"(?P<o{n}>{each})" for n, each in ordinals().items())
    noun = rf"(?:{alternatives('nugget')})"
    more = r"\s?(?:,|and|und|et|y|e|и|&|和|と|및|to|bis|–|-)\s?#?n?\d"  # nuggets 1 and 3
    after = r"[\s*_`\"')\]]{0,4}"
    return re.compile(
        r"[\s>]{0,9}(?P<mark>[-*+](?=[\s*✅❌⚠])|•|->|=>|→)?[ \t]*(?:\[[ x]\]\s)?[\s*_`\"'()\[\]]{0,6}"
        r"(?:[✅✔✓❌✗⚠🟢🟡🔴]\s*)?#{0,4}[ \t*_`\"'(\[#]{0,6}"
        r"(?:the |der |die |das |le |la |l'|el |los |o |il |(?:label|verdict) for )?(?:"
        rf"{noun}[\s_#.:№(-]{{0,5}}(?:n[ro]?\.? ?)?"
        rf"(?P<number>\d{{1,4}})(?:\s?/\s?\d+|번)?(?![\d.]\d)(?!{more})"
        rf"|(?P<plain>\d{{1,4}})(?={after}(?:[.):\]=–—、→|/]|,(?!\s?\d)|->|=>|-)(?!\d)|(?<=#\d)\s)"
        r"|(?P<single>[a-j]|i{1,3}|iv|vi{0,3})(?=[.):])"
        rf"|(?:{noun}\s)?(?:{words})(?![\w-])(?:\s(?:one|{noun}))?(?={after}(?:[.):,、—–→]|->|-\s|\Z))"
        r")(?P<gap>[\s*_`\"')\].:=、—–,|/→-]{0,12}>{0,2}[\s*_`\"'(\[]{0,6})"
    )


def _index_of(match: re.Match[str]) -> int:
    if match["number"] or match["plain"]:
        return int(match["number"] or match["plain"])
    if match["single"]:
        return _ROMAN.get(match["single"], ord(match["single"][0]) - 96)
    return next(n for n in ordinals() if match[f"o{n}"])


@lru_cache(maxsize=8192)
def read_piece(text: str) -> Piece:
    """What a short text (at most one line) says about one nugget."""
    if len(text) > 4000:
        return Piece()
    number = _index_pattern().match(text.lower())
    start = number or _BULLET.match(text)
    assert start is not None
    index, mark = (_index_of(number) if number else None), start["mark"] or ""
    body = text[start.end() :]
    found = list(SPELLING.finditer(body))
    if not found:
        return Piece(None, index, mark, body)
    denied = Piece(None, index, mark, is_said=True)
    if _contradicts_mark(text, found[-1]):
        return denied
    label = label_of(body) or label_of(text[start.start("gap") :] if number else text)
    if label:
        return Piece(label, index, mark, body[: found[0].start()])
    hit = _slot_of(body, found)
    return _with_remark(denied, body, hit) if hit else replace(denied, before=body)


def _with_remark(denied: Piece, body: str, hit: re.Match[str]) -> Piece:
    """What a label says that begins or ends a text; the rest may take it back."""
    before, after = body[: hit.start()], body[hit.end() :]
    is_number = (denied.index is None and re.fullmatch(r"\W*\d+\W*", after)) or _NEXT.match(after)
    is_denied = re.search(r"\b(?:no|not|against|never|kein|nicht)[\W_]*\Z", before.lower())
    is_second = label_of(before.strip(_CLOSING + "=-–—→")) is not None
    if is_number or is_denied or is_second or is_reserved(hit, after):
        return denied
    is_first = not before.strip(_CLOSING + "-–—")
    before, after = ("", after) if is_first else (before, "")
    return Piece(spelled(hit), denied.index, denied.mark, before, after)


def _slot_of(body: str, found: list[re.Match[str]]) -> re.Match[str] | None:
    """Which of the labels in a text stands where a label does: it begins the text, or ends it."""
    hits = [match for match in found if _is_slot(body, match)]
    first = found[0]
    is_first = first in hits and not body[: first.start()].strip(_CLOSING + "-–—")
    hit = first if is_first else hits[-1] if len({spelled(m) for m in hits}) == 1 else None
    is_label = hit is not None and spelled(hit) and not _is_taken_back(body, hit, found)
    return hit if is_label else None


def _contradicts_mark(text: str, match: re.Match[str]) -> bool:
    """True for ``❌ support`` and ``!support``."""
    sign = None if text.isascii() else MARK.search(text)
    is_negated = match.start() > 0 and match.string[match.start() - 1] in "!¬~"
    return is_negated or (sign is not None and MARKS[sign[0]] != spelled(match))


def _is_slot(body: str, match: re.Match[str]) -> bool:
    before = body[: match.start()]
    return _SEPARATOR_END.search(before) is not None and is_remark(body[match.end() :])


def is_remark(after: str) -> bool:
    """True if the text behind a label is a remark, not the rest of its sentence."""
    if _AFTER_LABEL.match(after):
        return True
    return pattern("because").match(after.lstrip(" *_`\"'").lower()) is not None


def is_reserved(match: re.Match[str], after: str) -> bool:
    """True if a remark takes part of a label back: ``support (only in part)``."""
    label, plain = spelled(match), after.lower().strip(_CLOSING + "-–—→#")[:120]
    if (not plain and "?" in after) or re.fullmatch(r"no|false|none|\?", plain):
        return True
    kind = {"support": "reserved", "not_support": "affirmed"}.get(label or "")
    return kind is not None and pattern(kind).search(plain) is not None


def _is_taken_back(body: str, hit: re.Match[str], found: list[re.Match[str]]) -> bool:
    """True if a later label in the remark is offered instead: ``support, no, partial_support``."""
    for other in found:
        if other.start() > hit.start() and spelled(other) != spelled(hit):
            between = body[hit.end() : other.start()].lower()
            is_instead = pattern("revision").search(between) or re.search(r"\bor\b|\?|/", between)
            return "_" in other[0] or is_instead is not None
    return False
