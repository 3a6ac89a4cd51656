"""The tokenizer of a vLLM server as an object, for programs that tokenize with it themselves.

The backends here use ``tokenizer_backend=remote`` instead, which asks for many texts at once.
"""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from lm_eval.models.chat_template import ChatTemplate

_ENDPOINTS = ("/v1/completions", "/v1/chat/completions")


class EndpointTokenizer:
    """Tokenizes by ``/tokenize`` and ``/detokenize``; ``RuntimeError`` if the server cannot."""

    def __init__(
        self,
        base_url: str,
        timeout: int = 30,
        verify_certificate: bool = True,
        ca_cert_path: str | None = None,
        auth_token: str | None = None,
        max_retries: int = 3,
    ) -> None:
        for endpoint in _ENDPOINTS:
            base_url = base_url.replace(endpoint, "")
        self.base_url = base_url.rstrip("/")
        self.timeout = timeout
        self.max_retries = max_retries
        self.headers = {"Content-Type": "application/json"}
        if auth_token:
            self.headers["Authorization"] = f"Bearer {auth_token}"
        self._certificates = ssl.create_default_context(cafile=ca_cert_path)
        if not verify_certificate:
            self._certificates.check_hostname = False
            self._certificates.verify_mode = ssl.CERT_NONE
        self.tokenizer_info  # noqa: B018  # a server without it is refused now

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The reply of an endpoint: to a GET without a body, else to a POST."""
        url = f"{self.base_url}{path}"
        content = None if body is None else json.dumps(body).encode("utf-8")
        request = urllib.request.Request(url, content, self.headers)
        reason = ""
        for _ in range(self.max_retries):
            try:
                with urllib.request.urlopen(
                    request, timeout=self.timeout, context=self._certificates
                ) as reply:
                    return json.load(reply)
            except (OSError, ValueError) as error:
                reason = str(error)
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
        raise RuntimeError(
            f"RemoteTokenizer: {path} of {self.base_url} failed {self.max_retries} times: {reason}"
        )

    @cached_property
    def tokenizer_info(self) -> dict[str, Any]:
        """What the server says about its tokenizer: special tokens, chat template."""
        info = self._ask("/tokenizer_info")
        if not isinstance(info, dict):
            raise RuntimeError(
                f"/tokenizer_info of {self.base_url} does not answer with an object."
            )
        return info

    @property
    def eos_token(self) -> str | None:
        return self.tokenizer_info.get("eos_token")

    @property
    def bos_token(self) -> str | None:
        return self.tokenizer_info.get("bos_token")

    @property
    def pad_token(self) -> str | None:
        return self.tokenizer_info.get("pad_token")

    @property
    def eos_token_id(self) -> int | None:
        return None if self.eos_token is None else self.encode(self.eos_token)[0]

    @property
    def bos_token_id(self) -> int | None:
        return None if self.bos_token is None else self.encode(self.bos_token)[0]

    @property
    def eot_token(self) -> int | None:
        return self.eos_token_id

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without special tokens."""
        tokens = self._ask("/tokenize", {"prompt": text, "add_special_tokens": False}).get("tokens")
        if not isinstance(tokens, list):
            raise RuntimeError(f"/tokenize of {self.base_url} answered without tokens.")
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        text = self._ask("/detokenize", {"tokens": list(tokens)}).get("prompt")
        if not isinstance(text, str):
            raise RuntimeError(f"/detokenize of {self.base_url} answered without a text.")
        return text

    def batch_decode(self, tokens_list: Sequence[Sequence[int]]) -> list[str]:
        return [self.decode(tokens) for tokens in tokens_list]

    @cached_property
    def _template(self) -> ChatTemplate:
        source = self.tokenizer_info.get("chat_template")
        if not source:
            raise ValueError("No chat template available from server")
        named = {
            name: str(self.tokenizer_info.get(name) or "") for name in ("bos_token", "eos_token")
        }
        return ChatTemplate(source, model=self.base_url, tokens=named)

    def apply_chat_template(
        self, chat_history: Sequence[Mapping[str, str]], add_generation_prompt: bool = True
    ) -> str:
        """The chat as prompt text, by the server's own template."""
        return self._template.render(chat_history, add_generation_prompt=add_generation_prompt)

    def __call__(self, text: str, **_settings: Any) -> dict[str, Any]:
        return {"input_ids": self.encode(text)}


def check_remote_tokenizer_support(base_url: str, timeout: int = 5, **settings: Any) -> bool:
    """Whether a server tokenizes and tells its settings; takes the arguments of the tokenizer."""
    if not base_url:
        return False
    try:
        tokenizer = EndpointTokenizer(base_url, timeout, **settings)
        tokenizer.encode("test")
    except (RuntimeError, AttributeError):  # AttributeError: a reply that is not an object
        return False
    return "eos_token" in tokenizer.tokenizer_info
