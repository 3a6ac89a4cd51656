"""Which of the possible answers counts, and which nugget each of its labels belongs to.

The words around a list say whether it is an example, a draft, a quotation or the final answer.
Labels are placed by their numbers or, if there is one for each nugget, in order. Two answers that
differ are ambiguous unless words between them replace the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from nugget_eval.reading.outcome import ErrorType, FormatUsed, LabelReading, Span
from nugget_eval.reading.pieces import Slot
from nugget_eval.reading.spellings import LABELS, SPELLING, Label
from nugget_eval.reading.words import pattern

_REACH = 200
_LEAD_MARKS = " \t\r\n`~<>()[]{}*_#\"'-"


@dataclass(frozen=True, slots=True)
class LabelList:
    """A possible answer: its slots in the order written, and how it was written.

    ``texts`` is what stands before and after each label. ``is_cut``: the reply ends inside it.
    ``excluded`` says why it cannot be the answer.
    """

    format: str
    rule: str
    span: Span
    slots: tuple[Slot, ...]
    texts: tuple[tuple[str, str], ...] = ()
    is_cut: bool = False
    is_final: bool = False
    excluded: str | None = None

    @property
    def is_numbered(self) -> bool:
        return any(slot.index is not None for slot in self.slots)

    @property
    def known(self) -> int:
        return sum(slot.label is not None for slot in self.slots)

    def without(self, why: str) -> LabelList:
        return replace(self, excluded=why)


# What the words around an answer say it is


def judged(text: str, answers: Sequence[LabelList]) -> list[LabelList]:
    """``answers`` in order, each with why it is excluded or whether it is final."""
    kept: list[LabelList] = []
    for answer in sorted(answers, key=lambda each: each.span):
        floor = kept[-1].span[1] if kept else 0
        lead = _lead(text, answer.span[0], floor)
        excluded = answer.excluded or (None if answer.is_final else _exclusion(text, answer, lead))
        is_final = answer.is_final or pattern("final").search(lead) is not None
        kept.append(replace(answer, excluded=excluded, is_final=is_final and not excluded))
    return kept


def _lead(text: str, start: int, floor: int) -> str:
    """What leads up to an answer: the rest of its line before it, else the line before that."""
    before = text[max(floor, start - 3 * _REACH) : start].lower()
    line = before.rpartition("\n")[2]
    if not line.strip(_LEAD_MARKS + "+•0123456789.:="):
        above = (
            each
            for each in before.split("\n")[::-1]
            if each.strip(_LEAD_MARKS) and "```" not in each
        )
        line = next(above, "")
    line = re.split(r"[.!?](?=\s+\S)(?<!e\.g\.)(?<!i\.e\.)", line.strip()[-_REACH:])[-1]
    line = re.sub(r"\s+", " ", line).strip(" *_#`>\"'([{")
    return re.sub(r"[\s*_`:]+\Z", ":", line) if ":" in line[-3:] else line


def _exclusion(text: str, answer: LabelList, lead: str) -> str | None:
    """Why an answer does not count: by the words before it, after it, and beside its labels."""
    start, end = answer.span
    line = text.rfind("\n", max(0, start - _REACH), start) + 1
    after = text[end : end + _REACH].lower()
    told = lead if not lead.endswith((".", "!")) else ""
    cues = {
        "quote": text[line : start + 8].lstrip()[:1] == ">" or pattern("quote").search(told),
        "example": pattern("example").search(lead)
        or pattern("disowned").match(after.lstrip(" \t\n*_`)]}.,:;\"'-"))
        or pattern("asking").search(after)
        or (
            not answer.is_numbered
            and answer.rule != "list"
            and re.search(r"\.{3}|…", text[start:end])
        ),
        "draft": pattern("draft").search(lead),
    }
    return next((why for why, cue in cues.items() if cue), None) or _about_labels(
        text[start:end], answer
    )


_COUNTED = re.compile(r"\W*(?:[^\W\d_]+\s)?([^\W\d_]+)[\s#_]{0,2}(\d{1,3})\b")


def _about_labels(source: str, answer: LabelList) -> str | None:
    """Why an answer says what labels mean, or whose they are, instead of labelling nuggets."""
    low, labels = source.lower(), tuple(slot.label for slot in answer.slots)
    is_key = len(re.findall(r"(?:^|[\n,;:])\W*\w\s?=", low)) == len(labels) > 1  # 1 = support
    if is_key or (labels == LABELS and re.match(r"\W*a[.):]", low)):
        return "definitions"
    if answer.is_numbered or len(labels) < 2 or not answer.texts:
        return None
    texts = [(before.lower().strip(), after.lower().strip()) for before, after in answer.texts]
    is_menu = (
        labels == LABELS
        and all(map(any, texts))
        and pattern("definition").search(SPELLING.sub(" ", low))
    )
    is_meaning = len(set(labels)) == len(labels) and all("passage" in after for _, after in texts)
    if is_menu or is_meaning or any(_is_rule(before) for before, _ in texts):
        return "definitions"
    counted = [_COUNTED.match(before or after) for before, after in texts]
    is_foreign = len({match[1] for match in counted if match}) == 1 and all(counted)  # Run 1, Run 2
    is_draft = any(
        re.search(r"^.{,60}[:=→>]$", each) and pattern("draft").search(each) for each, _ in texts
    )
    return "numbers of something else" if is_foreign else "draft" if is_draft else None


def _is_rule(text: str) -> bool:
    """True if a label is given to a case, not to a nugget: ``Not stated → not_support``."""
    words = re.findall(r"[^\W\d_]+", text)
    return words[:1] in (["when"], ["if"]) or (
        0 < len(words) < 3 and pattern("meta").search(text) is not None
    )


# Placing labels on nuggets


@dataclass(frozen=True, slots=True)
class Placed:
    """One label or None per nugget, and why labels are missing."""

    answer: LabelList
    labels: tuple[Label | None, ...]
    error_type: ErrorType | None = None
    reason: str = ""

    @property
    def count(self) -> int:
        return sum(label is not None for label in self.labels)


def place(answer: LabelList, count: int) -> Placed:
    """The labels of an answer for ``count`` nuggets."""
    labels = tuple(slot.label for slot in answer.slots)
    size, error, reason = len(labels), "", ""
    if answer.is_numbered:
        if all(slot.index is not None for slot in answer.slots):
            return _by_number(answer, count)
        error, reason = "ambiguous", "some labels have a number and some have none"
    elif size < count:
        error, reason = "truncation", f"{size} of {count} labels, without numbers"
    elif size > count:
        error, reason = "count_mismatch", f"{size} labels for {count} nuggets"
    elif answer.is_cut and None in labels:
        error, reason = "truncation", "the last label is cut off"
    elif answer.known * 2 <= size:  # nuggets and labels in turn, or something else altogether
        error, reason = "unknown_label", f"only {answer.known} of {size} entries are labels"
    elif None in labels:
        unknown = ", ".join(str(i) for i, label in enumerate(labels, 1) if label is None)
        return Placed(answer, labels, "unknown_label", f"no known label for nugget {unknown}")
    if error:
        return Placed(answer, (None,) * count, cast(ErrorType, error), reason)
    return Placed(answer, labels)


def _by_number(answer: LabelList, count: int) -> Placed:
    numbers = {slot.index for slot in answer.slots if slot.index is not None}
    first = 0 if numbers == set(range(count)) else 1
    outside = sorted(n for n in numbers if not first <= n < count + first)
    if outside:
        reason = f"no nugget has the number {outside[0]}"
        return Placed(answer, (None,) * count, "count_mismatch", reason)
    given: dict[int, set[Label | None]] = {}
    for slot in answer.slots:
        given.setdefault(slot.index or 0, set()).add(slot.label)
    order = range(first, count + first)
    labels = tuple(next(iter(given[n])) if len(given.get(n, ())) == 1 else None for n in order)
    error_type, reason = _missing(answer, given, labels, order)
    return Placed(answer, labels, error_type, reason)


def _missing(
    answer: LabelList,
    given: dict[int, set[Label | None]],
    labels: tuple[Label | None, ...],
    order: range,
) -> tuple[ErrorType | None, str]:
    if None not in labels:
        return None, ""
    clashes = [n for n in order if len(given.get(n, ())) > 1]
    if clashes:
        return "ambiguous", f"two labels for number {clashes[0]}"
    absent = [n for n in order if n not in given]
    if answer.is_cut or (absent and absent == list(order)[len(order) - len(absent) :]):
        return "truncation", f"the answer ends before number {absent[0] if absent else order[-1]}"
    if absent:
        return "incomplete_index", f"no number {absent[0]}"
    return "unknown_label", f"no known label for number {order[labels.index(None)]}"


# Deciding

_CONFORMING = {
    "markdown": {"markdown", "yaml"},  # a list with dashes is one in both
    "yaml": {"yaml", "json"},
    "python_list": {"python_list", "json"},  # double quotes are Python too
}


def conforms(format_used: str, format_type: str | None) -> bool:
    """True if an answer is in the one format that was asked for."""
    return format_type is not None and format_used in _CONFORMING.get(format_type, {format_type})


def decide(
    text: str, answers: Sequence[LabelList], count: int, format_type: str | None
) -> LabelReading | None:
    """The reading of the answer that counts; None if there is none."""
    placed = [place(answer, count) for answer in answers if not answer.excluded]
    if not placed:
        return None
    finals = [each for each in placed if each.answer.is_final]
    complete = [each for each in finals or placed if each.error_type is None]
    if not complete:
        return _partial(finals or placed, count)
    chosen = complete[-1]
    for other in placed:
        if other is not chosen and not finals and _differs(other, chosen):
            chosen = _settled(text, other, chosen, format_type)
            if chosen.error_type:
                break
    return reading_of(chosen)


def _differs(one: Placed, other: Placed) -> bool:
    return any(a and b and a != b for a, b in zip(one.labels, other.labels, strict=True))


def _settled(text: str, other: Placed, chosen: Placed, format_type: str | None) -> Placed:
    """Of two answers that differ, the one that replaces the other; else none."""
    first, last = sorted((other, chosen), key=lambda each: each.answer.span)
    between = text[first.answer.span[1] : last.answer.span[0]].lower()[-4000:]
    if pattern("revision").search(between):
        labels = tuple(new or old for new, old in zip(last.labels, first.labels, strict=True))
        return replace(chosen, labels=labels)
    if conforms(chosen.answer.format, format_type) and not conforms(
        other.answer.format, format_type
    ):
        return chosen
    return replace(
        chosen,
        labels=(None,) * len(chosen.labels),
        error_type="ambiguous",
        reason="two answers that differ",
    )


def _partial(placed: Sequence[Placed], count: int) -> LabelReading:
    """The best of incomplete answers; numbered ones complete each other."""
    best = max(placed, key=lambda each: (each.count, each.answer.known))
    if best.count and any(
        _differs(each, best) or (each.answer.known and not each.count) for each in placed
    ):
        best = replace(
            best,
            labels=(None,) * count,
            error_type="ambiguous",
            reason="several incomplete answers",
        )
    return reading_of(best)


def reading_of(placed: Placed) -> LabelReading:
    answer = placed.answer
    return LabelReading(
        placed.labels,
        cast(FormatUsed, answer.format),
        placed.error_type,
        placed.reason,
        answer.rule,
        answer.span,
        answer.known,
    )


def unread(count: int, format_used: FormatUsed, error_type: ErrorType, reason: str) -> LabelReading:
    return LabelReading((None,) * count, format_used, error_type, reason)
