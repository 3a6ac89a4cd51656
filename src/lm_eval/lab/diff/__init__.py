"""``lm-eval diff``: why two stored runs have different scores.

Read in this order: facts, items, runs, words, report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.lab.diff.runs import diff_runs

__all__ = ["diff_runs"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # late, so that one module of this package does not bring all of them
        from lm_eval.lab.diff import runs

        return getattr(runs, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
