"""The one rule for what is secret: keeps keys and passwords out of files, errors and cache keys.

A value is secret by the name of its field (``is_secret_name``), by its place (a header that is not an
everyday one, the user and the query of an address), by its look, and by being the value of an
environment variable whose name says that it is secret. ``hiding`` opens a block in which such values are
known, in every form that they can have: raw, quoted, in an address, in base64; errors, files, stores and
screens ask ``known_secrets`` inside it. Values of one to three characters would hide
ordinary text: they are hidden in their places only (``redacted``).
"""

from __future__ import annotations

import json
import os
import re
import warnings
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

from lm_eval.errors import LmEvalError, LmEvalWarning, UsageError
from lm_eval.support.encode import to_json
from lm_eval.support.files import cache_folder

HIDDEN = "***"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORD = re.compile(
    "[a-z]*keys?|key(?:file|path|pair|ring|store|chain|string)s?"
    "|[a-z]*(?:secret|passw|credential|cookie)[a-z]*|pwds?|passphrases?|bearer|signatures?"
    "|[a-z]*auth(?!or(?!i[sz]))[a-z]*|(?:access|api|hf|refresh|session)tokens?"
)
_HARMLESS_WORD = re.compile("(?:mon|don|tur|whis|hoc|joc|hot)keys?")
# ``token`` is a secret in auth_token and a vocabulary entry in add_bos_token.
_VOCABULARY_WORD = re.compile(
    "bos|eos|eot|pad|unk|mask|sep|cls|special|prefix|suffix|stop|start|end|begin|think|image|add"
    "|first|last|max|min|new|num|next|skip"
)
_EVERYDAY_HEADERS = frozenset(
    ("content-type", "accept", "accept-encoding", "user-agent", "connection", "host")
)
_LOOKS_SECRET = re.compile(
    r"\b(?:sk|pk|rk)-[\w-]{16,}|\bhf_\w{16,}|\bgh[opsu]_\w{16,}|\bAKIA[0-9A-Z]{12,}"
    r"|\bAIza[\w-]{20,}|(?i:\bbearer\s+)[\w.~+/=-]{8,}"
)
_USER_OF_ADDRESS = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_QUERY_OF_ADDRESS = re.compile(
    r"""(://[^\s?"'`<>]*\?)((?:(?!,[\w.-]+=)[^\s#"'`<>])+)"""  # up to the next argument
)
_QUERY_VALUE = re.compile(r"=[^&]*")
_ASSIGNED = re.compile(
    r"""((?:^|[?&;,{(\s])([\w.-]+)\s{0,8}={1,2}\s{0,8})"""
    r"""("(?:[^"\\\n]|\\.)+"|'(?:[^'\\\n]|\\.)+'|["']?[^&;,\s"']+)"""
)
_HEADERS = re.compile(r"""([\w.-]*headers?["']?\s{0,8}[=:]\s{0,8}\{)([^{}]*)""", re.IGNORECASE)
_HEADER_VALUE = re.compile(r"""(:\s{0,8})("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[^,"'\s]+)""")
_IN_JSON = re.compile(r"""(["']([\w.-]+)["']\s*:\s*["'])([^"']+)""")
_KEY_BYTES = 32
_NEW_PRIVATE = os.O_CREAT | os.O_EXCL | os.O_WRONLY


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret: ``api_key``, ``hfToken``; not ``tokenizer``."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if any(map(_is_secret_word, words)):
        return True
    is_token = bool(words) and words[-1] == "token"
    return is_token and not any(map(_VOCABULARY_WORD.fullmatch, words))


def _is_secret_word(word: str) -> bool:
    return bool(_SECRET_WORD.fullmatch(word)) and not _HARMLESS_WORD.fullmatch(word)


def looks_secret(text: str) -> bool:
    """Whether a text has the form of a key of a known service."""
    return bool(_LOOKS_SECRET.search(text))


def is_header_name(name: str) -> bool:
    """Whether a field of this name holds HTTP headers, some of which may be secret."""
    return "header" in name.lower()


def is_secret_header(name: str) -> bool:
    """Whether the value of this HTTP header may be a key; everyday headers hold none."""
    return name.lower() not in _EVERYDAY_HEADERS


def redacted(value: Any, name: str = "") -> Any:
    """``value`` with every secret in it replaced by ``***``; nothing is changed in place."""
    if name and is_secret_name(name) and not isinstance(value, (bool, type(None))):
        return HIDDEN
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, Mapping):
        if is_header_name(name):
            return {k: HIDDEN if is_secret_header(str(k)) else v for k, v in value.items()}
        return {key: redacted(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item) for item in value]
    return value


def redacted_text(text: str) -> str:
    """A string without keys, also in addresses (``https://user:key@…?code=…``), argument
    strings (``api_key=…,model=…``, ``token = "…"``) and JSON (``{"api_key": "…"}``).
    """
    text = _LOOKS_SECRET.sub(HIDDEN, text)
    text = _USER_OF_ADDRESS.sub(HIDDEN, text)
    text = _QUERY_OF_ADDRESS.sub(lambda match: match[1] + _without_values(match[2]), text)
    for pattern in (_ASSIGNED, _IN_JSON):
        text = pattern.sub(_without_secret, text)
    return _HEADERS.sub(lambda match: match[1] + _HEADER_VALUE.sub(_hidden_value, match[2]), text)


def masked_values(value: Any, name: str = "") -> Iterator[str]:
    """The texts that ``redacted`` masks by their place: addresses with a user or a query, headers.

    They decide who answers, unlike what is secret by name: a new key is not a new model.
    """
    if is_secret_name(name):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            if is_header_name(name) and is_secret_header(str(key)):
                yield f"{key}: {item}"
            else:
                yield from masked_values(item, str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from masked_values(item)
    elif isinstance(value, str) and redacted_text(value) != value:
        yield value


def secret_digest(secrets: Iterable[str]) -> str:
    """Sixteen hex digits that tell secrets apart without revealing them.

    They are keyed with random bytes in the user's cache, so that others cannot try values out.
    """
    text = json.dumps(sorted(secrets))
    return blake2b(text.encode(), key=_digest_key(cache_folder()), digest_size=8).hexdigest()


@cache
def _digest_key(folder: Path) -> bytes:
    path = folder / "digest.key"
    with suppress(OSError):
        with suppress(FileExistsError), os.fdopen(os.open(path, _NEW_PRIVATE, 0o600), "wb") as file:
            file.write(os.urandom(_KEY_BYTES))
        key = path.read_bytes()
        if len(key) == _KEY_BYTES:
            return key
    warnings.warn(
        f"{path} cannot be written, or is not a key of {_KEY_BYTES} bytes. Answers kept for an address "
        "with a query, or with headers, are found again by this process only. Make the folder "
        "writable, or delete the file.",
        LmEvalWarning,
        stacklevel=2,
    )
    return os.urandom(_KEY_BYTES)


def shown_address(address: str) -> str:
    """The address without a user, a password or the values of its query."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, _without_values(parts.query), ""))


def _without_values(query: str) -> str:
    return _QUERY_VALUE.sub(f"={HIDDEN}", query)


def _hidden_value(match: re.Match[str]) -> str:
    quote = match[2][0] if match[2][0] in "\"'" else ""
    return match[1] + quote + HIDDEN + quote


def _without_secret(match: re.Match[str]) -> str:
    if not is_secret_name(match[2]):
        return match[0]
    quote = match[3][0] if match[3][0] in "\"'" else ""
    return match[1] + quote + HIDDEN + (quote if match[3].endswith(quote) else "")


_MIN_LENGTH = 4
_MIN_IN_NAMES = 8
"""Names of fields are searched for longer secrets only: readers of files look them up."""
_EVERYDAY = re.compile(
    r"true|false|none|null|auto|default|enabled|disabled|required|basic|bearer|token|json"
    r"|v?\d{1,7}(?:\.\d+)*|v?\d{4}-\d\d(?:-\d\d)?(?:-\w{1,8})?|\w+/[\w.+-]+",
    re.IGNORECASE,
)
"""Values of switches, versions, dates and media types."""
_PLAIN_WORD = re.compile(r"[A-Za-z]?[a-z]{0,6}")
_MIXED = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{4,}")
"""Letters and digits without a break: much of a key, little of a version or the name of a model."""
_MIN_MIXED = 10
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
        """As ``encode.to_json``, without the secrets; always valid JSON."""
        text = to_json(value, indent=indent)
        if not self.occur_in(text):
            return text
        return to_json(self._without(json.loads(text)), indent=indent)

    def cleaned(self, value: Any) -> Any:
        """The value itself or, if it holds a secret, its JSON values without it."""
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
        is_long = any(len(v) >= _MIN_IN_NAMES and v in name for v in self._values)
        return self._hide(name) if is_long else name


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

    An error that leaves the block does not contain them. Blocks inside one another
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
    return len(value) >= _MIN_LENGTH and not _EVERYDAY.fullmatch(value)


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
    return [*secrets, *(secret for proxy in proxies for secret in _secrets_of_user(proxy))]


def _secrets_of_user(address: str) -> Iterator[str]:
    """User and password of an address that may be broken, with the parts that errors quote."""
    user = (address.partition("://")[2] or address).rpartition("@")[0]
    password = user.partition(":")[2] or user
    for text in (user, password, *re.split("[/?#@:]", password)):
        yield from (text, unquote(text))


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
        yield from ((secret, True) for secret in _secrets_of_user(address))
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
    for segment in parts.path.split("/"):
        if is_secret_name(before) or _is_key(segment):
            yield unquote(segment), False
        before = segment


def _is_key(segment: str) -> bool:
    """Whether a segment of a path looks like a key rather than a word, a version or a model."""
    mixed = sum(map(len, _MIXED.findall(segment)))
    return "%" in segment or mixed >= _MIN_MIXED or looks_secret(segment)


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
    import html

    yield value
    raw = value.encode("utf-8", "surrogatepass")
    quoted = (quote(raw, safe=""), quote(raw), quote_plus(raw))
    escaped = (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    twice = (json.dumps(form)[1:-1] for form in escaped)  # a server may quote a body
    yield from (*quoted, *escaped, *twice, repr(value)[1:-1], html.escape(value))
    yield from (_PERCENT.sub(lambda match: match[0].lower(), form) for form in quoted)
    yield from (encode(raw).decode().rstrip("=") for encode in (b64encode, urlsafe_b64encode))
