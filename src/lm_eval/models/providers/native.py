"""``NativeChat``: what the providers' own chat APIs share, such as keys and a budget for reasoning.

A subclass declares addresses and headers, and three functions without state: ``body`` of a request,
``parse_generations`` and ``parse_usage`` of a reply. It works at the provider's address and at any other
that speaks the same protocol, such as a gateway or vLLM, where a key may not be needed.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lm_eval.models.api_models import TemplateAPI
from lm_eval.models.openai_completions import PayloadArguments, provider_key
from lm_eval.models.settings import whole
from lm_eval.registry import backend_name


@dataclass(frozen=True)
class ChatRequest:
    """What a provider is asked for. ``options`` holds the generation arguments, ours to change."""

    model: str
    system: str
    turns: list[dict[str, str]]
    options: PayloadArguments
    seed: int
    thinking_budget: int | None


class NativeChat(TemplateAPI):
    """A chat API with its own protocol. It cannot score text.

    ``thinking_budget`` is how many tokens the model may reason with, beside ``max_gen_toks`` for the
    reply; None leaves it to the provider.
    """

    is_chat = True
    provider = ""
    key_variables: tuple[str, ...] = ()
    """Environment variables that may hold the key; the first that is set counts."""
    own_address = ""
    """The provider's address, where a key is needed."""
    least_budget = 0

    def __init__(
        self,
        base_url: str | Sequence[str] | None = None,
        tokenizer_backend: str | None = None,
        thinking_budget: int | None = None,
        **kwargs: Any,
    ) -> None:
        least = self.least_budget
        budget = whole(f"a whole number from {least} up", least=least)
        self.thinking_budget = (
            None
            if thinking_budget is None
            else budget.apply("thinking_budget", thinking_budget, backend_name(self))
        )
        super().__init__(
            base_url=base_url or self.own_address, tokenizer_backend=tokenizer_backend, **kwargs
        )

    @staticmethod
    @abstractmethod
    def body(asked: ChatRequest) -> dict[str, Any]:
        """The body of a request as JSON values."""

    def _create_payload(
        self,
        messages: Any,
        *,
        generate: bool = True,
        gen_kwargs: dict[str, Any] | None = None,
        seed: int = 1234,
        eos: str | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        options = PayloadArguments(gen_kwargs, eos, self.max_gen_toks)
        system, turns = _split_system(messages)
        asked = ChatRequest(self.model, system, turns, options, seed, self.thinking_budget)
        return {**self.body(asked), **kwargs}

    @property
    def key_variable(self) -> str:  # type: ignore[override]  # which of several follows from the environment
        """The variable that holds the key, or the one that should."""
        named = [name for name in self.key_variables if os.environ.get(name)]
        return named[0] if named else self.key_variables[0]

    @cached_property
    def api_key(self) -> str:
        return provider_key(
            self.provider, self.key_variable, is_needed=self.own_address in self.addresses
        )

    key_header = ""
    """The header that carries the key."""
    protocol_headers: Mapping[str, str] = {}
    """What else goes with every request."""

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """Those of the protocol, the key or ``auth_token``, and the argument ``header`` over them."""
        return {
            **self.protocol_headers,
            **signed(self.key_header, lambda: self.api_key, self._auth_token),
            **(self._header or {}),
        }


def signed(key_header: str, key: Callable[[], str], auth_token: str | None) -> dict[str, str]:
    """The header that says who asks: a token as a bearer token, else the key in the provider's own."""
    if auth_token is not None:
        return {"Authorization": f"Bearer {auth_token}"}
    return {key_header: value} if (value := key()) else {}


def _split_system(messages: Sequence[Mapping[str, str]]) -> tuple[str, list[dict[str, str]]]:
    """System messages as one text, and the other turns."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    turns = [dict(message) for message in messages if message["role"] != "system"]
    return "\n\n".join(system), turns
