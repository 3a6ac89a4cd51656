"""Filters that choose among responses, for Python users."""

from lm_eval.harness.filters.pipeline import Filter
from lm_eval.harness.filters.transformation import MajorityVoteFilter, TakeFirstFilter, TakeKFilter

__all__ = ["Filter", "MajorityVoteFilter", "TakeFirstFilter", "TakeKFilter"]
