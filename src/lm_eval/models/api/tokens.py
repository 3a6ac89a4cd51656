"""Tokens, special tokens and the chat template of a model behind a server.

``ServerTokens`` is the part of ``TemplateAPI`` that turns contexts into what is sent: messages, text or
token ids. It sends nothing itself; a tokenizer is loaded when it is first needed.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from lm_eval.errors import ModelError
from lm_eval.formats.assemble import Chat, Context
from lm_eval.models.api.loading import TokenizerLoader
from lm_eval.models.api.scoring import Planner
from lm_eval.models.api.tokenizers import ServerTokenizer
from lm_eval.models.template_lm import TemplateLM


class ServerTokens(TemplateLM, ABC):
    """What a model behind a server knows of tokens."""

    model: str
    tokenizer_backend: str | None
    tokenizer_argument: str | None
    """The tokenizer that was named; None: the model's name stands for it."""
    tokenized_requests: bool
    add_bos_token: bool
    custom_prefix_token_id: int | None
    truncate: bool
    max_length: int
    _loader: TokenizerLoader
    _notes: dict[str, str]
    _last: tuple[Context, str] | None = None

    @property
    def tokenizer(self) -> ServerTokenizer | None:
        return None if self.tokenizer_backend is None else self._loader.tokenizer

    @property
    def tokenizer_name(self) -> str:
        return "" if self.tokenizer_backend is None else self.tokenizer_argument or self.model

    @property
    def chat_template(self) -> str | None:
        """The source of the tokenizer's chat template, where one is loaded."""
        template = self._loader.tokenizer.template if self._loader.is_loaded else None
        return template.source if template else None

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        template = None if self.tokenizer_backend is None else self._loader.tokenizer.template
        if template is None:
            raise ModelError(
                f"The tokenizer {self.tokenizer_name!r} of {type(self).__name__} has no chat "
                "template. Run without --apply_chat_template, name a tokenizer that has one with "
                "tokenizer=…, or use a chat endpoint (--model local-chat-completions)."
            )
        if add_generation_prompt:
            return template.render(chat_history)
        return template.render_open(chat_history)

    @property
    def eot_token_id(self) -> int:
        return self._token("EOS", self._loader.tokenizer.eos)

    @property
    def prefix_token_id(self) -> int:
        """What stands before a text that has no context: the argument, else BOS, else EOS."""
        if self.custom_prefix_token_id is not None:
            return self.custom_prefix_token_id
        found = self._loader.tokenizer
        return self._token("BOS nor EOS", found.eos if found.bos is None else found.bos)

    def _token(self, what: str, token: int | None) -> int:
        if token is None:
            raise ModelError(
                f"The tokenizer {self.tokenizer_name!r} names no {what} token. Give one with "
                "custom_prefix_token_id=NUMBER."
            )
        return token

    def tok_encode(
        self, string: str | list[str], add_special_tokens: bool | None = None, **kwargs: Any
    ) -> Any:
        """The tokens of a text, or of each of a list of texts.

        With special tokens (by default as ``add_bos_token`` says) they begin with the prefix token,
        once.
        """
        tokens = self._loader.tokenizer.encode([string] if isinstance(string, str) else string)
        if self.add_bos_token if add_special_tokens is None else add_special_tokens:
            first = self.prefix_token_id
            tokens = [ids if ids[:1] == [first] else [first, *ids] for ids in tokens]
        return tokens[0] if isinstance(string, str) else tokens

    @property
    def encoder(self) -> Callable[[str], Sequence[int]] | None:
        """None where only the server could tell: each text would cost a request."""
        is_here = self.tokenizer_backend in ("huggingface", "tiktoken")
        return self.tok_encode if is_here else None

    def only_text(self, token: int) -> str | None:
        """The text of a token, or None where another token has the same text."""
        return self._loader.tokenizer.only_text(token)

    def tok_decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return self._loader.tokenizer.decode(tokens)

    def render(self, context: Context) -> str:
        """The context as text; the requests of one doc come one after the other and share it."""
        if self._last is None or self._last[0] is not context:
            self._last = (context, super().render(context))
        return self._last[1]

    def generates_from_tokens(self) -> bool:
        """Whether prompts for generation are tokenized: to send ids, or to cut them.

        With the server's own tokenizer each would cost a request, and the server makes the same
        tokens from text. Where no tokenizer was named and the model's name is none, text is sent too.
        """
        if self.tokenizer_backend not in ("huggingface", "tiktoken"):
            return self.truncate and self.tokenizer_backend is not None
        if not self.tokenized_requests and not self.truncate:
            return False
        try:
            return bool(self._loader.tokenizer)
        except ModelError as error:
            if self.tokenizer_argument is not None or self.truncate:
                raise
            self._notes["text"] = f"prompts for generation were sent as text. {error}"
            return False

    def messages(self, context: Context) -> list[dict[str, str]]:
        """The context as a chat endpoint takes it; a plain prompt is what a user says."""
        if isinstance(context, Chat):
            return context.as_dicts()
        return [{"role": "user", "content": str(context)}]

    @cached_property
    def planner(self) -> Planner:
        return Planner(
            encode=self.tok_encode,
            encode_bare=lambda texts: self.tok_encode(texts, add_special_tokens=False),
            decode=None if self.tokenized_requests else self.tok_decode,
            only_text=self.only_text,
            prefix=lambda: self.prefix_token_id,
            window=self.max_length - 1,
        )
