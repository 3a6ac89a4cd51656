"""Filters that choose among responses, for Python users."""

from lm_eval.harness.filters.base import Filter
from lm_eval.harness.filters.selection import MajorityVoteFilter, TakeFirstFilter, TakeKFilter

__all__ = ["Filter", "MajorityVoteFilter", "TakeFirstFilter", "TakeKFilter"]
