"""The native APIs of providers over a toy model: Anthropic's Messages, Gemini's generateContent, Azure.

``ToyProviders`` answers what ``ToyServer`` does, and these. It is as strict as the providers are about
what a request holds; the providers' own packages drive it in the tests, so that it is known to speak
their protocols. A prompt that holds ``refuses`` is refused in each provider's own way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tests.support.servers.toy_openai import ToyServer

THOUGHT = "First I look at the question."
_GENERATE = re.compile(r"/v1beta/models/([^/:]+):generateContent(?:\?.*)?")
_AZURE = re.compile(r"/openai/deployments/([^/]+)/chat/completions\?api-version=[\w-]+")
_MESSAGES = {
    *("model", "max_tokens", "messages", "system", "stop_sequences", "temperature", "thinking"),
    *("top_k", "top_p", "metadata", "stream"),
}
_CONFIG = {
    *("temperature", "maxOutputTokens", "seed", "stopSequences", "thinkingConfig", "topP", "topK"),
    *("presencePenalty", "frequencyPenalty"),
}


class BadRequestError(Exception):
    """What is wrong with a request."""


@dataclass
class ToyProviders(ToyServer):
    """All APIs at one address."""

    refuses: str = "\0"

    def __call__(self, path: str, body: Any) -> tuple[int, Any]:
        try:
            if path == "/v1/messages":
                return 200, self._messages(body)
            if match := _GENERATE.fullmatch(path):
                return 200, self._generate(unquote(match[1]), body)
        except BadRequestError as error:
            message = {"message": str(error), "type": "invalid_request_error"}
            return 400, {"type": "error", "error": message}
        if _AZURE.fullmatch(path) or path == "/openai/v1/chat/completions":
            return self._azure(body)
        return super().__call__(path, body)

    # -- Anthropic -------------------------------------------------------------------------------

    def _messages(self, body: dict[str, Any]) -> dict[str, Any]:
        if unknown := set(body) - _MESSAGES:
            raise BadRequestError(f"{sorted(unknown)[0]}: Extra inputs are not permitted")
        if not isinstance(body.get("max_tokens"), int) or not body.get("model"):
            raise BadRequestError("max_tokens: Field required")
        if any(not stop.strip() for stop in body.get("stop_sequences", ())):
            raise BadRequestError("each stop sequence must contain non-whitespace")
        if any(turn["role"] not in ("user", "assistant") for turn in body["messages"]):
            raise BadRequestError("messages: role must be user or assistant")
        limit, thinking = body["max_tokens"], body.get("thinking")
        if thinking:
            budget = thinking["budget_tokens"]
            if not 1024 <= budget < limit or body.get("temperature", 1) != 1:
                raise BadRequestError("thinking: budget_tokens from 1024 up, temperature only 1")
            limit -= budget
        system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
        prompt, text, finish, counts = self._said(
            [*system, *body["messages"]], limit, body.get("stop_sequences", []), body
        )
        is_refused = self.refuses in prompt
        content = [{"type": "thinking", "thinking": THOUGHT, "signature": "x"}] if thinking else []
        content += [] if is_refused else [{"type": "text", "text": text}]
        reasons = {"stop": "end_turn", "length": "max_tokens", "stopped": "stop_sequence"}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "refusal" if is_refused else reasons[finish],
            "stop_sequence": None,
            "usage": {
                "input_tokens": counts[0] - 3,
                "cache_read_input_tokens": 2,
                "cache_creation_input_tokens": 1,
                "output_tokens": counts[1] + (len(THOUGHT) if thinking else 0),
                "output_tokens_details": {"thinking_tokens": len(THOUGHT) if thinking else 0},
            },
        }

    # -- Gemini ----------------------------------------------------------------------------------

    def _generate(self, model: str, body: dict[str, Any]) -> dict[str, Any]:
        config = body.get("generationConfig", {})
        if unknown := set(config) - _CONFIG:
            raise BadRequestError(f"Unknown name {sorted(unknown)[0]!r} at 'generation_config'")
        if len(config.get("stopSequences", ())) > 5:
            raise BadRequestError("at most 5 stop sequences")
        system = body.get("systemInstruction")
        messages = [{"role": "system", "content": _joined(system)}] if system else []
        for turn in body["contents"]:
            if turn.get("role", "user") not in ("user", "model"):
                raise BadRequestError("Please use a valid role: user, model.")
            role = "assistant" if turn.get("role") == "model" else "user"
            messages.append({"role": role, "content": _joined(turn)})
        thinking = config.get("thinkingConfig", {})  # names are taken in either spelling
        budget = thinking.get("thinkingBudget", thinking.get("thinking_budget", 0))
        limit = config.get("maxOutputTokens", 64 + budget) - budget
        settings = {**config, "temperature": config.get("temperature", 1)}
        prompt, text, finish, counts = self._said(
            messages, limit, config.get("stopSequences", []), settings
        )
        thought = len(THOUGHT) if budget else 0
        usage = {
            "promptTokenCount": counts[0],
            "candidatesTokenCount": counts[1],
            "cachedContentTokenCount": 2,
            "totalTokenCount": sum(counts) + thought,
            **({"thoughtsTokenCount": thought} if thought else {}),
        }
        if self.refuses in prompt:
            return {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage}
        parts = [{"text": THOUGHT, "thought": True}] if budget else []
        return {
            "candidates": [
                {
                    "content": {"parts": [*parts, {"text": text}], "role": "model"},
                    "finishReason": "MAX_TOKENS" if finish == "length" else "STOP",
                    "index": 0,
                }
            ],
            "usageMetadata": usage,
            "modelVersion": model,
        }

    # -- Azure -----------------------------------------------------------------------------------

    def _azure(self, body: dict[str, Any]) -> tuple[int, Any]:
        if any(self.refuses in turn["content"] for turn in body["messages"]):
            message = (
                "The response was filtered due to the prompt triggering Azure OpenAI's content "
                "management policy."
            )
            return 400, {"error": {"message": message, "code": "content_filter"}}
        status, reply = super().__call__("/v1/chat/completions", body)
        facts = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "toy"}
        return status, {**facts, **reply}

    # -- what the model says ---------------------------------------------------------------------

    def _said(
        self, messages: list[dict[str, str]], limit: int, stops: list[str], body: dict[str, Any]
    ) -> tuple[str, str, str, tuple[int, int]]:
        """The prompt, the text before any stop string, why it ended, and tokens in and out."""
        prompt = self.model.render(messages)
        tokens = self.model.encode(prompt)
        settings = {"stop": stops, "temperature": body.get("temperature", 0)}
        made, finish = self._continue(tokens, limit, settings)
        text = self._text(made)
        for stop in stops:
            if stop in text:
                text, finish = text.partition(stop)[0], "stopped"
        return prompt, text, finish, (len(tokens), len(made))


def _joined(content: dict[str, Any]) -> str:
    return "".join(part["text"] for part in content["parts"])
