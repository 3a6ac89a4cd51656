"""The base of filters, for Python users."""

from lm_eval.harness.filters import Filter, FilterEnsemble

__all__ = ["Filter", "FilterEnsemble"]
