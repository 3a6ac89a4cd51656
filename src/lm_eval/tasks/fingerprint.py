"""What tells one version of a task from another, whatever the format."""

from __future__ import annotations

import hashlib
import json
import re

from lm_eval.tasks.config import TaskConfig


def fingerprint_of(config: TaskConfig) -> str:
    """Twelve hex digits over what the task's YAML and helper files say, whatever the format."""
    content = {
        # Where a function lies in memory says nothing about what it does.
        key: re.sub(r" at 0x[0-9a-f]+", "", str(getattr(config, key)))
        for key in (
            *("dataset_path", "dataset_name", "dataset_kwargs", "test_split"),
            *("validation_split", "fewshot_split", "fewshot_config", "process_docs"),
            *("description", "num_fewshot", "repeats", "raw", "process_results"),
            *("filter_list", "metric_list"),
        )
    }
    if config.normalization is not None:
        content["normalization"] = config.normalization
    files = {function.file for _, function in config.functions()} - {None}
    helpers = sorted(hashlib.sha256(file.read_bytes()).hexdigest() for file in files if file)
    text = json.dumps({**content, "helpers": helpers}, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
