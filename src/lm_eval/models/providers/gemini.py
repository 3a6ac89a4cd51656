"""Google's Gemini API (``generateContent``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import quote, urlsplit, urlunsplit

from lm_eval.models.api.replies import UnfitReply, count_in, reported_error, shown
from lm_eval.models.api.settings import check_addresses
from lm_eval.models.providers.native import ChatRequest, NativeChat
from lm_eval.registry import backend_name, register_model
from lm_eval.requests import Reply
from lm_eval.requests.values import Usage

_HOST = "https://generativelanguage.googleapis.com/v1beta"
_METHOD = ":generateContent"
_MOST_STOPS = 5
_REFUSED = frozenset(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY")
)
_SAMPLING = {
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}


@register_model("gemini")
class GeminiChat(NativeChat):
    """Gemini models. ``base_url`` may end before ``/models/NAME:generateContent``.

    ``thinking_budget`` is sent as ``thinkingBudget``: 0 switches reasoning off where the model allows
    it, -1 leaves the amount to the model, within ``max_gen_toks``. Summaries of the reasoning are
    requested, and kept beside the reply.
    """

    provider = "Google"
    endpoint = "/v1beta/models/MODEL:generateContent"
    own_address = _HOST
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    key_header = "x-goog-api-key"
    least_budget = -1

    def __init__(
        self,
        base_url: str | Sequence[str] | None = None,
        model: str | None = None,
        pretrained: str | None = None,
        **kwargs: Any,
    ) -> None:
        name = self._model_name(model, pretrained)
        addresses = check_addresses(backend_name(self), base_url or _HOST, _HOST)
        super().__init__(
            base_url=[_with_method(address, name) for address in addresses], model=name, **kwargs
        )
        self.own_address = _with_method(_HOST, name)

    @staticmethod
    def body(asked: ChatRequest) -> dict[str, Any]:
        options, budget = asked.options, asked.thinking_budget
        others = options.others
        config: dict[str, Any] = {
            "temperature": options.temperature,
            "maxOutputTokens": options.limit + max(budget or 0, 0),
            "seed": asked.seed,
        }
        if options.stops:
            config["stopSequences"] = options.stops[:_MOST_STOPS]
        if budget is not None:
            config["thinkingConfig"] = {"thinkingBudget": budget, "includeThoughts": budget != 0}
        for ours, theirs in _SAMPLING.items():
            if ours in others:
                config[theirs] = others.pop(ours)
        body: dict[str, Any] = {
            "contents": [
                {
                    "role": "model" if turn["role"] == "assistant" else "user",
                    "parts": [{"text": turn["content"]}],
                }
                for turn in asked.turns
            ],
            "generationConfig": {**config, **others.pop("generationConfig", {})},
        }
        if asked.system:
            body["systemInstruction"] = {"parts": [{"text": asked.system}]}
        return {**body, **others}

    @staticmethod
    def parse_generations(outputs: Any, **kwargs: Any) -> list[str]:
        if not isinstance(outputs, Mapping):
            raise UnfitReply(f"it is not an object: {shown(outputs)}")
        candidates = outputs.get("candidates")
        if not candidates:
            feedback = outputs.get("promptFeedback")
            if isinstance(feedback, Mapping) and feedback.get("blockReason"):
                return [Reply("", finish="refused")]
            unfit = UnfitReply(f"it has no candidates: {shown(outputs)}")
            raise reported_error(outputs) or unfit
        if not isinstance(candidates, list) or not isinstance(candidates[0], Mapping):
            raise UnfitReply(f"its candidates are not a list of objects: {shown(outputs)}")
        return [_reply(candidate) for candidate in candidates]

    @staticmethod
    def parse_usage(outputs: Any) -> Usage | None:
        """``candidatesTokenCount`` leaves reasoning out, which is charged as output."""
        block = outputs.get("usageMetadata")
        if not isinstance(block, Mapping):
            return None
        thought = count_in(block, "thoughtsTokenCount")
        return Usage(
            tokens_in=count_in(block, "promptTokenCount"),
            tokens_out=count_in(block, "candidatesTokenCount") + thought,
            tokens_cached=count_in(block, "cachedContentTokenCount"),
            tokens_thought=thought,
        )


def _reply(candidate: Mapping[str, Any]) -> Reply:
    content = candidate.get("content")
    listed = content.get("parts") if isinstance(content, Mapping) else None
    parts = [part for part in listed or () if isinstance(part, Mapping)]
    text, thought = (
        "".join(str(part.get("text") or "") for part in parts if bool(part.get("thought")) is flag)
        for flag in (False, True)
    )
    return Reply(text, finish=_finish(candidate.get("finishReason")), reasoning=thought or None)


def _finish(reason: Any) -> Literal["stop", "length", "refused"] | None:
    if not reason:
        return None
    if reason == "MAX_TOKENS":
        return "length"
    return "refused" if reason in _REFUSED else "stop"


def _with_method(address: str, model: str) -> str:
    """The address of a model's ``generateContent``, unless it is that already."""
    parts = urlsplit(address)
    if parts.path.endswith(_METHOD):
        return address
    name = quote(model.removeprefix("models/"), safe="")
    path = f"{parts.path.rstrip('/')}/models/{name}{_METHOD}"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, parts.fragment))


__all__ = ["GeminiChat"]
