"""Slots → one label or None per nugget: by their numbers where they have them, else in order."""

from __future__ import annotations

from dataclasses import dataclass

from nugget_eval.reading.candidates import Candidate, Slot, Span
from nugget_eval.reading.result import ErrorType
from nugget_eval.reading.spellings import Label


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
    return _by_number(candidate, count)


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
    first = 0 if set(numbers) == set(range(count)) else 1
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
