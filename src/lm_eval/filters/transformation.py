"""Filters that rewrite responses, for Python users."""

from lm_eval.harness.filters import Filter, LowercaseFilter, MapFilter, SPANFilter, UppercaseFilter

__all__ = ["Filter", "LowercaseFilter", "MapFilter", "SPANFilter", "UppercaseFilter"]
