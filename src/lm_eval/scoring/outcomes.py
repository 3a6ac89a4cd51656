"""What happened on one doc, in the terms that metrics are made from.

Two kinds: choices that were scored (``ChoiceOutcome``) and text that was read (``TextOutcome``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lm_eval.errors import ModelError
from lm_eval.formats.items import AnswerKind
from lm_eval.formats.readers import Reading
from lm_eval.stats.positions import mean_prior, probabilities, without_prior

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
    divides_as_arrays: bool = False
    """Whether division by zero and ∞ − ∞ go as in the arrays of EleutherAI's harness: an empty choice
    is infinitely unlikely per unit of length, and the first NaN is the highest score. Under a format
    an empty choice counts as one unit long, and NaN (impossible with and without the question) is the
    lowest score, so that the place of a choice does not matter."""

    def picked(self, lengths: Sequence[int] | None = None) -> int:
        """The place of the best continuation, per unit of length if given; the first wins ties."""
        if lengths is None:
            return self._best(self.logprobs)
        return self._best([self._per(ll, n) for ll, n in zip(self.logprobs, lengths, strict=True)])

    def picked_by_gain(self) -> int:
        """The place of the continuation that the question makes more likely than any other."""
        return self._best([ll - alone for ll, alone in zip(self.logprobs, self.alone, strict=True)])

    def picked_calibrated(self) -> int:
        """The place of the continuation that gains most over questions without content.

        Probabilities are those among the continuations, and are averaged over these questions.
        """
        prior = mean_prior([probabilities(row) for row in self.content_free])
        return self._best(without_prior(self.logprobs, prior))

    def token_counts(self) -> list[int]:
        """The tokens of each continuation; an error where the backend has not counted them."""
        counts = [count for count in self.tokens if count is not None]
        if len(counts) != len(self.logprobs):
            raise ModelError(NO_TOKEN_COUNTS)
        return counts

    def _per(self, logprob: float, length: int) -> float:
        """The log-likelihood per unit of length."""
        if length == 0 and self.divides_as_arrays:
            return logprob * math.inf
        return logprob / max(length, 1)

    def _best(self, scores: Sequence[float]) -> int:
        """The place of the highest score; the first wins ties."""
        nan_wins = self.divides_as_arrays
        places = range(len(scores))
        return max(places, key=lambda at: (math.isnan(scores[at]) == nan_wins, scores[at]))


@dataclass(frozen=True, slots=True)
class TextOutcome:
    """A reply as read, and every answer that would be right."""

    reply: str
    reading: Reading
    gold: tuple[Any, ...]
    answers: AnswerKind
    choices: tuple[str, ...] = ()


Outcome = ChoiceOutcome | TextOutcome
