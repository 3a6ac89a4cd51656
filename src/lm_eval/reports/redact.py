"""Keys and passwords never reach a file: hidden by the name of their field, by their look, and by
being the value of an environment variable that holds a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

HIDDEN = "***"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORD = re.compile(
    "(?:api)?keys?|secrets?|password|passwd|pwd|passphrase|credentials?|auth|authorization|bearer"
    "|cookie|signature"
)
# ``token`` is a secret in auth_token and a vocabulary entry in add_bos_token.
_VOCABULARY_WORD = re.compile(
    "bos|eos|eot|pad|unk|mask|sep|cls|special|prefix|suffix|stop|start|end|begin|think|image|add"
    "|first|last|max|min|new|num|next|skip"
)
_LOOKS_SECRET = re.compile(
    r"\b(?:sk|pk|rk)-[\w-]{16,}|\bhf_\w{16,}|\bgh[opsu]_\w{16,}|\bAKIA[0-9A-Z]{12,}"
    r"|\bAIza[\w-]{20,}|(?i:\bbearer\s+)[\w.~+/=-]{8,}"
)
_IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_ASSIGNED = re.compile(
    r"""((?:^|[?&;,{(\s])([\w.-]+)\s{0,8}={1,2}\s{0,8})"""
    r"""("(?:[^"\\\n]|\\.)+"|'(?:[^'\\\n]|\\.)+'|["']?[^&;,\s"']+)"""
)
_IN_JSON = re.compile(r"""(["']([\w.-]+)["']\s*:\s*["'])([^"']+)""")
_MIN_SECRET = 12
"""Shorter values of environment variables are not searched for: they would match ordinary text."""


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret: ``api_key``, ``hfToken``; not ``tokenizer``."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if any(map(_SECRET_WORD.fullmatch, words)):
        return True
    is_token = bool(words) and words[-1] == "token"
    return is_token and not any(map(_VOCABULARY_WORD.fullmatch, words))


def redacted(value: Any, name: str = "") -> Any:
    """``value`` with every secret in it replaced by ``***``; nothing is changed in place."""
    if name and is_secret_name(name) and not isinstance(value, (bool, type(None))):
        return HIDDEN
    if isinstance(value, str):
        return redacted_text(value)
    if isinstance(value, Mapping):
        return {key: redacted(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item) for item in value]
    return value


def redacted_text(text: str) -> str:
    """A string without keys, also in addresses (``https://user:key@…``, ``?api_key=…``), argument
    strings (``api_key=…,model=…``, ``token = "…"``) and JSON (``{"api_key": "…"}``).
    """
    text = _LOOKS_SECRET.sub(HIDDEN, text)
    text = _IN_ADDRESS.sub(HIDDEN, text)
    for pattern in (_ASSIGNED, _IN_JSON):
        text = pattern.sub(_without_secret, text)
    return text


def environment_secrets() -> tuple[str, ...]:
    """The values of environment variables whose names say that they are secret, longest first."""
    found = {v for k, v in os.environ.items() if len(v) >= _MIN_SECRET and is_secret_name(k)}
    return tuple(sorted((v for v in found if not v.startswith("/")), key=len, reverse=True))


def _without_secret(match: re.Match[str]) -> str:
    if not is_secret_name(match[2]):
        return match[0]
    quote = match[3][0] if match[3][0] in "\"'" else ""
    return match[1] + quote + HIDDEN + (quote if match[3].endswith(quote) else "")
