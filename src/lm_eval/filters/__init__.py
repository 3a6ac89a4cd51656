"""Filters under the address where helper modules look for them.

Read in this order: custom, extraction, selection, transformation.
"""

from lm_eval.addresses.finder import attributes_of
from lm_eval.harness.filters import build_filter_ensemble

__all__ = ["build_filter_ensemble"]

__getattr__ = attributes_of(__name__)
