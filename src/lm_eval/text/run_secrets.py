"""The secrets of one run, and every form in which they travel: raw, quoted, in an address, in base64.

``hiding`` opens a block in which they are known; ``known_secrets`` is what errors, files, stores and
screens ask inside it. Values of one to three characters would hide ordinary text: they are hidden in
their places only (``secrets.redacted``).
"""

from __future__ import annotations

import html
import json
import os
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from lm_eval.errors import LmEvalError, UsageError
from lm_eval.text.encode import to_json
from lm_eval.text.secrets import (
    HIDDEN,
    is_header_name,
    is_secret_header,
    is_secret_name,
    looks_secret,
    redacted_text,
)

_SHORTEST = 4
_SHORTEST_IN_NAMES = 8
"""Names of fields are searched for longer secrets only: readers of files look them up."""
_SHORTEST_INSIDE_BASE64 = 8
_EVERYDAY = re.compile(
    r"true|false|none|null|auto|default|enabled|disabled|required|basic|bearer|token|json"
    r"|v?\d{1,7}(?:\.\d+)*|v?\d{4}-\d\d(?:-\d\d)?(?:-\w{1,8})?|\w+/[\w.+-]+",
    re.IGNORECASE,
)
"""Values of switches, versions, dates and media types."""
_PLAIN_WORD = re.compile(r"[A-Za-z]?[a-z]{0,6}")
_KEY_IN_PATH = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}")
_PERCENT = re.compile("%[0-9A-F]{2}")
_NAMES_OF_MODELS = ("model", "pretrained", "tokenizer", "peft")


class RunSecrets:
    """Known values and their forms; ``add`` more as they become known."""

    def __init__(self) -> None:
        self._values: set[str] = set()
        self._forms: list[str] = []

    def add(self, values: Iterable[str]) -> None:
        new = {value for value in values if is_searchable(value)} - self._values
        if new:
            self._values |= new
            forms = {form for value in self._values for form in _forms(value)}
            self._forms = sorted(forms, key=lambda form: (-len(form), form))

    def occur_in(self, text: str) -> bool:
        """Whether any secret is in the text, in any form."""
        return any(form in text for form in self._forms)

    def hide(self, text: str) -> str:
        """The text without the secrets, and without what ``redacted_text`` recognises."""
        return redacted_text(self._hide(text))

    def to_json(self, value: Any, *, indent: int | None = None) -> str:
        """As ``encode.to_json``, without the secrets; always whole JSON."""
        text = to_json(value, indent=indent)
        if not self.occur_in(text):
            return text
        return to_json(self._without(json.loads(text)), indent=indent)

    def cleaned(self, value: Any) -> Any:
        """The value itself, or where it holds a secret, its JSON values without it."""
        text = to_json(value)
        return self._without(json.loads(text)) if self.occur_in(text) else value

    def _hide(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text

    def _without(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._hide(value)
        if isinstance(value, dict):
            return {self._name(name): self._without(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._without(item) for item in value]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return HIDDEN if is_number and str(value) in self._values else value

    def _name(self, name: str) -> str:
        hidden = self._hide(name)
        return (
            hidden
            if any(len(v) >= _SHORTEST_IN_NAMES and v in name for v in self._values)
            else name
        )


_KNOWN: ContextVar[RunSecrets | None] = ContextVar("known secrets", default=None)


def known_secrets() -> RunSecrets:
    """The secrets of the run under way; outside any, those of the environment."""
    secrets = _KNOWN.get()
    if secrets is None:
        secrets = RunSecrets()
        secrets.add(environment_secrets())
    return secrets


@contextmanager
def hiding(*holders: Any) -> Iterator[RunSecrets]:
    """Know the secrets of the environment and of ``holders`` (arguments of models, settings).

    An error that leaves the block does not hold them, whoever raised it. Blocks inside one another
    share what they know.
    """
    before = _KNOWN.get()
    secrets = known_secrets()
    for holder in holders:
        secrets.add(secrets_in(holder))
    _KNOWN.set(secrets)
    try:
        yield secrets
    except LmEvalError as error:
        shown = secrets.hide(str(error))
        if shown == str(error):
            raise
        raise UsageError(shown) from None
    finally:
        _KNOWN.set(before)


# What is a secret


def is_searchable(value: str) -> bool:
    """Whether a secret can be searched for in any text without hiding ordinary ones."""
    return len(value) >= _SHORTEST and not _EVERYDAY.fullmatch(value)


def environment_secrets() -> list[str]:
    """The values of environment variables that are secret by their name, and passwords of proxies.

    What is the path of a file is not a key.
    """
    secrets = [
        value
        for name, value in os.environ.items()
        if is_secret_name(name) and not (value.startswith(("/", "~")) and _exists(value))
    ]
    proxies = [v for name, v in os.environ.items() if name.lower().endswith("_proxy")]
    return [*secrets, *(secret for proxy in proxies for secret in secrets_in_address(proxy))]


def _exists(path: str) -> bool:
    try:
        return os.path.exists(os.path.expanduser(path))
    except ValueError:
        return False


def secrets_in(holder: Any) -> list[str]:
    """The secrets in arguments: by the name of their field, by their place, or in an address."""
    models = []
    if isinstance(holder, Mapping):
        models = [str(holder[name]) for name in _NAMES_OF_MODELS if holder.get(name)]
    return [
        secret
        for secret, is_named in _secrets(holder, "", is_secret=False)
        if is_named or not (_PLAIN_WORD.fullmatch(secret) or any(secret in m for m in models))
    ]


def _secrets(value: Any, name: str, *, is_secret: bool) -> Iterator[tuple[str, bool]]:
    """Secrets, each with whether its name says so; a place alone may hold ordinary words as well."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _secrets(item, str(key), is_secret=is_secret or is_secret_name(str(key)))
        if is_header_name(name):
            yield from ((secret, is_secret) for secret in secrets_in_headers(value))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _secrets(item, "", is_secret=is_secret)
    elif is_secret and value is not None and not isinstance(value, bool):
        yield str(value), True
    elif isinstance(value, str) and "://" in value:
        yield from _address_secrets(value)


def secrets_in_address(address: str) -> list[str]:
    """User, password, both together, the values of the query, and what looks like a key in the path."""
    return [secret for secret, _ in _address_secrets(address)]


def _address_secrets(address: str) -> Iterator[tuple[str, bool]]:
    try:
        parts = urlsplit(address)
        user, password = parts.username, parts.password
    except ValueError:
        return
    for text in (user, password):
        if text:
            yield text, text is password or not password
            yield unquote(text), text is password or not password
    if user and password:
        yield f"{unquote(user)}:{unquote(password)}", True
    for pair in parts.query.split("&"):  # as it is written: the quoted forms follow from the plain
        yield pair.partition("=")[2], False
    for name, value in parse_qsl(parts.query):
        yield value, is_secret_name(name)
    if parts.fragment:
        yield unquote(parts.fragment), False
    before = ""
    for segment in map(unquote, parts.path.split("/")):
        if is_secret_name(before) or _KEY_IN_PATH.search(segment) or looks_secret(segment):
            yield segment, False
        before = segment


def secrets_in_headers(headers: Mapping[str, Any]) -> list[str]:
    """The values of headers that may be keys, with and without their scheme (``Bearer``)."""
    values = [str(value) for name, value in headers.items() if is_secret_header(str(name))]
    return [part for value in values for part in _header_forms(value)]


def _header_forms(value: str) -> Iterator[str]:
    scheme, _, rest = value.partition(" ")
    yield from (value, rest)
    yield from (part.partition("=")[2] for part in value.split("; "))  # of a cookie
    if scheme.lower() == "basic":
        try:
            pair = b64decode(rest).decode()
        except ValueError:
            return
        yield pair
        yield from pair.split(":", 1)


def _forms(value: str) -> Iterator[str]:
    """The value as texts may hold it."""
    yield value
    raw = value.encode("utf-8", "surrogatepass")
    quoted = (quote(raw, safe=""), quote(raw), quote_plus(raw))
    escaped = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    twice = (json.dumps(form)[1:-1] for form in escaped)  # a server may quote a body
    yield from (*quoted, *escaped, *twice, repr(value)[1:-1], html.escape(value))
    yield from (_PERCENT.sub(lambda match: match[0].lower(), form) for form in quoted)
    yield from (encode(raw).decode().rstrip("=") for encode in (b64encode, urlsafe_b64encode))
    if len(raw) >= _SHORTEST_INSIDE_BASE64:
        yield from _inside_base64(raw)


def _inside_base64(raw: bytes) -> Iterator[str]:
    """What stays the same of the value in the base64 of any text that holds it."""
    for before in range(3):
        start, end = -(-before * 8 // 6), (before + len(raw)) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            yield encode(bytes(before) + raw).decode()[start:end]
