"""The checks of a server model's arguments. Each returns the value, or raises a ``UsageError``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from lm_eval.errors import UsageError, did_you_mean, listing
from lm_eval.text.secrets import is_header_name, is_secret_name, shown_address

_BETWEEN = re.compile(r"\s*,\s*(?=['\"]?https?://)")
INSTALL_EXTRA = "pip install 'lm-eval-formats[api]'"
LOCAL_ONLY = ("device", "max_batch_size")
"""Flags for local models, which runs pass to every backend."""


# Arguments


def count(owner: str, name: str, value: Any, *, least: int = 1) -> int:
    """A whole number from ``least`` up; a string of digits counts as one."""
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{owner}: {name} must be a whole number from {least} up, not {value!r}.")
    return value


def seconds(owner: str, name: str, value: Any) -> float:
    """A number of seconds above 0."""
    try:
        number = 0.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(f"{owner}: {name} must be a number of seconds above 0, not {value!r}.")
    return number


def flag(owner: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{owner}: {name} must be true or false, not {value!r}.")
    return value


def prompts_per_request(owner: str, value: Any) -> int:
    """``batch_size``; ``auto`` is 1, because nothing here can tell how much a server takes."""
    if value is None or (isinstance(value, str) and value.startswith("auto")):
        return 1
    return count(owner, "batch_size", value)


def backend_name(owner: str, value: Any, valid: tuple[str | None, ...]) -> str | None:
    """The tokenizer backend; ``none`` in any case means None."""
    backend = None if value is None or str(value).lower() == "none" else str(value)
    if backend not in valid:
        names = list(map(str, valid))
        raise UsageError(
            f"{owner}: there is no tokenizer_backend {value!r}.{did_you_mean(str(value), names)} "
            f"Valid: {listing(names)}."
        )
    return backend


def accepted_arguments(cls: type) -> list[str] | None:
    """What a constructor takes, with its parents' if it passes ``**kwargs`` on; None if anything."""
    names: dict[str, None] = {}
    for parent in cls.__mro__:
        constructor = vars(parent).get("__init__")
        if constructor is None:
            continue
        parameters = list(inspect.signature(constructor).parameters.values())[1:]
        names.update({p.name: None for p in parameters if p.kind is not p.VAR_KEYWORD})
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return list(names)
    return None


def check_arguments(cls: type, model_args: Mapping[str, Any], name: str) -> None:
    """Refuse an argument that no constructor takes."""
    valid = accepted_arguments(cls)
    if valid is None:
        return
    for argument in model_args:
        if argument not in valid:
            keys = " Keys come only from the environment." if may_hold_secrets(argument) else ""
            raise UsageError(
                f"Model {name!r} has no argument {argument!r}.{did_you_mean(argument, valid)}{keys} "
                f"Its arguments: {listing(valid, len(valid))}."
            )


def may_hold_secrets(name: str) -> bool:
    """Whether an argument of this name is a secret, or headers with secrets in them."""
    return is_secret_name(name) or is_header_name(name)


# Addresses


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


def full_address(base_url: str, endpoint: str) -> str | None:
    """The address with the path of the endpoint; None if it already has a path."""
    parts = urlsplit(base_url)
    path = parts.path.rstrip("/")
    if path and not path.endswith("/v1"):
        return None
    path = f"{path.removesuffix('/v1')}{endpoint}"
    return shown_address(urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")))
