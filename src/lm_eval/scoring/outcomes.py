"""What happened on one doc, in the terms that metrics are made from.

Two kinds: choices that were scored (``ChoiceOutcome``) and text that was read (``TextOutcome``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.errors import ModelError
from lm_eval.formats.items import AnswerKind
from lm_eval.formats.readers import Reading
from lm_eval.stats.orders import mean_prior, probabilities, without_prior

NO_TOKEN_COUNTS = (
    "acc_tokens divides by the number of tokens of each choice, and the model backend does not tell "
    "it. Use one that does (`gguf` or `hf`; a backend of your own returns `lm_eval.api.model.Score` "
    "with `tokens`), or another normalisation: acc_norm (per character) or acc_bytes (per byte)."
)


@dataclass(frozen=True, slots=True)
class ChoiceOutcome:
    """Log-likelihoods of a doc's continuations, and which are right."""

    logprobs: tuple[float, ...]
    greedy: tuple[bool, ...]
    texts: tuple[str, ...]
    """What was scored, without the delimiter before it."""
    gold: tuple[int, ...]
    tokens: tuple[int | None, ...] = ()
    """How many tokens each log-likelihood is the sum of; None where the backend does not say."""
    alone: tuple[float, ...] = ()
    """The log-likelihoods without the question, where they were asked for."""
    content_free: tuple[tuple[float, ...], ...] = ()
    """The log-likelihoods after each question without content, where they were asked for."""

    def picked(self, lengths: Sequence[int] | None = None) -> int:
        """The place of the best continuation, per unit of length if given; the first wins ties."""
        if lengths is None:
            return _best(self.logprobs)
        return _best([ll / max(n, 1) for ll, n in zip(self.logprobs, lengths, strict=True)])

    def picked_by_gain(self) -> int:
        """The place of the continuation that the question makes more likely than any other."""
        return _best([ll - alone for ll, alone in zip(self.logprobs, self.alone, strict=True)])

    def picked_calibrated(self) -> int:
        """The place of the continuation that gains most over questions without content.

        Probabilities are those among the continuations, and are averaged over these questions.
        """
        prior = mean_prior([probabilities(row) for row in self.content_free])
        return _best(without_prior(self.logprobs, prior))

    def token_counts(self) -> list[int]:
        """The tokens of each continuation; an error where the backend has not counted them."""
        counts = [count for count in self.tokens if count is not None]
        if len(counts) != len(self.logprobs):
            raise ModelError(NO_TOKEN_COUNTS)
        return counts


def _best(scores: Sequence[float]) -> int:
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
