"""OpenAI's models on Azure: OpenAI's protocol at the address of a resource, with its own key."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from lm_eval.errors import RequestError, UsageError
from lm_eval.models.api.settings import check_addresses
from lm_eval.models.openai_completions import OpenAIChatCompletion, provider_key
from lm_eval.models.providers.native import signed
from lm_eval.registry import backend_name, register_model

_ENDPOINT, _VERSION, _KEY = "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION", "AZURE_OPENAI_API_KEY"
_EXAMPLE = "https://RESOURCE.openai.azure.com"
_FILTERED = ("content_filter", "content management policy")


@register_model("azure-openai", "azure-openai-chat-completions")
class AzureOpenAIChat(OpenAIChatCompletion):
    """A deployment on Azure; ``model`` is its name.

    ``base_url`` is the address of the resource, by default ``AZURE_OPENAI_ENDPOINT``, or of the endpoint
    in full. With ``api_version`` (or ``OPENAI_API_VERSION``) the deployment's own endpoint is asked,
    without one ``/openai/v1``. A prompt that the content filter refuses counts as a refused reply.
    """

    key_variable = _KEY
    batch_protocol = None  # its batches have addresses of their own
    # The name of a deployment does not tell what its model takes.
    may_refuse = ("temperature", "stop", "seed", "top_p")

    def __init__(
        self,
        base_url: str | Sequence[str] | None = None,
        model: str | None = None,
        pretrained: str | None = None,
        api_version: str | None = None,
        **kwargs: Any,
    ) -> None:
        name = self._model_name(model, pretrained)
        base_url = base_url or os.environ.get(_ENDPOINT)
        if not base_url:
            raise UsageError(
                f"AzureOpenAIChat needs the address of the resource: base_url={_EXAMPLE} in "
                f"--model_args, or the environment variable {_ENDPOINT}."
            )
        version = str(api_version or os.environ.get(_VERSION) or "")
        addresses = check_addresses(backend_name(self), base_url, _EXAMPLE)
        super().__init__(
            base_url=[_endpoint(address, name, version) for address in addresses],  # type: ignore[arg-type]
            model=name,
            **kwargs,
        )

    @cached_property
    def api_key(self) -> str:
        is_signed = self._auth_token is not None or self._header is not None
        return provider_key("Azure OpenAI", _KEY, is_needed=not is_signed)

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The key as Azure takes it; ``auth_token`` is a token of Entra ID."""
        return {**signed("api-key", lambda: self.api_key, self._auth_token), **(self._header or {})}

    def is_refusal(self, error: RequestError) -> bool:
        return error.status == 400 and any(word in str(error) for word in _FILTERED)


def _endpoint(address: str, deployment: str, version: str) -> str:
    """The address of the chat endpoint, from that of the resource; one with such a path is kept."""
    parts = urlsplit(address)
    path = parts.path.rstrip("/")
    if path.endswith("/chat/completions"):
        return address
    query = parts.query
    if path.endswith("/v1") or not version:
        path = f"{path}/chat/completions" if path else "/openai/v1/chat/completions"
    else:
        path = f"{path.removesuffix('/openai')}/openai/deployments/{quote(deployment, safe='')}"
        path += "/chat/completions"
        query = f"{query}&api-version={version}" if query else f"api-version={version}"
    return urlunsplit((parts.scheme, parts.netloc, path, query, parts.fragment))


__all__ = ["AzureOpenAIChat"]
