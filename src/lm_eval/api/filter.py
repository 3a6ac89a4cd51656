"""The base of filters, for Python users."""

from lm_eval.scoring.filters import Filter, FilterEnsemble

__all__ = ["Filter", "FilterEnsemble"]
