"""Ranked candidates → the reading: the best one, what numbered ones have in common, or a refusal."""

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
    text: str, found: Sequence[Candidate], count: int, format_type: str | None
) -> LabelReading | None:
    """The reading of the best candidate; None where there is none."""
    left = usable(found)
    if not left:
        return None
    top = max(one.rank for one in left)
    best = [one for one in left if one.rank == top]
    placed = [(one, place(one, count)) for one in best]
    if top == 3:
        return _reading(*placed[-1])
    complete = [(one, result) for one, result in placed if result.error_type is None]
    if complete:
        return _agreed(text, complete, format_type)
    return _partial(placed, count)


Choice = tuple[Candidate, Placed]


def _agreed(text: str, complete: Sequence[Choice], format_type: str | None) -> LabelReading:
    """One of several complete answers; two that differ count only if the last replaces the others."""
    one, result = complete[-1]
    differing = [other for other, own in complete if own.labels != result.labels]
    if not differing:
        return _reading(one, result)
    is_asked_for = conforms(one.format, format_type) and not any(
        conforms(other.format, format_type) for other in differing
    )
    if is_asked_for or (
        len(differing) < 20 and all(is_revised(text, other, one) for other in differing)
    ):
        return _reading(one, result)
    return replace(
        unread(len(result.labels), one.format, "ambiguous", "two answers that differ"),
        found=one.known,
        rule=one.rule,
        span=one.span,
    )


def _partial(placed: Sequence[Choice], count: int) -> LabelReading:
    """The best of incomplete answers; numbered ones complete each other."""
    numbered = [one for one, _ in placed if one.is_numbered]
    if len(numbered) > 1 and len(numbered) == len(placed):
        first, last = numbered[0], numbered[-1]
        slots = tuple(slot for one in numbered for slot in one.slots)
        merged = replace(last, slots=slots, span=(first.span[0], last.span[1]))
        return _reading(merged, place(merged, count))
    one, result = max(placed, key=lambda choice: (choice[1].count, choice[0].known))
    if result.count and any(
        other.known and other is not one and own.labels != result.labels for other, own in placed
    ):
        result = Placed((None,) * count, "ambiguous", "several incomplete answers")
    return _reading(one, result)


def _reading(one: Candidate, result: Placed) -> LabelReading:
    return LabelReading(
        result.labels,
        cast(FormatUsed, one.format),
        result.error_type,
        result.reason,
        one.rule,
        one.span,
        result.spans,
        one.known,
        one.repairs,
    )


def unread(count: int, format_used: str, error_type: ErrorType, reason: str) -> LabelReading:
    labels: tuple[Label | None, ...] = (None,) * count
    return LabelReading(labels, cast(FormatUsed, format_used), error_type, reason)


def usable(found: Sequence[Candidate]) -> list[Candidate]:
    return [one for one in found if one.excluded is None]


def conforms(format_used: str, format_type: str | None) -> bool:
    if format_type is None or format_type == "adaptive":
        return False
    return format_used in _CONFORMING.get(format_type, {format_type})
