"""What a reader returns: an answer with its rule and span, or the reason there is none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from lm_eval.registry import READERS

Reason = Literal["empty", "refused", "truncated", "ambiguous", "unreadable"]


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer found in a reply, or why there is none.

    ``value`` is the index of the choice for a reader of choices, a list of indices for a reader of
    orders, else the text. ``rule`` names the rule that found it, ``span`` is its position in the
    reply. Without an answer, ``value`` is None and ``reason`` says why. ``is_claim`` is False where the
    reply only mentions the answer, which says nothing if the reply was cut short.
    """

    value: Any
    rule: str | None = None
    span: tuple[int, int] | None = None
    reason: Reason | None = None
    is_claim: bool = field(default=True, repr=False, compare=False)

    @property
    def is_answer(self) -> bool:
        return self.reason is None

    @property
    def is_settled(self) -> bool:
        """True if no other rule should be tried: an answer, or evidence for more than one."""
        return self.reason is None or self.reason == "ambiguous"

    @classmethod
    def unread(cls, reason: Reason) -> Reading:
        return cls(None, reason=reason)

    def by(self, rule: str) -> Reading:
        """The same answer with ``rule`` as its rule; a reading without an answer is unchanged."""
        if self.reason is not None:
            return self
        return Reading(self.value, rule, self.span, None, self.is_claim)

    def moved(self, offset: int) -> Reading:
        """The same answer with its span moved ``offset`` characters to the right."""
        if self.span is None:
            return self
        return replace(self, span=(self.span[0] + offset, self.span[1] + offset))


NO_ANSWER = Reading.unread("unreadable")
AMBIGUOUS = Reading.unread("ambiguous")

register_reader = READERS.decorator
