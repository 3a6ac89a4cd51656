"""A judge of nuggets: does a passage support each of a list of facts? Built on ``lm_eval``.

The rule above all: never invent a label. A reply that cannot be read is missing, and is counted.

Read in this order: errors, files, reading, prompts, config, data, scores, judge, output, lab, cli,
common, lab_runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nugget_eval.config import (
        Config,
        DataConfig,
        EvaluationConfig,
        LoggingConfig,
        MetricsConfig,
        ModelConfig,
    )
    from nugget_eval.errors import ConfigurationError, NuggetEvalError
    from nugget_eval.judge.evaluation import evaluate
    from nugget_eval.prompts import build_template_prompt
    from nugget_eval.reading import (
        parse_labels_multi_format,
        read_labels,
        strip_thinking_reasoning_blocks,
    )

__all__ = [
    "Config",
    "ConfigurationError",
    "DataConfig",
    "EvaluationConfig",
    "LoggingConfig",
    "MetricsConfig",
    "ModelConfig",
    "NuggetEvalError",
    "build_template_prompt",
    "evaluate",
    "parse_labels_multi_format",
    "read_labels",
    "strip_thinking_reasoning_blocks",
]

_HOMES = {
    "ConfigurationError": "errors",
    "NuggetEvalError": "errors",
    "build_template_prompt": "prompts",
    "evaluate": "judge.evaluation",
    "parse_labels_multi_format": "reading",
    "read_labels": "reading",
    "strip_thinking_reasoning_blocks": "reading",
}  # all others: config


def __getattr__(name: str) -> Any:
    if name in __all__:  # late, so that `import nugget_eval` stays cheap
        return getattr(import_module(f"nugget_eval.{_HOMES.get(name, 'config')}"), name)
    raise AttributeError(f"module 'nugget_eval' has no attribute {name!r}")
