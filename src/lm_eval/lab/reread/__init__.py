"""``lm-eval reread``: stored answers read with another reader.

Read in this order: items, corpus, formats, results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.lab.reread.results import reread

__all__ = ["reread"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # late, so that one module of this package does not bring all of them
        from lm_eval.lab.reread import results

        return getattr(results, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
