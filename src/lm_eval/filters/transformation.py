"""Filters that rewrite responses, for Python users."""

from lm_eval.harness.filters.builtin import LowercaseFilter, MapFilter, SPANFilter, UppercaseFilter
from lm_eval.harness.filters.pipeline import Filter

__all__ = ["Filter", "LowercaseFilter", "MapFilter", "SPANFilter", "UppercaseFilter"]
