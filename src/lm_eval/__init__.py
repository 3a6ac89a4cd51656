"""A format-first evaluation harness for language models.

Read in this order: errors, addresses, registry, text, config, data, formats, tasks, requests, models,
stats, scoring, orders, harness, answers, reports, run, evaluator, simple, lab, screen, cli,
utils, compat, api, filters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lm_eval.addresses.finder import attributes_of, install

if TYPE_CHECKING:
    from lm_eval.simple import evaluate, simple_evaluate

__version__ = "0.1.0"
__all__ = ["__version__", "evaluate", "simple_evaluate"]

install()
__getattr__ = attributes_of(__name__)  # both functions too: `import lm_eval` stays cheap
