"""What a model behind a server says of itself: for results, for kept answers, after a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from lm_eval.models.api import settings
from lm_eval.models.api.tokens import ServerTokens
from lm_eval.text.secrets import shown_address

_HOW_FAST = (
    *("num_concurrent", "max_retries", "timeout", "batch_size", "verify_certificate"),
    *("ca_cert_path", "auth_token", "header", "top_logprobs"),
)
"""Arguments that change no answer, or hold secrets."""


class ServerFacts(ServerTokens):
    """The part of ``TemplateAPI`` that describes it. Nothing here holds a key."""

    base_url: str
    max_gen_toks: int
    seed: int
    num_concurrent: int | Literal["auto"]
    batch_size: int
    timeout: float
    max_retries: int
    _eos_string: str | None
    _given: Mapping[str, Any]
    """The constructor's arguments: what decides answers may be one that only a subclass knows."""

    def identity(self) -> Mapping[str, Any]:
        own = {
            name: value
            for name, value in self._given.items()
            if name not in _HOW_FAST and not settings.may_hold_secrets(name)
        }
        return {
            **own,
            "backend": f"{type(self).__module__}.{type(self).__qualname__}",
            "base_url": shown_address(self.base_url),
            "model": self.model,
            "tokenizer": self.tokenizer_argument or self.model,
            "tokenizer_backend": self.tokenizer_backend,
            "tokenized_requests": self.tokenized_requests,
            "max_length": self.max_length,
            "max_gen_toks": self.max_gen_toks,
            "seed": self.seed,
            "add_bos_token": self.add_bos_token,
            "custom_prefix_token_id": self.custom_prefix_token_id,
            "eos_string": self._eos_string,
            "truncate": self.truncate,
        }

    def describe(self) -> dict[str, Any]:
        planner = self.planner
        return {
            **self.identity(),
            "num_concurrent": self.num_concurrent,
            "batch_size": self.batch_size,
            "timeout_s": self.timeout,
            "max_retries": self.max_retries,
            "truncated_requests": planner.truncated,
            "truncated_tokens": planner.cut_tokens,
            "empty_continuations": planner.empty,
        }

    @property
    def warnings(self) -> list[str]:
        notes = list(self._notes.values())
        planner = self.planner
        if planner.truncated:
            notes.append(
                f"{planner.truncated} prompts were longer than max_length {self.max_length} allows "
                f"and lost their beginning, {planner.cut_tokens} tokens in all. Raise max_length in "
                "--model_args if the model allows it."
            )
        if planner.empty:
            notes.append(f"{planner.empty} continuations have no token of their own and scored 0.")
        return notes

    def __repr__(self) -> str:
        address = shown_address(self.base_url)
        return f"{type(self).__name__}(model={self.model!r}, base_url={address!r})"
