"""Filters that choose among responses, for Python users."""

from lm_eval.harness.filters.builtin import MajorityVoteFilter, TakeFirstFilter, TakeKFilter
from lm_eval.harness.filters.pipeline import Filter

__all__ = ["Filter", "MajorityVoteFilter", "TakeFirstFilter", "TakeKFilter"]
