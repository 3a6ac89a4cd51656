"""Filters that rewrite responses, for Python users."""

from lm_eval.harness.filters.pipeline import Filter
from lm_eval.harness.filters.transformation import (
    LowercaseFilter,
    MapFilter,
    SPANFilter,
    UppercaseFilter,
)

__all__ = ["Filter", "LowercaseFilter", "MapFilter", "SPANFilter", "UppercaseFilter"]
