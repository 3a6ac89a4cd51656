"""A format-first evaluation harness for language models.

Read in this order: errors, registry, text, config, data, formats, tasks, requests, models, stats,
scoring, orders, harness, answers, reports, run, evaluator, simple, lab, cli, utils, api, filters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.simple import evaluate, simple_evaluate

__version__ = "0.1.0"
__all__ = ["__version__", "evaluate", "simple_evaluate"]


def __getattr__(name: str) -> Any:
    if name in ("evaluate", "simple_evaluate"):  # late, so that `import lm_eval` stays cheap
        from lm_eval import simple

        return getattr(simple, name)
    raise AttributeError(f"module 'lm_eval' has no attribute {name!r}")
