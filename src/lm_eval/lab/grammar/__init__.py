"""Formats that ask the same in another form: axes, checks of equivalence, samples, lists.

Read in this order: layout, equivalence, axes, sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lm_eval.lab.grammar.sample import sample_formats

__all__ = ["sample_formats"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # late, so that one module of this package does not bring all of them
        from lm_eval.lab.grammar import sample

        return getattr(sample, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
