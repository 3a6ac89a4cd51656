"""Filters that choose among responses, for Python users."""

from lm_eval.harness.filters import Filter, MajorityVoteFilter, TakeFirstFilter, TakeKFilter

__all__ = ["Filter", "MajorityVoteFilter", "TakeFirstFilter", "TakeKFilter"]
