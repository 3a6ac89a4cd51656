"""Servers that speak OpenAI's protocol: completions and chat, local ones and OpenAI's own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
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
from lm_eval.requests.options import REPLY_LIMITS

_KEY = "OPENAI_API_KEY"
_NO_KEYS = "; for a server without keys use local-completions or local-chat-completions"
_MOST_STOPS = 4
# o1, o3-mini, o4-mini, gpt-5, gpt-5.1-mini, also behind a prefix such as ``openai/`` or ``ft:``.
_REASONING_MODEL = re.compile(r"(?:^|[/:])(?:o[1-9](?![\w.])|gpt-[5-9](?!\d))", re.IGNORECASE)


def provider_key(provider: str, variable: str, *, is_needed: bool, hint: str = "") -> str:
    """The key in an environment variable; if one is needed and missing, an error names the variable."""
    key = os.environ.get(variable, "")
    if is_needed and not key:
        raise ModelError(
            f"No API key for {provider}: the environment variable {variable} is not set. Set it to "
            f"the key, and run again{hint}."
        )
    return key


class PayloadArguments:
    """Generation arguments as payloads have them: stop strings, a limit, a temperature, and others."""

    def __init__(self, gen_kwargs: Mapping[str, Any] | None, eos: str | None, limit: int) -> None:
        """``limit`` counts if ``gen_kwargs`` has none under any of its names."""
        others = dict(gen_kwargs or {})
        others.pop("do_sample", None)
        until = others.pop("until", None) or []
        texts = [until] if isinstance(until, str) else [*until]
        self.stops = [text for text in dict.fromkeys([*texts, eos]) if text]
        limits = [value for name in REPLY_LIMITS if (value := others.pop(name, None))]
        self.limit = int(limits[0]) if limits else limit
        self.temperature = others.pop("temperature", 0)
        self.others = others


@register_model("local-completions")
class LocalCompletionsAPI(TemplateAPI):
    """Any server with OpenAI's completions endpoint, such as vLLM's or llama.cpp's."""

    endpoint = "/v1/completions"
    key_variable = _KEY
    enforced_by = DIALECTS
    batch_protocol: type[BatchProtocol] | None = OpenAIBatches
    most_stops: int | None = None
    limit_name = "max_tokens"
    _needs_key = False

    def __init__(
        self, base_url: str | None = None, tokenizer_backend: str | None = "auto", **kwargs: Any
    ) -> None:
        super().__init__(base_url=base_url, tokenizer_backend=tokenizer_backend, **kwargs)

    @cached_property
    def api_key(self) -> str:
        return provider_key("OpenAI", _KEY, is_needed=self._needs_key, hint=_NO_KEYS)

    def _create_payload(
        self,
        messages: Any,
        generate: bool = False,
        gen_kwargs: dict[str, Any] | None = None,
        seed: int = 1234,
        eos: str | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        field = "messages" if self.is_chat else "prompt"
        payload: dict[str, Any] = {"model": self.model, field: messages}
        if not generate and not self.is_chat:
            options = {"temperature": 0, "max_tokens": 1, "logprobs": 1, "echo": True}
            return {**payload, **options, "seed": seed, **kwargs}
        asked = PayloadArguments(gen_kwargs, eos, self.max_gen_toks)
        always_samples = self.always_samples
        payload[self.limit_name] = asked.limit
        payload["temperature"] = 1 if always_samples else asked.temperature
        if asked.stops and not always_samples:
            payload["stop"] = asked.stops[: self.most_stops]
        return {**payload, "seed": seed, **asked.others, **kwargs}

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

    @staticmethod
    def parse_generations(outputs: Any, **kwargs: Any) -> list[str]:
        return [chat_reply(choice) for choice in choices_of(outputs)]


@register_model("openai-completions")
class OpenAICompletionsAPI(LocalCompletionsAPI):
    """OpenAI's completions endpoint."""

    enforced_by = ()
    most_stops = _MOST_STOPS
    _needs_key = True

    def __init__(
        self,
        base_url: str | None = "https://api.openai.com/v1/completions",
        tokenizer_backend: str | None = "tiktoken",
        **kwargs: Any,
    ) -> None:
        super().__init__(base_url=base_url, tokenizer_backend=tokenizer_backend, **kwargs)


@register_model("openai-chat-completions")
class OpenAIChatCompletion(LocalChatCompletion):
    """OpenAI's chat endpoint. Reasoning models take no stop strings and sample at temperature 1."""

    enforced_by = ("response_format",)
    limit_name = "max_completion_tokens"
    _needs_key = True

    def __init__(
        self,
        base_url: str | None = "https://api.openai.com/v1/chat/completions",
        tokenizer_backend: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(base_url=base_url, tokenizer_backend=tokenizer_backend, **kwargs)

    @property
    def always_samples(self) -> bool:
        return super().always_samples or bool(_REASONING_MODEL.search(self.model))


__all__ = [
    "LocalChatCompletion",
    "LocalCompletionsAPI",
    "OpenAIChatCompletion",
    "OpenAICompletionsAPI",
]

__getattr__ = attributes_of(__name__)
