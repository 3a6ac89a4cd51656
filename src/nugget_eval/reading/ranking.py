"""Which candidate is the answer, and which nugget each of its labels belongs to.

``rank`` excludes examples, quotations and drafts and ranks the rest: 3 marked as final or in an answer
element, 2 on separate lines, 1 inside a sentence. ``place`` assigns labels to nuggets by their numbers
or their order, and ``decide`` turns the best candidate into a ``LabelReading``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from nugget_eval.reading import cues
from nugget_eval.reading.candidates import (
    Candidate,
    ErrorType,
    FormatUsed,
    LabelReading,
    Slot,
    Span,
)
from nugget_eval.reading.notations.tags import answer_spans
from nugget_eval.reading.spellings import LABELS, Label

_LEAD_END = " \t\r\n`~<>()[]{}*_#\"'“”"
# An ellipsis replaces labels; the position of what follows it is uncertain.
_ELISION = re.compile(r"(?:^|[\s,;|\[>\"'])(?:\.{3}|…)(?=[\s,;|\]<\"']|\Z)", re.MULTILINE)


def rank(text: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """``candidates``, in order, with why each is excluded, or its rank."""
    answers = answer_spans(text)
    starts = [start for start, _ in answers]
    ranked: list[Candidate] = []
    for candidate in candidates:
        last = ranked[-1] if ranked else None
        # inside an answer element, or that element itself
        at = bisect_right(starts, candidate.span[1]) - 1
        is_answer = at >= 0 and candidate.span[0] < answers[at][1]
        ranked.append(_ranked(text, candidate, last, is_answer=is_answer))
    return ranked


def _ranked(
    text: str, candidate: Candidate, last: Candidate | None, *, is_answer: bool
) -> Candidate:
    if candidate.excluded:
        return candidate
    # Words before the previous candidate are about that one, unless both are in one enumeration.
    floor = _labels_end(text, last) if last is not None else 0
    lead = _lead(text, candidate.span[0], _line_end(text, floor, candidate.span[0]) if last else 0)
    excluded = None if is_answer else _exclusion(text, candidate, lead)
    if last is not None and last.excluded and _is_enumerated(text[floor : candidate.span[0]]):
        excluded = last.excluded
    if excluded is not None:
        return replace(candidate, excluded=excluded)
    if is_answer or cues.is_final(lead):
        return replace(candidate, rank=3)
    shares_line = last is not None and "\n" not in text[floor : candidate.span[0]]
    return replace(
        candidate, rank=2 if _stands_alone(text, candidate.span) and not shares_line else 1
    )


def _labels_end(text: str, candidate: Candidate) -> int:
    """Where the last label of a candidate ends; words on the same line may be about the next one."""
    start, end = candidate.span
    if candidate.excluded is None:
        return end
    labels = _LABEL.finditer(text, max(start, end - cues.REACH), end)
    return max((label.end() for label in labels), default=end)


_LABEL = re.compile(r"support(?:ed)?\b", re.IGNORECASE)


def _line_end(text: str, start: int, stop: int) -> int:
    """Where the line of ``start`` ends; ``start`` itself if that is after ``stop``."""
    end = text.find("\n", start, stop)
    return end if end >= 0 else start


def _is_enumerated(between: str) -> bool:
    return len(between) < 12 and "\n" not in between and ":" not in between


def _exclusion(text: str, candidate: Candidate, lead: str) -> str | None:
    """Why a candidate cannot be the answer, by the words before it, then by itself and what follows."""
    why = cues.cue(lead) if lead else None
    if why is None and not candidate.is_numbered and cues.is_format(lead):
        why = "example"
    if why is not None:
        return why
    start, end = candidate.span
    line = text.rfind("\n", max(0, start - cues.REACH), start) + 1
    if text[line:start].lstrip()[:1] == ">":
        return "quote"
    is_elided = not candidate.is_numbered and _ELISION.search(text, start, min(end, start + 20_000))
    if is_elided or cues.is_disowned(text, start, end):
        return "example"
    return "definitions" if is_definitions(text, candidate) else None


# What a definition of a label speaks of, and the text of a nugget seldom does.
_ABOUT_NUGGETS = re.compile(
    r"\b(?:passages?|texts?|nuggets?|documents?|claims?|facts?|statements?|state[sd]?|stating|mention\w*|captur\w+"
    r"|contain\w*|cover\w*|absent|absence|missing|explicit\w*|implicit\w*|part(?:ly|s|ial|ially)?|full(?:y)?|complete\w*"
    r"|evidence|information|present|found|given|nothing|says?|said|confirm\w*|direct\w*|relevant|only|sentence|line"
    r"|paragraph|source|match\w*|not|no|unrelated|wrong|but)\b"
)
_FOREIGN = re.compile(r"[^\W\d_a-z]")
_DEFINING = (
    "explicitly and sufficiently",
    "directly relevant but",
    "is absent",
    "external knowledge",
)


def is_definitions(text: str, candidate: Candidate) -> bool:
    """The three labels once each, every one with words after it: the prompt's own definitions.

    Where they are numbered, or not in the prompt's order, the words must be those of the prompt.
    """
    labels = [slot.label for slot in candidate.slots]
    if len(labels) != len(LABELS) or set(labels) != set(LABELS):
        return False
    if not all(slot.explained for slot in candidate.slots):
        return False
    source = text[slice(*candidate.span)].lower()
    if not candidate.is_numbered and tuple(labels) == LABELS:
        return _FOREIGN.search(source) is not None or _ABOUT_NUGGETS.search(source) is not None
    return sum(words in source for words in _DEFINING) > 1


def is_menu(answer: str, format_type: str | None) -> bool:
    """True for the labels joined by pipes: they are in the prompt, so an echo unless asked for."""
    is_asked_for = format_type in (None, "pipe", "adaptive")
    return not is_asked_for and answer.strip(" \t\"'`") == _MENU


_MENU = "|".join(LABELS)


def without_menu(text: str, candidate: Candidate, format_type: str | None) -> Candidate:
    """The candidate, excluded if it is the menu of labels."""
    if candidate.format != "pipe" or not is_menu(text[slice(*candidate.span)], format_type):
        return candidate
    return replace(candidate, excluded="menu")


def _lead(text: str, start: int, floor: int) -> str:
    """What leads up to a candidate: the rest of its line before it, else the line before that."""
    before = text[max(floor, start - 3 * cues.REACH) : start]
    line = before.rpartition("\n")[2]
    if line.strip(_LEAD_END + "-+•0123456789.:="):
        return cues.last_sentence(line)
    above = before.rstrip().split("\n")
    while above and (not above[-1].strip(_LEAD_END) or above[-1].lstrip()[:3] in ("```", "~~~")):
        above.pop()
    return cues.last_sentence(above[-1].strip()) if above else ""


def _stands_alone(text: str, span: Span) -> bool:
    """True if a candidate shares its lines with nothing but punctuation, or follows a colon."""
    before = text[max(0, span[0] - cues.REACH) : span[0]].rpartition("\n")[2].rstrip(" \t\"'`*")
    after = text[span[1] : span[1] + cues.REACH].partition("\n")[0].strip(" \t\"'`*.,;")
    is_led = not before.strip(_LEAD_END) or before.endswith((":", "=", "→", ">"))
    return is_led and not after.strip(_LEAD_END)


# Placing labels on nuggets


@dataclass(frozen=True, slots=True)
class Placed:
    """One label or None per nugget, and why labels are missing."""

    labels: tuple[Label | None, ...]
    error_type: ErrorType | None = None
    reason: str = ""
    spans: tuple[Span | None, ...] = ()

    @property
    def count(self) -> int:
        return sum(label is not None for label in self.labels)


def place(candidate: Candidate, count: int) -> Placed:
    """The labels of a candidate for ``count`` nuggets."""
    if not candidate.is_numbered:
        return _in_order(candidate, count)
    if any(slot.index is None for slot in candidate.slots):
        return _none(count, "ambiguous", "some labels have a number and some have none")
    placed = _by_number(candidate, count)
    if candidate.needs_all and placed.error_type is not None:
        return _none(count, placed.error_type, placed.reason)
    return placed


def _none(count: int, error_type: ErrorType, reason: str) -> Placed:
    return Placed((None,) * count, error_type, reason)


def _in_order(candidate: Candidate, count: int) -> Placed:
    size = len(candidate.slots)
    if size < count:
        return _none(count, "truncation", f"{size} of {count} labels, without numbers")
    if size > count:
        return _none(count, "count_mismatch", f"{size} labels for {count} nuggets")
    labels = tuple(slot.label for slot in candidate.slots)
    spans = tuple(slot.span for slot in candidate.slots)
    if None not in labels:
        return Placed(labels, spans=spans)
    if candidate.is_cut:
        return _none(count, "truncation", "the last label is cut off")
    if candidate.known * 2 <= size:  # nuggets and labels in turn, or something else altogether
        return _none(count, "unknown_label", f"only {candidate.known} of {size} entries are labels")
    unknown = ", ".join(str(i) for i, label in enumerate(labels, 1) if label is None)
    return Placed(labels, "unknown_label", f"no known label for nugget {unknown}", spans)


def _by_number(candidate: Candidate, count: int) -> Placed:
    numbers = [slot.index for slot in candidate.slots if slot.index is not None]
    first = 0 if set(numbers) == set(range(count)) and not candidate.needs_all else 1
    outside = sorted({n for n in numbers if not first <= n < count + first})
    if outside:
        return _none(count, "count_mismatch", f"no nugget has the number {outside[0]}")
    slots: dict[int, Slot] = {}
    clashes: set[int] = set()
    for slot, number in zip(candidate.slots, numbers, strict=True):
        known = slots.setdefault(number, slot)
        if known.label != slot.label:
            clashes.add(number)
    order = range(first, count + first)
    kept = [slots.get(n) if n not in clashes else None for n in order]
    labels = tuple(slot.label if slot else None for slot in kept)
    spans = tuple(slot.span if slot and slot.label else None for slot in kept)
    error_type, reason = _missing(candidate, slots, clashes, labels, list(order))
    return Placed(labels, error_type, reason, spans)


def _missing(
    candidate: Candidate,
    slots: dict[int, Slot],
    clashes: set[int],
    labels: tuple[Label | None, ...],
    order: list[int],
) -> tuple[ErrorType | None, str]:
    if None not in labels:
        return None, ""
    if clashes:
        return "ambiguous", f"two labels for number {min(clashes)}"
    absent = [n for n in order if n not in slots]
    if candidate.is_cut or (absent and absent == order[len(order) - len(absent) :]):
        return "truncation", f"the answer ends before number {absent[0] if absent else order[-1]}"
    if absent:
        return "incomplete_index", f"no number {absent[0]}"
    unknown = min(n for n in order if slots[n].label is None)
    return "unknown_label", f"no known label for number {unknown}"


# Deciding

_CONFORMING = {
    "markdown": {"markdown", "yaml"},  # a list with dashes is one in both
    "yaml": {"yaml", "json"},
    "numbered": {"numbered"},
    "python_list": {"python_list", "json"},  # double quotes are Python too
    "csv": {"csv"},
}


def decide(
    text: str, candidates: Sequence[Candidate], count: int, format_type: str | None
) -> LabelReading | None:
    """The reading of the best candidate; None if there is none."""
    left = usable(candidates)
    if not left:
        return None
    top = max(candidate.rank for candidate in left)
    best = [candidate for candidate in left if candidate.rank == top]
    placed = [(candidate, place(candidate, count)) for candidate in best]
    if top == 3:
        return _reading(*placed[-1])
    complete = [(candidate, result) for candidate, result in placed if result.error_type is None]
    if complete:
        return _agreed(text, complete, format_type)
    return _partial(placed, count)


Choice = tuple[Candidate, Placed]


def _agreed(text: str, complete: Sequence[Choice], format_type: str | None) -> LabelReading:
    """One of several complete answers; two that differ count only if the last replaces the others."""
    candidate, result = complete[-1]
    differing = [other for other, placed in complete if placed.labels != result.labels]
    if not differing:
        return _reading(candidate, result)
    is_asked_for = conforms(candidate.format, format_type) and not any(
        conforms(other.format, format_type) for other in differing
    )
    start = candidate.span[0]
    is_replacing = len(differing) < 20 and all(
        cues.is_revising(text[other.span[1] : start][-4000:]) for other in differing
    )
    if is_asked_for or is_replacing:
        return _reading(candidate, result)
    return replace(
        unread(len(result.labels), candidate.format, "ambiguous", "two answers that differ"),
        found=candidate.known,
        rule=candidate.rule,
        span=candidate.span,
    )


def _partial(placed: Sequence[Choice], count: int) -> LabelReading:
    """The best of incomplete answers; numbered ones complete each other."""
    numbered = [candidate for candidate, _ in placed if candidate.is_numbered]
    if len(numbered) > 1 and len(numbered) == len(placed):
        first, last = numbered[0], numbered[-1]
        slots = tuple(slot for candidate in numbered for slot in candidate.slots)
        merged = replace(last, slots=slots, span=(first.span[0], last.span[1]))
        return _reading(merged, place(merged, count))
    candidate, result = max(placed, key=lambda choice: (choice[1].count, choice[0].known))
    if result.count and any(
        other.known and other is not candidate and placing.labels != result.labels
        for other, placing in placed
    ):
        result = Placed((None,) * count, "ambiguous", "several incomplete answers")
    return _reading(candidate, result)


def _reading(candidate: Candidate, result: Placed) -> LabelReading:
    return LabelReading(
        result.labels,
        cast(FormatUsed, candidate.format),
        result.error_type,
        result.reason,
        candidate.rule,
        candidate.span,
        result.spans,
        candidate.known,
        candidate.repairs,
    )


def unread(count: int, format_used: str, error_type: ErrorType, reason: str) -> LabelReading:
    labels: tuple[Label | None, ...] = (None,) * count
    return LabelReading(labels, cast(FormatUsed, format_used), error_type, reason)


def usable(candidates: Sequence[Candidate]) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.excluded is None]


def conforms(format_used: str, format_type: str | None) -> bool:
    """True if an answer is in the one format that was asked for."""
    if format_type is None or format_type == "adaptive":
        return False
    return format_used in _CONFORMING.get(format_type, {format_type})
