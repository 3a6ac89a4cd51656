"""Stored runs: opened, measured item by item, and chosen by task, format and model.

Read in this order: run, measurement, select.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.lab.stored.run import open_runs

__all__ = ["open_runs"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # late, so that one module of this package does not bring all of them
        from lm_eval.lab.stored import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
