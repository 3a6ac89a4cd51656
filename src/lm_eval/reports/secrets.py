"""Secrets of a run's arguments: found by the names of their fields, kept out of texts and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lm_eval.errors import LmEvalError, UsageError
from lm_eval.reports.redact import HIDDEN, is_secret_name


def secrets_in(value: Any, *, is_secret: bool = False) -> list[str]:
    """The values below a field whose name says that it holds a secret, longest first."""
    if isinstance(value, Mapping):
        found = [
            one
            for key, item in value.items()
            for one in secrets_in(item, is_secret=is_secret or is_secret_name(str(key)))
        ]
    elif isinstance(value, list | tuple):
        found = [one for item in value for one in secrets_in(item, is_secret=is_secret)]
    else:
        found = [str(value)] if is_secret and str(value) else []
    return sorted(set(found), key=len, reverse=True)


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
