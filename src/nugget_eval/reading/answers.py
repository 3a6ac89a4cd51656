"""Which of the possible answers counts, and which nugget each of its labels belongs to.

The words around a list say whether it is an example, a draft, a quotation or the final answer.
Labels are placed by their numbers or, if there is one for each nugget, in order. Two answers that
differ are ambiguous unless words between them replace the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

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

    format: FormatUsed
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


# What the words around an answer say it is


def judged(text: str, answers: Sequence[LabelList]) -> list[LabelList]:
    """``answers`` in order, each with why it is excluded or whether it is final."""
    kept: list[LabelList] = []
    for answer in sorted(answers, key=lambda each: each.span):
        floor = kept[-1].span[1] if kept else 0
        lead = _lead(text, answer.span[0], floor)
        excluded = answer.excluded or _exclusion(text, answer, lead)
        is_final = not excluded and pattern("final").search(lead) is not None
        kept.append(replace(answer, excluded=excluded, is_final=is_final))
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
    after = text[end : end + _REACH].lower()
    cues = {
        "quote": not lead.endswith((".", "!")) and pattern("quote").search(lead),
        "example": pattern("example").search(lead)
        or pattern("disowned").match(after.lstrip(" \t\n*_`)]}.,:;\"'-"))
        or pattern("asking").search(after),
        "draft": pattern("draft").search(lead),
    }
    cued = next((why for why, cue in cues.items() if cue), None)
    return cued or _about_labels(text[start:end], answer)


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


def place(answer: LabelList, count: int) -> LabelReading:
    """The labels of an answer for ``count`` nuggets."""
    labels = tuple(slot.label for slot in answer.slots)
    size, known = len(labels), sum(label is not None for label in labels)
    if answer.is_numbered:
        if all(slot.index is not None for slot in answer.slots):
            return _by_number(answer, count)
        reason = "some labels have a number and some have none"
        return reading_of(answer, (None,) * count, "ambiguous", reason)
    problem: tuple[ErrorType, str] | None = None
    if size < count:
        problem = "truncation", f"{size} of {count} labels, without numbers"
    elif size > count:
        problem = "count_mismatch", f"{size} labels for {count} nuggets"
    elif answer.is_cut and None in labels:
        problem = "truncation", "the last label is cut off"
    elif known * 2 <= size:  # nuggets and labels in turn, or something else altogether
        problem = "unknown_label", f"only {known} of {size} entries are labels"
    elif None in labels:
        unknown = ", ".join(str(i) for i, label in enumerate(labels, 1) if label is None)
        return reading_of(answer, labels, "unknown_label", f"no known label for nugget {unknown}")
    return reading_of(answer, (None,) * count, *problem) if problem else reading_of(answer, labels)


def _by_number(answer: LabelList, count: int) -> LabelReading:
    given: dict[int, set[Label | None]] = {}
    for slot in answer.slots:
        given.setdefault(slot.index or 0, set()).add(slot.label)
    first = 0 if set(given) == set(range(count)) else 1
    order = range(first, count + first)
    outside = sorted(set(given) - set(order))
    if outside:
        reason = f"no nugget has the number {outside[0]}"
        return reading_of(answer, (None,) * count, "count_mismatch", reason)
    labels = tuple(next(iter(given[n])) if len(given.get(n, ())) == 1 else None for n in order)
    if None not in labels:
        return reading_of(answer, labels)
    clashes = [n for n in order if len(given.get(n, ())) > 1]
    absent = [n for n in order if n not in given]
    problem: tuple[ErrorType, str]
    if clashes:
        problem = "ambiguous", f"two labels for number {clashes[0]}"
    elif answer.is_cut or (absent and absent[0] > max(given)):
        end = absent[0] if absent else order[-1]
        problem = "truncation", f"the answer ends before number {end}"
    elif absent:
        problem = "incomplete_index", f"no number {absent[0]}"
    else:
        problem = "unknown_label", f"no known label for number {order[labels.index(None)]}"
    return reading_of(answer, labels, *problem)


def reading_of(
    answer: LabelList,
    labels: tuple[Label | None, ...],
    error_type: ErrorType | None = None,
    reason: str = "",
) -> LabelReading:
    found = sum(slot.label is not None for slot in answer.slots)
    return LabelReading(labels, answer.format, error_type, reason, answer.rule, answer.span, found)


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
    possible = [answer for answer in answers if not answer.excluded]
    finals = [answer for answer in possible if answer.is_final]
    placed = [place(answer, count) for answer in finals or possible]
    complete = [each for each in placed if each.is_complete]
    if not complete:
        several = len(placed) > 1
        return (
            _ambiguous(placed[-1], "several incomplete answers")
            if several
            else placed[0]
            if placed
            else None
        )
    chosen = complete[-1]
    for other in () if finals else placed:
        if _differs(other, chosen) and chosen.is_complete:
            chosen = _settled(text, other, chosen, format_type)
    return chosen


def _differs(one: LabelReading, other: LabelReading) -> bool:
    return any(a and b and a != b for a, b in zip(one.labels, other.labels, strict=True))


def _settled(
    text: str, other: LabelReading, chosen: LabelReading, format_type: str | None
) -> LabelReading:
    """Of two answers that differ, the one that replaces the other; else none."""
    first, last = sorted((other, chosen), key=lambda each: each.span or (0, 0))
    between = text[(first.span or (0, 0))[1] : (last.span or (0, 0))[0]]
    if pattern("revision").search(between.lower()[-4000:]):
        labels = tuple(new or old for new, old in zip(last.labels, first.labels, strict=True))
        return replace(chosen, labels=labels)
    if conforms(chosen.format_used, format_type) and not conforms(other.format_used, format_type):
        return chosen
    return _ambiguous(chosen, "two answers that differ")


def _ambiguous(reading: LabelReading, reason: str) -> LabelReading:
    nothing = (None,) * len(reading.labels)
    return replace(reading, labels=nothing, error_type="ambiguous", reason=reason)


def unread(count: int, format_used: FormatUsed, error_type: ErrorType, reason: str) -> LabelReading:
    return LabelReading((None,) * count, format_used, error_type, reason)
