"""A task's fingerprint: what its YAML and helper files say, in twelve hex digits."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.tasks.config import TaskConfig

KEYS = (
    *("dataset_path", "dataset_name", "dataset_kwargs", "test_split"),
    *("validation_split", "fewshot_split", "fewshot_config", "process_docs"),
    *("description", "num_fewshot", "repeats", "raw", "process_results"),
    *("filter_list", "metric_list"),
)
NEWER_KEYS = (
    *("normalization", "target_type", "dataset_revision", "dataset_files"),
    *("primary_metric", "doc_to_context", "where", "skip_docs", "fewshot_match", "language"),
    *("doc_to_rationale", "shuffle_choices"),
)
"""Keys that count where they are set, so that older fingerprints stay as they are."""


def fingerprint_of(config: TaskConfig) -> str:
    """Twelve hex digits over what the task's YAML and helper files say, whatever the format."""
    content = {key: _without_address(getattr(config, key)) for key in KEYS}
    if config.wrapped is not None:  # the file's own fields, whatever a format makes of them
        content["raw"] = _without_address(config.wrapped)
    newer = {key: getattr(config, key) for key in NEWER_KEYS}
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
    """A value as text; where a function lies in memory says nothing about what it does."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
