"""Arguments of models behind servers: their types, and addresses, checked and completed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlsplit, urlunsplit

from lm_eval.errors import UsageError
from lm_eval.models.settings import COUNT, Rule, one_of, whole
from lm_eval.support.secrets import shown_address

_BETWEEN = re.compile(r"\s*,\s*(?=['\"]?https?://)")
INSTALL_EXTRA = "pip install 'lm-eval-formats[api]'"


BACKENDS = ("huggingface", "tiktoken", "remote", "auto", "None")


def _tokenizer_backend(value: Any) -> str | None:
    if str(value).lower() == "none":
        return None
    return one_of(BACKENDS).read(value)  # type: ignore[no-any-return]


TokenizerBackend = Annotated[str | None, replace(one_of(BACKENDS), read=_tokenizer_backend)]
Concurrency = Annotated[
    int | str,
    Rule(
        "a whole number above 0 or auto",
        lambda value: value if value == "auto" else COUNT.read(value),
    ),
]
Window = Annotated[int, whole("a whole number from 2 up", least=2)]


def check_addresses(owner: str, base_url: Any, example: str) -> tuple[str, ...]:
    """One or several addresses of servers: a text with commas between them, or a list."""
    listed = base_url if base_url and isinstance(base_url, list | tuple) else [base_url or ""]
    texts = [part.strip(" []'\"") for text in listed for part in _BETWEEN.split(str(text))]
    addresses = tuple(check_address(owner, text, example) for text in texts)
    if twice := [a for a in addresses if addresses.count(a) > 1]:
        raise UsageError(
            f"{owner}: base_url has {shown_address(twice[0])} twice. Name each server once; "
            "num_concurrent says how many requests each gets at a time."
        )
    return addresses


def check_address(owner: str, base_url: Any, example: str) -> str:
    """The address of the endpoint, which must be given in full."""
    if not base_url:
        raise UsageError(
            f"{owner} needs base_url, the full address of the endpoint. Give it with "
            f"`--model_args base_url={example}`."
        )
    parts = urlsplit(str(base_url))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(
            f"{owner}: base_url {shown_address(str(base_url))!r} is not an http(s) address. "
            f"Give it in full, as in base_url={example}."
        )
    return str(base_url)


def server_root(base_url: str) -> str:
    """The address before ``/v1``, else that of the host; ``/tokenize`` and the like are below it."""
    parts = urlsplit(base_url)
    before = parts.path.rpartition("/v1")[0]
    return urlunsplit((parts.scheme, parts.netloc, before, "", ""))


def with_endpoint(base_url: str, endpoint: str) -> str:
    """The address with the path of the endpoint, if it has none, or that of OpenAI's other endpoint."""
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    if endpoint.endswith("/completions") and path.endswith("/completions"):
        path = path.removesuffix("/completions").removesuffix("/chat")
        path += endpoint.removeprefix("/v1")
    elif not path or path.endswith("/v1"):
        path = path.removesuffix("/v1") + endpoint
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
