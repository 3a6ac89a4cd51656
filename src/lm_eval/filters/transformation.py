"""Filters that rewrite responses, for Python users."""

from lm_eval.scoring.filters.base import Filter
from lm_eval.scoring.filters.transformation import (
    LowercaseFilter,
    MapFilter,
    SPANFilter,
    UppercaseFilter,
)

__all__ = ["Filter", "LowercaseFilter", "MapFilter", "SPANFilter", "UppercaseFilter"]
