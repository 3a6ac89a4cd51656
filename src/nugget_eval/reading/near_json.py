"""Near misses of JSON: lists and objects with single quotes, without quotes, or cut off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nugget_eval.reading.candidates import Candidate, LabelWords, Slot, Span, index_of, make
from nugget_eval.reading.spellings import STEM
from nugget_eval.reading.values import DEEPEST, Pairs, element, of_object

_QUOTED = r"[\"'][^\"'()\n]{1,40}[\"']"
_FLAT = re.compile(rf"\[([^\[\]{{}}]*)(\]|\Z)|\((\s*{_QUOTED}(?:\s*,\s*{_QUOTED})+)\s*,?\s*(\))")
_ELEMENT = re.compile(
    r"\s*(?:\"((?:[^\"\\]|\\.)*)\"\s*(?:,|\Z)|'((?:[^'\\]|\\.)*)'\s*(?:,|\Z)|([^,]*)(?:,|\Z))",
    re.DOTALL,
)
_PAIR = re.compile(
    r"(?:\A|(?<=[,\n]))[ \t]{0,40}[\"']?(?P<key>[^\"'{}\[\],:=\n]{1,80})[\"']?\s{0,4}[:=]\s{0,4}"
    r"(?:\"(?P<double>[^\"\n]{0,200})\"|'(?P<single>[^'\n]{0,200})'"
    r"|\[(?P<list>[^\[\]]{0,400})\]|(?P<bare>[^,{}\[\]\"'\n]{1,80}))"
)
_REMARK = re.compile(r"([\"'][ \t]{0,20},?)[ \t]{0,20}//[^\n]*")
_OBJECT = re.compile(r"\{([^{}]*)(\}|\Z)")


def flat_lists(text: str, words: LabelWords) -> Iterator[Candidate]:
    """Lists without brackets inside, read element by element; the last may be cut off."""
    for found in _FLAT.finditer(text):
        source = found[1] if found[1] is not None else found[3]
        if not STEM.search(source) and not words.plain_words:
            continue
        is_cut = found[2] == ""
        if "//" in source:
            source = _REMARK.sub(r"\1", source)
        elements = list(_elements(source, is_cut))
        if is_cut and not all(quote for _, quote in elements[:-1]):
            continue  # a stray bracket, with prose behind it
        slots = [
            element(value, words) if quote or value else Slot(None) for value, quote in elements
        ]
        candidate = make(_style(elements), "array", found.span(), slots, is_cut=is_cut)
        if candidate is not None and (
            len(slots) > 1 or is_cut or _stands_alone(text, found.span())
        ):
            repair = () if all(quote for _, quote in elements) else ("labels without quotes",)
            yield candidate.repaired(*repair, *(("no closing bracket",) if is_cut else ()))


def _stands_alone(text: str, span: Span) -> bool:
    start = text.rfind("\n", 0, span[0]) + 1
    return not text[start : span[0]].strip(" \t`")


def _elements(source: str, is_cut: bool) -> Iterator[tuple[str, str]]:
    """Values and their quotes. Where the list is cut off, a last one without closing quote is none."""
    at = 0
    while at < len(source):
        found = _ELEMENT.match(source, at)
        if found is None:
            break
        double, single, bare = found.groups()
        is_last = found.end() >= len(source)
        if bare is None:
            yield (double, '"') if double is not None else (single, "'")
        elif is_last and not bare.strip():
            return  # a trailing comma
        elif is_last and is_cut:
            yield "", ""
        else:
            yield bare, ""
        if found.end() == at:
            break
        at = found.end()


def _style(elements: list[tuple[str, str]]) -> str:
    return "python_list" if any(quote == "'" for _, quote in elements) else "json"


def loose_objects(text: str, words: LabelWords) -> Iterator[Candidate]:
    """Objects that are not valid JSON: single quotes, no quotes, trailing comma, cut off."""
    for found in _OBJECT.finditer(text):
        if not STEM.search(found[1]):
            continue
        is_cut = found[2] == ""
        for candidate in of_object(Pairs(_loose_pairs(found[1])), found.span(), words, DEEPEST):
            if candidate is not None:
                repaired = candidate.repaired("no closing brace" if is_cut else "not valid JSON")
                yield _under_key(text, replace(repaired, is_cut=is_cut))


_KEY_BEFORE = re.compile(r"[\"']?([^\"'{}\[\],:\n]{1,40})[\"']?\s{0,4}:\s{0,4}\Z")


def _under_key(text: str, candidate: Candidate) -> Candidate:
    """``"2": {"label": …}``: the record's number is the key before it."""
    start = candidate.span[0]
    if candidate.rule != "record" or candidate.slots[0].index is not None:
        return candidate
    key = _KEY_BEFORE.search(text, max(0, start - 60), start)
    index = index_of(key[1]) if key else None
    if key is None or index is None:
        return candidate
    slot = replace(candidate.slots[0], index=index)
    return replace(candidate, span=(key.start(), candidate.span[1]), slots=(slot,))


def _loose_pairs(source: str) -> Iterator[tuple[str, Any]]:
    for pair in _PAIR.finditer(source):
        key = pair["key"].strip()
        if pair["list"] is not None:
            yield key, [value.strip(" \t\n\"'") for value in pair["list"].split(",")]
        else:
            value = pair["double"] if pair["double"] is not None else pair["single"]
            yield key, value if value is not None else pair["bare"].strip()
