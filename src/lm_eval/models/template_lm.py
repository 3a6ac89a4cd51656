"""``TemplateLM``: a model with a tokenizer, which scores tokens; pairs of texts are encoded here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

from lm_eval.models.base import LM

EncodedPair = tuple[tuple[str, str], list[int], list[int]]
"""``((context, continuation), tokens of the context, tokens of the continuation)``."""


class TemplateLM(LM, ABC):
    """Base of models that score tokens. ``loglikelihood`` follows from the methods below."""

    tokenizer: Any = None
    backend: Literal["causal", "seq2seq"] = "causal"

    @property
    @abstractmethod
    def eot_token_id(self) -> int:
        """The token that ends a text."""

    @property
    def prefix_token_id(self) -> int:
        """The token that stands before a continuation without a context."""
        return self.eot_token_id

    @abstractmethod
    def tok_encode(
        self, string: str, add_special_tokens: bool | None = None, **kwargs: Any
    ) -> list[int]:
        """The tokens of a text; None leaves special tokens to the tokenizer."""

    @abstractmethod
    def _loglikelihood_tokens(
        self, requests: list[EncodedPair], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """``(sum of log-probs of the continuation, whether it is the greedy choice)`` for each."""

    def loglikelihood(
        self, requests: Sequence[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        pairs = [(request.args[0], request.args[1]) for request in requests]
        encoded = [(pair, *self._encode_in_place(*pair)) for pair in pairs]
        return self._loglikelihood_tokens(encoded, disable_tqdm=disable_tqdm)

    def _encode_in_place(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        if context:
            return self._encode_pair(context, continuation)
        prefix = self.prefix_token_id
        tokens = self.tok_encode(continuation, add_special_tokens=False)
        return [prefix], tokens[1:] if tokens[:1] == [prefix] else tokens

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """Both as tokens. A causal model sees them as one text, and tokens may merge at the seam.

        Blanks that end the context go to the continuation: most tokenizers join a blank to the
        word behind it.
        """
        stripped = context.rstrip()
        continuation = context[len(stripped) :] + continuation
        if self.backend == "seq2seq":
            return self.tok_encode(stripped), self.tok_encode(
                continuation, add_special_tokens=False
            )
        whole = self.tok_encode(stripped + continuation)
        before = self.tok_encode(stripped)
        return before, whole[len(before) :]
