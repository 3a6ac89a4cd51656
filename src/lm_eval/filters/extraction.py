"""Filters that take the answer out of a text, for Python users."""

from lm_eval.harness.filters import (
    Filter,
    MultiChoiceRegexFilter,
    POSFilter,
    RegexFilter,
    WhitespaceFilter,
)

__all__ = ["Filter", "MultiChoiceRegexFilter", "POSFilter", "RegexFilter", "WhitespaceFilter"]
