"""Anthropic's Messages API, at its own address, a gateway, or a server such as vLLM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from lm_eval.models.api.replies import UnfitReply, count_in, reported_error, shown
from lm_eval.models.batches.protocols import AnthropicBatches
from lm_eval.models.providers.native import ChatRequest, NativeChat
from lm_eval.registry import register_model
from lm_eval.requests import Reply
from lm_eval.requests.values import Usage

VERSION = "2023-06-01"
"""The version of the protocol; ``header`` can name another."""
_FINISH: dict[str, Literal["stop", "length", "refused"]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}


@register_model("anthropic-chat", "anthropic-chat-completions")
class AnthropicChat(NativeChat):
    """Claude models. The API has no seed, and stop strings of white space are applied here.

    With ``thinking_budget`` (from 1024 up) the model samples: the API then accepts no temperature. Nor
    do newer models: if one refuses it, it is left out, and a note says so.
    """

    provider = "Anthropic"
    batch_protocol = AnthropicBatches
    endpoint = "/v1/messages"
    own_address = "https://api.anthropic.com/v1/messages"
    key_variables = ("ANTHROPIC_API_KEY",)
    key_header = "x-api-key"
    protocol_headers = {"anthropic-version": VERSION}  # noqa: RUF012  # never changed
    least_budget = 1024
    may_refuse = ("temperature", "top_p", "top_k")

    @property
    def always_samples(self) -> bool:
        return super().always_samples or self.thinking_budget is not None

    @staticmethod
    def body(asked: ChatRequest) -> dict[str, Any]:
        options, budget = asked.options, asked.thinking_budget
        body: dict[str, Any] = {
            "model": asked.model,
            "max_tokens": options.limit + (budget or 0),
            "messages": asked.turns,
        }
        if asked.system:
            body["system"] = asked.system
        if stops := [text for text in options.stops if text.strip()]:
            body["stop_sequences"] = stops
        if budget is not None:
            body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        elif "thinking" not in options.others:
            body["temperature"] = options.temperature
        return {**body, **options.others}

    @staticmethod
    def parse_generations(outputs: Any, **kwargs: Any) -> list[str]:
        content = outputs.get("content") if isinstance(outputs, Mapping) else None
        if not isinstance(content, list):
            unfit = UnfitReply(f"it has no list of content: {shown(outputs)}")
            raise reported_error(outputs) or unfit
        parts = [part for part in content if isinstance(part, Mapping)]
        text = "".join(str(part.get("text", "")) for part in parts if part.get("type") == "text")
        thought = "".join(
            str(part.get("thinking", "")) for part in parts if part.get("type") == "thinking"
        )
        reason = outputs.get("stop_reason")
        finish = _FINISH.get(str(reason), "stop") if reason else None
        return [Reply(text, finish=finish, reasoning=thought or None)]

    @staticmethod
    def parse_usage(outputs: Any) -> Usage | None:
        """``input_tokens`` leaves out tokens read from or written to the cache; reasoning is output."""
        block = outputs.get("usage")
        if not isinstance(block, Mapping):
            return None
        cached = count_in(block, "cache_read_input_tokens")
        details = block.get("output_tokens_details")
        thought = count_in(details, "thinking_tokens") if isinstance(details, Mapping) else 0
        return Usage(
            tokens_in=count_in(block, "input_tokens")
            + count_in(block, "cache_creation_input_tokens")
            + cached,
            tokens_out=count_in(block, "output_tokens"),
            tokens_cached=cached,
            tokens_thought=thought,
        )


__all__ = ["AnthropicChat"]
