"""Decoded values → candidates: arrays, numbered and grouped objects, records, and what wraps them."""

from __future__ import annotations

import re
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
    index_of,
    key_of,
    make,
)

DEEPEST = 12
"""Levels of objects and arrays that are looked into."""


class Pairs(list[tuple[str, Any]]):
    """A JSON object as written: a repeated key is kept twice."""


def of_value(value: Any, span: Span, words: LabelWords, depth: int = 0) -> list[Candidate | None]:
    """Candidates in a decoded value: itself, or those in its fields; None holds no label."""
    if depth > DEEPEST:
        return []
    if isinstance(value, Pairs):
        return of_object(value, span, words, depth)
    if isinstance(value, list):
        return _of_array(value, span, words, depth)
    return []


def _of_array(
    value: list[Any], span: Span, words: LabelWords, depth: int
) -> list[Candidate | None]:
    if all(isinstance(item, Pairs) for item in value):
        records = [_record(item, words) for item in value]
        if any(slot.label for slot in records if slot) and None not in records:
            return [make("json", "records", span, (slot for slot in records if slot))]
        merged = Pairs(pair for item in value for pair in item)
        if value and all(len(item) == 1 for item in value):  # [{"1": "support"}, {"2": …}]
            return of_object(merged, span, words, depth + 1)
    elif not any(isinstance(item, list) for item in value):
        return [make("json", "array", span, (element(item, words) for item in value))]
    elif all(isinstance(item, list) and len(item) == 2 for item in value):
        pairs = [(index_of(item[0]), item[1]) for item in value]
        if all(index is not None and isinstance(label, str) for index, label in pairs):
            slots = (Slot(words(label), index) for index, label in pairs)
            return [make("json", "pairs", span, slots)]
    elif all(isinstance(item, list) and len(item) == 1 for item in value):
        return [make("json", "array", span, (element(item[0], words) for item in value))]
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
            return Slot(words(tail), head)
    return Slot(label)


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
    values = {words(value) for value in chosen}
    return Slot(values.pop() if len(values) == 1 else None, index)


def of_object(pairs: Pairs, span: Span, words: LabelWords, depth: int) -> list[Candidate | None]:
    """An object: numbered, grouped by label, keyed by nugget, one record, or a wrapper of these."""
    for shape in (_numbered_object, _grouped_object, _single_record, _keyed_object):
        candidate = shape(pairs, span, words)
        if candidate is not None:
            return [candidate]
    inner: list[Candidate | None] = []
    finals = [value for key, value in pairs if key_of(key) in FINAL_KEYS and _holds(value)]
    for key, value in pairs:
        is_draft = key_of(key) in DRAFT_KEYS or (finals and key_of(key) not in FINAL_KEYS)
        if _holds(value) and not is_draft:
            inner += of_value(value, span, words, depth + 1)
    return inner


def _holds(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0


def _numbered_object(pairs: Pairs, span: Span, words: LabelWords) -> Candidate | None:
    indices = [index_of(key) for key, _ in pairs]
    if not pairs or not all(index is not None for index in indices):
        return None
    slots = (
        Slot(_own_label(value, words), index)
        for index, (_, value) in zip(indices, pairs, strict=True)
    )
    return make("json", "indexed", span, slots)


def _own_label(value: Any, words: LabelWords) -> Any:
    if isinstance(value, str):
        return words(value)
    if isinstance(value, bool):
        return words(str(value))
    if isinstance(value, Pairs):
        slot = _record(value, words)
        return slot.label if slot else None
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return words(value[0])
    return None


def _grouped_object(pairs: Pairs, span: Span, words: LabelWords) -> Candidate | None:
    """``{"support": [1, 3], "not_support": [2]}``: every key a label, every value numbers."""
    slots: list[Slot] = []
    for key, value in pairs:
        label = words(key, strict_slot=False)
        is_list = isinstance(value, list) and not isinstance(value, Pairs)
        if label is None or not is_list:  # a bare number may be a count
            return None
        indices = [index_of(number) for number in value]
        if None in indices:
            return None
        slots += (Slot(label, index) for index in indices)
    return make("json", "grouped", span, slots)


def _single_record(pairs: Pairs, span: Span, words: LabelWords) -> Candidate | None:
    names = {key_of(key) for key, _ in pairs}
    if not names & LABEL_KEYS or not all(isinstance(v, (str, int)) for _, v in pairs):
        return None
    slot = _record(pairs, words)
    return make("json", "record", span, [slot]) if slot else None


def _keyed_object(pairs: Pairs, span: Span, words: LabelWords) -> Candidate | None:
    """``{"Bees collect nectar": "support", …}``: slots in the order written."""
    labels = [_own_label(value, words) for _, value in pairs]
    if len(pairs) < 1 or None in labels or any(key_of(k) in DRAFT_KEYS for k, _ in pairs):
        return None
    return make("json", "keyed", span, (Slot(label) for label in labels))
