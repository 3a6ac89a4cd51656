"""Filters that take the answer out of a text, for Python users."""

from lm_eval.harness.filters.builtin import (
    MultiChoiceRegexFilter,
    POSFilter,
    RegexFilter,
    WhitespaceFilter,
)
from lm_eval.harness.filters.pipeline import Filter

__all__ = ["Filter", "MultiChoiceRegexFilter", "POSFilter", "RegexFilter", "WhitespaceFilter"]
