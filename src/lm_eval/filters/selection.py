"""Filters that choose among responses, for Python users."""

from lm_eval.scoring.filters.base import Filter
from lm_eval.scoring.filters.selection import MajorityVoteFilter, TakeFirstFilter, TakeKFilter

__all__ = ["Filter", "MajorityVoteFilter", "TakeFirstFilter", "TakeKFilter"]
