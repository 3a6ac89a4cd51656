"""Text to tokens and back for one model: BOS comes once, and each continuation keeps its own tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from lm_eval.errors import ModelError
from lm_eval.models.base import LM
from lm_eval.models.borders import move_blanks


class Tokens(ABC):
    """The tokenizer of one model. A subclass knows a library; how a prompt begins is the same for all.

    ``model_name`` stands in messages. ``before`` is put before every text, but never a second ``bos``;
    ``after`` behind every text that an encoder reads. ``first`` is put before a text without context.
    """

    chat_template: str | None
    """The source of the chat template."""

    def __init__(
        self,
        model_name: str,
        *,
        bos: int | None,
        first: int | None,
        before: Sequence[int] = (),
        after: Sequence[int] = (),
        is_encoder_decoder: bool = False,
    ) -> None:
        self.model_name = model_name
        self._bos = bos
        self._first = first
        self._before = before
        self._after = after
        self._is_encoder_decoder = is_encoder_decoder

    @abstractmethod
    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text, nothing added."""

    @abstractmethod
    def decode(self, tokens: Sequence[int], *, keeps_special: bool = False) -> str:
        """The text of tokens; special tokens are left out unless they are asked for."""

    @abstractmethod
    def render_chat(
        self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool
    ) -> str:
        """The chat as prompt text; without a generation prompt its last message stays open."""

    @property
    def adds_bos(self) -> bool:
        """Whether a BOS token is put before every text."""
        return bool(self._before) and self._before[0] == self._bos

    @property
    def prefix(self) -> int:
        """The token put before a text that has no context."""
        if self._first is None:
            raise ModelError(
                f"The tokenizer of {self.model_name} has neither a BOS nor an EOS token to put before a "
                "text without context. Use a format or task with a non-empty prompt."
            )
        return self._first

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text as the model reads it at the start of a prompt."""
        if not (self._before or self._after):
            return self.tokenize(texts)
        return [
            [*([] if tokens[:1] == [self._bos] else self._before), *tokens, *self._after]
            for tokens in self.tokenize(texts)
        ]

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """The tokens of each context, and those of its continuation.

        A causal model reads both as one text, whose tokens beyond the length of the context are the
        continuation's. In an encoder-decoder the continuation is a text of its own.
        """
        apart = self._is_encoder_decoder
        moved = [move_blanks(*pair) for pair in pairs]
        starts = self.encode([context for context, _ in moved])
        bare = iter(self.tokenize([after for context, after in moved if apart or not context]))
        joined = [before + after for before, after in moved if before and not apart]
        wholes = iter(self.encode(joined))
        encoded = []
        for (context, _), before in zip(moved, starts, strict=True):
            if not context:
                first, after = self.prefix, next(bare)
                encoded.append(([first], after[1:] if after[:1] == [first] else after))
            elif apart:
                encoded.append((before or [self.prefix], next(bare)))
            else:
                encoded.append((before, next(wholes)[len(before) :]))
        return encoded


class TokenizedLM(LM):
    """Base of models with a tokenizer in this process."""

    @property
    @abstractmethod
    def tokens(self) -> Tokens:
        """Text to tokens and back."""

    @property
    def chat_template(self) -> str | None:
        """The source of the chat template."""
        return self.tokens.chat_template

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        if self.chat_template is None:
            raise ModelError(
                f"{self.tokens.model_name} has no chat template. Run without --apply_chat_template, or "
                "use an instruction-tuned model."
            )
        return self.tokens.render_chat(chat_history, add_generation_prompt=add_generation_prompt)

    @property
    def prefix_token_id(self) -> int:
        """The token put before a text that has no context."""
        return self.tokens.prefix

    def tok_encode(
        self,
        string: str,
        add_special_tokens: bool | None = None,
        left_truncate_len: int | None = None,
        **_: Any,
    ) -> list[int]:
        """The tokens of a text; None leaves special tokens to the tokenizer."""
        encode = self.tokens.tokenize if add_special_tokens is False else self.tokens.encode
        tokens = encode([string])[0]
        return tokens[-left_truncate_len:] if left_truncate_len else tokens

    def tok_decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, special ones included."""
        return self.tokens.decode(tokens, keeps_special=True)
