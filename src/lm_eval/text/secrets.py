"""The one rule for what is secret: keeps keys and passwords out of files, errors and cache keys.

A value is secret by the name of its field (``is_secret_name``), by its place (a header that is not an
everyday one, the user and the query of an address), by its look, and by being the value of an
environment variable whose name says that it is secret; ``run_secrets`` collects such values.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from lm_eval.errors import LmEvalWarning
from lm_eval.text.files import cache_folder, create_private

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
    """Whether the value of this HTTP header may be a key: of all but the everyday ones."""
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
    """Sixteen hex digits that tell secrets apart and give none of them away.

    They are keyed with random bytes in the user's cache, so that nobody else can try values out.
    """
    text = json.dumps(sorted(secrets))
    return blake2b(text.encode(), key=_digest_key(cache_folder()), digest_size=8).hexdigest()


@cache
def _digest_key(folder: Path) -> bytes:
    path = folder / "digest.key"
    with suppress(OSError):
        _create_key(path)
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


def _create_key(path: Path) -> None:
    """Write a new key, unless another process was first: a key is never replaced."""
    if path.exists():
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    create_private(draft)
    draft.write_bytes(os.urandom(_KEY_BYTES))
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()


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
