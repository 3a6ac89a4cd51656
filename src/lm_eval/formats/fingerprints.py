"""Fingerprints of formats: twelve hex digits over what they say.

A field that was added later counts only if it is set, so that fingerprints stay the same, and old
scores comparable, when formats gain fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from lm_eval.formats.readers import BoundReader

UNMEASURED = ("name", "summary", "kind", "num_fewshot", "filters")
"""Fields that change no prompt and no reading."""
NEWER_FIELDS: dict[str, Any] = {
    **{"normalization": None, "scored": None, "scored_format": None},
    **{"preamble": None, "show_question": True, "words": {}},
    **{"context_prefix": "", "context_delimiter": "\n", "rationale_format": "{rationale}\n"},
    **{"enforced": False, "grammar": None, "program": None},
}
"""Fields that were added later → the value with which they change nothing."""
_NEWER_METRICS = ("acc_norm", "exact_match")
"""Metrics that formats with labels have gained since; no prompt or reading changed."""
_BESIDE = "acc_lenient"
"""A metric that other formats have gained."""


def format_fingerprint(data: Mapping[str, Any], *, shows_labels: bool) -> str:
    """Twelve hex digits over everything that changes a prompt or a reading."""
    content = {key: value for key, value in data.items() if key not in UNMEASURED}
    if not data["enforced"]:  # a grammar changes nothing before it is enforced
        content["grammar"] = None
    for name, unset in NEWER_FIELDS.items():
        if content[name] == unset:
            del content[name]
    metrics = [name.rpartition("=")[2] for name in data["metrics"]]
    content["metrics"] = [name for name in metrics if name != _BESIDE]
    if shows_labels:
        first, *others = metrics
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
