"""A format-first evaluation harness for language models.

Read in this order: errors, addresses, registry, support, config, data, formats, tasks, requests, models,
stats, scoring, orders, harness, answers, reports, run, evaluator, simple, lab, screen, viewer, cli,
utils, compat, api.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lm_eval.addresses.finder import attributes_of, install

if TYPE_CHECKING:
    from lm_eval.lab.stored.scores import load_results, load_samples
    from lm_eval.simple import evaluate, simple_evaluate

VERSION = "0.1.0"
__version__ = f"0.4.13+formats.{VERSION}"
"""For programs that compare it with releases of EleutherAI's harness: by PEP 440, a build of one."""
__all__ = ["__version__", "evaluate", "load_results", "load_samples", "simple_evaluate"]

_LATE = {
    "load_results": "lm_eval.lab.stored.scores",
    "load_samples": "lm_eval.lab.stored.scores",
}
"""Functions whose modules are imported when they are first asked for: `import lm_eval` stays cheap."""

install()
_address = attributes_of(__name__)  # `evaluate` and `simple_evaluate`, in the same way


def __getattr__(name: str) -> Any:
    if name in _LATE:
        import importlib

        return getattr(importlib.import_module(_LATE[name]), name)
    return _address(name)
