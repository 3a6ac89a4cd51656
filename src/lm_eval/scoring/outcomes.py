"""What happened on one doc, in the terms that metrics are made from.

Two kinds: choices that were scored (``ChoiceOutcome``) and text that was read (``TextOutcome``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lm_eval.formats.items import AnswerKind
from lm_eval.formats.readers import Reading


@dataclass(frozen=True, slots=True)
class ChoiceOutcome:
    """Log-likelihoods of a doc's continuations, and which are right."""

    logprobs: tuple[float, ...]
    greedy: tuple[bool, ...]
    texts: tuple[str, ...]
    """What was scored, without the delimiter before it."""
    gold: tuple[int, ...]

    def picked(self, lengths: list[int] | None = None) -> int:
        """The place of the best continuation, per unit of length if given; the first wins ties."""
        scores = self.logprobs
        if lengths is not None:
            scores = tuple(
                score / max(length, 1) for score, length in zip(scores, lengths, strict=True)
            )
        return max(range(len(scores)), key=lambda place: (scores[place], -place))


@dataclass(frozen=True, slots=True)
class TextOutcome:
    """A reply as read, and every answer that would be right."""

    reply: str
    reading: Reading
    gold: tuple[Any, ...]
    answers: AnswerKind
    choices: tuple[str, ...] = ()


Outcome = ChoiceOutcome | TextOutcome
