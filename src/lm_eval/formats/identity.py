"""What makes two formats the same: their fields as plain data, and twelve hex digits over them.

A field that formats did not always have counts only where it is set, so that a format keeps its
fingerprint, and old scores stay comparable, when the language of formats grows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from lm_eval.formats.readers import BoundReader

UNMEASURED = ("name", "summary", "kind")
"""Fields that change no prompt and no reading."""
NEWER_FIELDS: dict[str, Any] = {
    **{"normalization": None, "scored": None, "scored_format": None},
    **{"preamble": None, "show_question": True, "words": {}},
    **{"context_prefix": "", "context_delimiter": "\n", "rationale_format": "{rationale}\n"},
}
"""Fields that formats did not always have → the value with which they change nothing."""
_NEWER_METRICS = ("acc_norm", "exact_match")
"""What formats with labels report since, with no prompt or reading changed."""


def fingerprint_of(data: Mapping[str, Any], *, shows_labels: bool) -> str:
    """Twelve hex digits over everything that changes a prompt or a reading."""
    content = {key: value for key, value in data.items() if key not in UNMEASURED}
    for name, unset in NEWER_FIELDS.items():
        if content[name] == unset:
            del content[name]
    if shows_labels:
        first, *others = data["metrics"]
        content["metrics"] = [first, *(name for name in others if name not in _NEWER_METRICS)]
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def plain(value: Any) -> Any:
    """A field's value as YAML data."""
    if isinstance(value, BoundReader):
        return value.as_spec()
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    return value
