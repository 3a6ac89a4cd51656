"""Secrets of a run's arguments: found by the rule of ``redact``, kept out of texts and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lm_eval.errors import LmEvalError, UsageError
from lm_eval.text.secrets import (
    HIDDEN,
    is_header_name,
    is_searchable,
    is_secret_name,
    secrets_in_address,
    secrets_in_headers,
)


def secrets_in(value: Any) -> list[str]:
    """The values that are secret by their name, or by their place and long enough; longest first."""
    return sorted(set(_secrets(value, "", is_secret=False)), key=len, reverse=True)


def _secrets(value: Any, name: str, *, is_secret: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(item, str(key), is_secret=is_secret or is_secret_name(str(key)))
        if is_header_name(name):
            yield from filter(is_searchable, secrets_in_headers(value))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets(item, "", is_secret=is_secret)
    elif is_secret:
        yield from filter(None, [str(value)])
    elif isinstance(value, str) and "://" in value:
        yield from filter(is_searchable, secrets_in_address(value))


def hidden(text: str, secrets: Sequence[str]) -> str:
    """The text without these secrets, however they were quoted."""
    for secret in secrets:
        for form in (secret, json.dumps(secret)[1:-1]):
            text = text.replace(form, HIDDEN)
    return text


@contextmanager
def hiding(secrets: Sequence[str]) -> Iterator[None]:
    """Keep secrets out of errors, whoever raises them."""
    try:
        yield
    except LmEvalError as error:
        shown = hidden(str(error), secrets)
        if shown == str(error):
            raise
        raise UsageError(shown) from None
