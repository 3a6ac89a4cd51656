"""Fingerprints of formats and tasks: twelve hex digits over what they say.

A field that was added later counts only if it is set, so that fingerprints stay the same, and old
scores comparable, when formats and tasks gain fields.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lm_eval.formats.readers import BoundReader

if TYPE_CHECKING:
    from lm_eval.tasks.config import TaskConfig


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


# Tasks


TASK_KEYS = (
    *("dataset_path", "dataset_name", "dataset_kwargs", "test_split"),
    *("validation_split", "fewshot_split", "fewshot_config", "process_docs"),
    *("description", "num_fewshot", "repeats", "process_results"),
    *("filter_list", "metric_list"),
)
NEWER_TASK_KEYS = (
    *("normalization", "target_type", "dataset_revision", "dataset_files"),
    *("primary_metric", "doc_to_context", "where", "skip_docs", "fewshot_match", "language"),
    *("doc_to_rationale", "shuffle_choices", "unfold"),
)
"""Keys that count only if they are set, so that older fingerprints stay the same."""


def task_fingerprint(config: TaskConfig) -> str:
    """Twelve hex digits over what the task's YAML and helper files say, whatever the format."""
    content = {key: _without_address(getattr(config, key)) for key in TASK_KEYS}
    content["raw"] = _without_address(config.written)  # whatever a format makes of them
    newer = {key: getattr(config, key) for key in NEWER_TASK_KEYS}
    stated = {key: _stated(value) for key, value in newer.items() if value is not None}
    files = {function.file for _, function in config.functions()} - {None}
    helpers = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file)
    text = json.dumps({**content, **stated, "helpers": helpers}, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def with_commit(fingerprint: str, commit: str) -> str:
    """The fingerprint of a task whose data set is at a commit of the hub."""
    return hashlib.sha256(f"{fingerprint} {commit}".encode()).hexdigest()[:12]


def _stated(value: Any) -> Any:
    return value if isinstance(value, str | Mapping) else _without_address(value)


def _without_address(value: Any) -> str:
    """A value as text, without the memory address of a function."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
