"""Text → ``Reading``: what a model answered, by which rule, and where it stands in the reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Reason = Literal["empty", "refused", "truncated", "ambiguous", "unreadable"]


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer found in a reply, or why there is none.

    ``value`` is the place of the choice (int) where the reader reads choices, a list of places where
    it reads an order, else the text. ``rule`` names what found it, ``span`` is where it stands in the
    reply. Without an answer, ``value`` is None and ``reason`` says why.
    """

    value: Any
    rule: str | None = None
    span: tuple[int, int] | None = None
    reason: Reason | None = None

    @property
    def is_answer(self) -> bool:
        return self.reason is None

    @classmethod
    def unread(cls, reason: Reason) -> Reading:
        return cls(None, reason=reason)


NO_ANSWER = Reading.unread("unreadable")
