"""Servers that speak OpenAI's protocol: completions and chat, local ones and OpenAI's own."""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import Any

from lm_eval.addresses.finder import attributes_of
from lm_eval.errors import ModelError
from lm_eval.models.api.enforcer import DIALECTS
from lm_eval.models.api.replies import (
    NextTokens,
    chat_reply,
    choices_of,
    completion_reply,
    echoed_scores,
    next_tokens,
)
from lm_eval.models.api_models import TemplateAPI
from lm_eval.models.batches.protocols import BatchProtocol, OpenAIBatches
from lm_eval.registry import register_model

_KEY = "OPENAI_API_KEY"
_MOST_STOPS = 4
# o1, o3-mini, o4-mini, gpt-5, gpt-5.1-mini, also behind a prefix such as ``openai/`` or ``ft:``.
_REASONING_MODEL = re.compile(r"(?:^|[/:])(?:o[1-9](?![\w.])|gpt-[5-9](?!\d))", re.IGNORECASE)


def stop_strings(gen_kwargs: dict[str, Any], eos: str | None) -> list[str]:
    """Take ``until`` out of ``gen_kwargs``: its texts, then ``eos``, each once and none empty."""
    until = gen_kwargs.pop("until", None) or []
    texts = [until] if isinstance(until, str) else [*until]
    return [text for text in dict.fromkeys([*texts, eos]) if text]


def token_limit(gen_kwargs: dict[str, Any], default: int) -> int:
    """Take the limit for generated tokens out of ``gen_kwargs``, under whichever name it has."""
    names = ("max_completion_tokens", "max_tokens", "max_new_tokens", "max_gen_toks")
    limits = [value for name in names if (value := gen_kwargs.pop(name, None))]
    return int(limits[-1]) if limits else default


@register_model("local-completions")
class LocalCompletionsAPI(TemplateAPI):
    """Any server with OpenAI's completions endpoint, such as vLLM's or llama.cpp's."""

    endpoint = "/v1/completions"
    key_variable = _KEY
    enforced_by = DIALECTS
    batch_protocol: type[BatchProtocol] | None = OpenAIBatches
    most_stops: int | None = None
    limit_name = "max_tokens"

    def __init__(
        self,
        base_url: str | None = None,
        tokenizer_backend: str | None = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(base_url=base_url, tokenizer_backend=tokenizer_backend, **kwargs)

    @cached_property
    def api_key(self) -> str:
        return os.environ.get(_KEY, "")

    def _create_payload(
        self,
        messages: Any,
        generate: bool = False,
        gen_kwargs: dict[str, Any] | None = None,
        seed: int = 1234,
        eos: str | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        asked = "messages" if self.is_chat else "prompt"
        payload: dict[str, Any] = {"model": self.model, asked: messages}
        if not generate and not self.is_chat:
            wanted = {"temperature": 0, "max_tokens": 1, "logprobs": 1, "echo": True}
            return {**payload, **wanted, "seed": seed, **kwargs}
        rest = dict(gen_kwargs or {})
        rest.pop("do_sample", None)
        stops = stop_strings(rest, eos)[: self.most_stops]
        payload[self.limit_name] = token_limit(rest, self.max_gen_toks)
        temperature = rest.pop("temperature", 0)
        payload["temperature"] = 1 if self.always_samples else temperature
        if stops and not self.always_samples:
            payload["stop"] = stops
        return {**payload, "seed": seed, **rest, **kwargs}

    @staticmethod
    def parse_logprobs(
        outputs: Any,
        tokens: list[list[int]] | None = None,
        ctxlens: list[int] | None = None,
        **kwargs: Any,
    ) -> list[tuple[float, bool]]:
        return echoed_scores(outputs, tokens, ctxlens or [])

    @staticmethod
    def parse_generations(outputs: Any, **kwargs: Any) -> list[str]:
        return [completion_reply(choice) for choice in choices_of(outputs)]

    @staticmethod
    def parse_top_logprobs(outputs: Any) -> list[NextTokens | None]:
        return [next_tokens(choice) for choice in choices_of(outputs)]


@register_model("local-chat-completions")
class LocalChatCompletion(LocalCompletionsAPI):
    """Any server with OpenAI's chat endpoint. It cannot score text."""

    endpoint = "/v1/chat/completions"
    is_chat = True
    most_stops = _MOST_STOPS

    def __init__(
        self,
        base_url: str | None = None,
        tokenizer_backend: str | None = None,
        think_end_token: str | None = None,
        **kwargs: Any,
    ) -> None:
        """``think_end_token``: a text in replies behind which the answer begins."""
        super().__init__(base_url=base_url, tokenizer_backend=tokenizer_backend, **kwargs)
        self.think_end_token = None if think_end_token is None else str(think_end_token)

    @staticmethod
    def parse_generations(outputs: Any, **kwargs: Any) -> list[str]:
        return [chat_reply(choice) for choice in choices_of(outputs)]

    @staticmethod
    def parse_logprobs(
        outputs: Any,
        tokens: list[list[int]] | None = None,
        ctxlens: list[int] | None = None,
        **kwargs: Any,
    ) -> list[tuple[float, bool]]:
        raise ModelError(
            "A chat endpoint cannot score text. Ask for text with a format such as @generate, or use "
            "a completions endpoint (--model local-completions)."
        )


def key_from_environment() -> str:
    """OpenAI's key; without one, an error that names the variable."""
    key = os.environ.get(_KEY, "")
    if not key:
        raise ModelError(
            f"No API key: the environment variable {_KEY} is not set. Give it the key, and run again; "
            "for a server without keys use local-completions or local-chat-completions."
        )
    return key


@register_model("openai-completions")
class OpenAICompletionsAPI(LocalCompletionsAPI):
    """OpenAI's completions endpoint."""

    enforced_by = ()
    most_stops = _MOST_STOPS

    def __init__(
        self,
        base_url: str | None = "https://api.openai.com/v1/completions",
        tokenizer_backend: str | None = "tiktoken",
        **kwargs: Any,
    ) -> None:
        super().__init__(base_url=base_url, tokenizer_backend=tokenizer_backend, **kwargs)

    @cached_property
    def api_key(self) -> str:
        return key_from_environment()


@register_model("openai-chat-completions")
class OpenAIChatCompletion(LocalChatCompletion):
    """OpenAI's chat endpoint. Reasoning models take no stop strings and sample at temperature 1."""

    enforced_by = ("response_format",)
    limit_name = "max_completion_tokens"

    def __init__(
        self,
        base_url: str | None = "https://api.openai.com/v1/chat/completions",
        tokenizer_backend: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(base_url=base_url, tokenizer_backend=tokenizer_backend, **kwargs)

    @cached_property
    def api_key(self) -> str:
        return key_from_environment()

    @property
    def always_samples(self) -> bool:
        return bool(_REASONING_MODEL.search(self.model))


__all__ = [
    "LocalChatCompletion",
    "LocalCompletionsAPI",
    "OpenAIChatCompletion",
    "OpenAICompletionsAPI",
]

__getattr__ = attributes_of(__name__)
