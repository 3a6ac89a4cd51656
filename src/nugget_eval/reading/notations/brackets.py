"""Candidates in brackets: JSON arrays and objects of any shape, Python lists, and near misses.

Valid JSON is decoded; what is not (single quotes, no quotes, cut off) is read element by element.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from nugget_eval.reading.candidates import (
    DRAFT_KEYS,
    FINAL_KEYS,
    INDEX_KEYS,
    LABEL_KEYS,
    Candidate,
    LabelWords,
    Slot,
    Span,
    cut_out,
    key_of,
    make,
)
from nugget_eval.reading.references import index_of, is_nugget
from nugget_eval.reading.remarks import body_label, slot_label, takes_back
from nugget_eval.reading.spellings import STEM, label_sequence

DEEPEST = 12
"""Levels of objects and arrays that are looked into."""


class Pairs(list[tuple[str, Any]]):
    """A JSON object as written: a repeated key is kept twice."""


def of_value(value: Any, span: Span, words: LabelWords, depth: int = 0) -> list[Candidate]:
    """Candidates in a decoded value: itself, or those in its fields."""
    if depth > DEEPEST:
        return []
    if isinstance(value, Pairs):
        return of_object(value, span, words, depth)
    if isinstance(value, list):
        return _of_array(value, span, words, depth)
    return []


def _of_array(value: list[Any], span: Span, words: LabelWords, depth: int) -> list[Candidate]:
    if all(isinstance(item, Pairs) for item in value):
        records = [_record(item, words) for item in value]
        if any(slot.label for slot in records if slot) and None not in records:
            return make("json", "records", span, (slot for slot in records if slot))
        merged = Pairs(pair for item in value for pair in item)
        if value and all(len(item) == 1 for item in value):  # [{"1": "support"}, {"2": …}]
            return of_object(merged, span, words, depth + 1)
    elif not any(isinstance(item, list) for item in value):
        return make("json", "array", span, (element(item, words) for item in value))
    elif all(isinstance(item, list) and len(item) == 2 for item in value):
        pairs = [(index_of(item[0]), item[1]) for item in value]
        if all(index is not None and isinstance(label, str) for index, label in pairs):
            slots = (Slot(words(label), index) for index, label in pairs)
            return make("json", "pairs", span, slots)
    elif all(isinstance(item, list) and len(item) == 1 for item in value):
        return make("json", "array", span, (element(item[0], words) for item in value))
    return [c for item in value for c in of_value(item, span, words, depth + 1)]


def element(value: Any, words: LabelWords) -> Slot:
    """A slot of an array: ``"support"`` or ``"2. support"``."""
    if isinstance(value, bool):
        return Slot(words(str(value)))
    if not isinstance(value, str):
        return Slot(None)
    label = words(value)
    if label is None and value[:12].strip()[:1] in tuple("0123456789#nNiI("):
        head, separator, tail = _split_number(value)
        if separator:
            return Slot(body_label(tail, words)[0], head)
    return Slot(label if label is not None else body_label(value, words)[0])


_NUMBERED = re.compile(
    r"\s{0,4}(?:(?:nugget|item)[\s_#]{0,3})?[(\[#]?(\d{1,4})\s?(?:[.):\]=-]|->|→)\s{0,4}(?=\D)",
    re.I,
)


def _split_number(text: str) -> tuple[int | None, str, str]:
    number = _NUMBERED.match(text)
    return (int(number[1]), number[0], text[number.end() :]) if number else (None, "", text)


def _record(pairs: Pairs, words: LabelWords) -> Slot | None:
    """``{"nugget": 1, "label": "support"}`` as a slot; None if it is not such a record."""
    index, labels, finals, others = None, [], [], []
    for key, value in pairs:
        name = key_of(key)
        if name in INDEX_KEYS and index is None and index_of(value) is not None:
            index = index_of(value)
        elif name in DRAFT_KEYS or not isinstance(value, str):
            continue
        elif name in FINAL_KEYS and name not in LABEL_KEYS:
            finals.append(value)
        elif name in LABEL_KEYS:
            labels.append(value)
        elif words(value) is not None:
            others.append(value)
    chosen = finals or labels or others
    if not chosen:
        return None
    values = {slot_label(value, words) for value in chosen}
    return Slot(values.pop() if len(values) == 1 else None, index)


def of_object(pairs: Pairs, span: Span, words: LabelWords, depth: int) -> list[Candidate]:
    """An object: numbered, grouped by label, keyed by nugget, one record, or a wrapper of these."""
    for shape in (_numbered_object, _grouped_object, _single_record, _keyed_object):
        candidates = shape(pairs, span, words)
        if candidates:
            return candidates
    inner: list[Candidate] = []
    finals = [value for key, value in pairs if key_of(key) in FINAL_KEYS and _holds(value)]
    for key, value in pairs:
        is_draft = key_of(key) in DRAFT_KEYS or (finals and key_of(key) not in FINAL_KEYS)
        if _holds(value) and not is_draft:
            inner += of_value(value, span, words, depth + 1)
    return inner


def _holds(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0


def _numbered_object(pairs: Pairs, span: Span, words: LabelWords) -> list[Candidate]:
    indices = [index_of(key) for key, _ in pairs]
    if not pairs or not all(index is not None for index in indices):
        return []
    slots = (
        Slot(_own_label(value, words), index)
        for index, (_, value) in zip(indices, pairs, strict=True)
    )
    return make("json", "indexed", span, slots)


def _own_label(value: Any, words: LabelWords) -> Any:
    if isinstance(value, str):
        return slot_label(value, words)
    if isinstance(value, bool):
        return words(str(value))
    if isinstance(value, Pairs):
        slot = _record(value, words)
        return slot.label if slot else None
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return words(value[0])
    return None


def _grouped_object(pairs: Pairs, span: Span, words: LabelWords) -> list[Candidate]:
    """``{"support": [1, 3], "not_support": [2]}``: every key a label, every value numbers."""
    slots: list[Slot] = []
    for key, value in pairs:
        label = words(key, strict_slot=False)
        is_list = isinstance(value, list) and not isinstance(value, Pairs)
        if label is None or not is_list:  # a bare number may be a count
            return []
        indices = [index_of(number) for number in value]
        if None in indices:
            return []
        slots += (Slot(label, index) for index in indices)
    return make("json", "grouped", span, slots)


def _single_record(pairs: Pairs, span: Span, words: LabelWords) -> list[Candidate]:
    names = {key_of(key) for key, _ in pairs}
    if not names & LABEL_KEYS or not all(isinstance(v, (str, int)) for _, v in pairs):
        return []
    slot = _record(pairs, words)
    return make("json", "record", span, [slot]) if slot else []


def _keyed_object(pairs: Pairs, span: Span, words: LabelWords) -> list[Candidate]:
    """``{"Bees collect nectar": "support", …}``: slots in the order written."""
    labels = [_own_label(value, words) for _, value in pairs]
    if len(pairs) < 1 or None in labels or any(key_of(k) in DRAFT_KEYS for k, _ in pairs):
        return []
    return make("json", "keyed", span, (Slot(label) for label in labels))


# Finding brackets in text

_OPENER = re.compile(r"[\[{]")
_FAILED_TRIES = 64
_PARSED_PER_CHARACTER = 3
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=Pairs)


def decoded(text: str) -> Iterator[tuple[Any, Span]]:
    """Every outermost JSON array or object in ``text``, with its span.

    Work is bounded by the length of the text: after too many failed tries, the rest is skipped.
    """
    failed, budget = 0, _PARSED_PER_CHARACTER * len(text) + 1000
    opener = _OPENER.search(text)
    while opener and failed < _FAILED_TRIES and budget > 0:
        start = opener.start()
        try:
            value, end = _DECODER.raw_decode(text, start)
        except json.JSONDecodeError as error:
            failed += 1
            budget -= max(error.pos - start, 1)
            opener = _OPENER.search(text, start + 1)
        except (RecursionError, ValueError):
            failed += 8
            budget -= len(text) - start
            opener = _OPENER.search(text, start + 1)
        else:
            budget -= end - start
            yield value, (start, end)
            opener = _OPENER.search(text, end)


def bracketed(text: str, words: LabelWords) -> list[Candidate]:
    """Candidates in brackets, in order."""
    candidates: list[Candidate] = []
    claimed: list[Span] = []
    for value, span in decoded(text):
        if STEM.search(text, *span) or words.plain_words:
            decoded_here = of_value(value, span, words)
            candidates += decoded_here
            claimed += [span] if decoded_here and not _is_single(decoded_here) else []
    if "[" in text or "(" in text or "{" in text:
        rest, kept = cut_out(text, claimed), set(claimed)
        candidates = [candidate for candidate in candidates if candidate.span in kept]
        pairs = list(tuple_pairs(rest, words))
        candidates += pairs
        rest = cut_out(rest, (pair.span for pair in pairs))
        candidates += flat_lists(rest, words)
        candidates += loose_objects(rest, words)
    candidates = [_under_key(text, candidate) for candidate in candidates]
    candidates.sort(key=lambda candidate: candidate.span)
    return _joined_rows(text, candidates)


def _is_single(candidates: list[Candidate]) -> bool:
    """True for an array of one label: on a numbered line it is that line's label."""
    return len(candidates) == 1 and len(candidates[0].slots) == 1 and candidates[0].rule == "array"


def _joined_rows(text: str, candidates: list[Candidate]) -> list[Candidate]:
    """Single records with only commas or lines between them (JSON lines) as one candidate."""
    groups: list[list[Candidate]] = []
    for candidate in candidates:
        if groups and _continues(text, groups[-1][-1], candidate):
            groups[-1].append(candidate)
        else:
            groups.append([candidate])
    return [group[0] if len(group) == 1 else _rows(group) for group in groups]


def _continues(text: str, last: Candidate, candidate: Candidate) -> bool:
    return (
        candidate.rule == last.rule
        and candidate.rule in ("record", "indexed", "keyed")
        and len(candidate.slots) == len(last.slots) == 1
        and not text[last.span[1] : candidate.span[0]].strip(" \t\r\n,;")
    )


def _rows(group: list[Candidate]) -> Candidate:
    first, last = group[0], group[-1]
    slots = tuple(candidate.slots[0] for candidate in group)
    span = (first.span[0], last.span[1])
    return replace(last, rule="rows", span=span, slots=slots)


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
_REMARK = re.compile(
    r"(?P<quote>[\"'])(?P<value>[^\"'\n]{0,60})(?P=quote)(?P<comma>[ \t]{0,20},?)[ \t]{0,20}"
    r"(?:(?://|#)(?P<line>[^\n]*)|/\*(?P<block>[^*\n]{0,300})\*/"
    r"|\((?P<aside>[^()\n]{0,300})\))(?P<late>[ \t]*,)?"
)
_OBJECT = re.compile(r"\{([^{}]*)(\}|\Z)")
_PAIRS = re.compile(  # [(1, 'support'), (2, 'not_support')]
    r"\[\s*\((?P<first>[^()\n]{1,80})\)(?:\s*,\s*\([^()\n]{1,80}\)){0,500}\s*,?\s*\]"
)
_TEXT_PAIR = (  # ('Bees collect nectar', 'support')
    r"\(\s{0,9}(?:\"(?:[^\"\\\n]|\\.){1,400}\"|'(?:[^'\\\n]|\\.){1,400}')"
    r"\s{0,9},\s{0,9}[\"'][^\"'\n]{4,40}[\"']\s{0,9}\)"
)
_TEXT_PAIRS = re.compile(
    rf"\[\s*{_TEXT_PAIR}(?:\s{{0,9}},\s{{0,9}}{_TEXT_PAIR}){{0,500}}\s*,?\s*\]"
)
_TEXT_PAIR_ITEM = re.compile(_TEXT_PAIR)
_PAIR_ITEM = re.compile(
    r"\(\s*[\"']?(?P<key>[^,\"']{1,30})[\"']?\s*,\s*[\"']?(?P<label>[^,\"']{4,40})[\"']?\s*\)"
)


def tuple_pairs(text: str, words: LabelWords) -> Iterator[Candidate]:
    """Lists of Python tuples, each a number or a nugget's text, and a label."""
    for match in _PAIRS.finditer(text):
        items = list(_PAIR_ITEM.finditer(match[0]))
        slots = [Slot(words(item["label"]), index_of(item["key"])) for item in items]
        if len(items) == match[0].count("(") and all(slot.index is not None for slot in slots):
            yield from make("python_list", "pairs", match.span(), slots)
    for match in _TEXT_PAIRS.finditer(text):
        pairs = [item[0].rpartition(",") for item in _TEXT_PAIR_ITEM.finditer(match[0])]
        keys = [key.strip("( \t\n\"'") for key, _, _ in pairs]
        if all(is_nugget(key, is_pointed=False) for key in keys):
            slots = [Slot(words(label)) for _, _, label in pairs]
            yield from make("python_list", "pairs", match.span(), slots)


def flat_lists(text: str, words: LabelWords) -> Iterator[Candidate]:
    """Lists without brackets inside, read element by element; the last may be cut off."""
    for match in _FLAT.finditer(text):
        source = match[1] if match[1] is not None else match[3]
        if not STEM.search(source) and not words.plain_words:
            continue
        is_cut = match[2] == ""
        if "//" in source or "#" in source or "/*" in source or "(" in source:
            source = _REMARK.sub(lambda remark: _without_remark(remark, words), source)
        elements = list(_elements(source, is_cut))
        if is_cut and not all(quote for _, quote in elements[:-1]):
            continue  # a stray bracket, with prose after it
        slots = [
            element(value, words) if quote or value else Slot(None) for value, quote in elements
        ]
        if len(slots) == 1 and slots[0].label is None and not is_cut:  # no commas
            slots = [Slot(label) for label in label_sequence(source) or ()]
        repairs = [] if all(quote for _, quote in elements) else ["labels without quotes"]
        repairs += ["no closing bracket"] if is_cut else []
        for candidate in make(_style(elements), "array", match.span(), slots, is_cut=is_cut):
            if len(slots) > 1 or is_cut or _stands_alone(text, match.span(), elements):
                yield candidate.repaired(*repairs)


def _without_remark(remark: re.Match[str], words: LabelWords) -> str:
    """An element without the remark after it; one that the remark takes back is not a label."""
    label = words(remark["value"])
    text = remark["line"] or remark["block"] or remark["aside"] or ""
    doubt = "?" if label is not None and takes_back(label, text) else ""
    quote, comma = remark["quote"], remark["comma"] + (remark["late"] or "")
    return f"{quote}{remark['value']}{doubt}{quote}{comma}"


def _stands_alone(text: str, span: Span, elements: list[tuple[str, str]]) -> bool:
    """True if a list of one begins its line; without quotes (``[support] Bees fly``) it must be all."""
    start = text.rfind("\n", 0, span[0]) + 1
    rest = "" if elements[0][1] else text[span[1] : span[1] + 200].partition("\n")[0]
    return not (text[start : span[0]] + rest).strip(" \t`")


def _elements(source: str, is_cut: bool) -> Iterator[tuple[str, str]]:
    """Values and their quotes. If the list is cut off, a last value without closing quote is dropped."""
    at = 0
    while at < len(source):
        element = _ELEMENT.match(source, at)
        if element is None:
            break
        double, single, bare = element.groups()
        is_last = element.end() >= len(source)
        if bare is None:
            yield (double, '"') if double is not None else (single, "'")
        elif is_last and not bare.strip():
            return  # a trailing comma
        elif is_last and is_cut:
            yield "", ""
        else:
            yield bare, ""
        if element.end() == at:
            break
        at = element.end()


def _style(elements: list[tuple[str, str]]) -> str:
    return "python_list" if any(quote == "'" for _, quote in elements) else "json"


def loose_objects(text: str, words: LabelWords) -> Iterator[Candidate]:
    """Objects that are not valid JSON: single quotes, no quotes, trailing comma, cut off."""
    for match in _OBJECT.finditer(text):
        if not STEM.search(match[1]):
            continue
        is_cut = match[2] == ""
        for candidate in of_object(Pairs(_loose_pairs(match[1])), match.span(), words, DEEPEST):
            repaired = candidate.repaired("no closing brace" if is_cut else "not valid JSON")
            yield replace(repaired, is_cut=is_cut)


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
