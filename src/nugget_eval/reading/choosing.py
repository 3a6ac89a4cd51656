"""Ranked candidates → the reading: the best, several numbered ones merged, or *ambiguous*."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from nugget_eval.reading.candidates import Candidate
from nugget_eval.reading.placing import Placed, place
from nugget_eval.reading.ranking import is_revised
from nugget_eval.reading.result import ErrorType, FormatUsed, LabelReading
from nugget_eval.reading.spellings import Label

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
    """The reading of the best candidate; None where there is none."""
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
    if is_asked_for or (
        len(differing) < 20 and all(is_revised(text, other, candidate) for other in differing)
    ):
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
    if format_type is None or format_type == "adaptive":
        return False
    return format_used in _CONFORMING.get(format_type, {format_type})
