"""The base of filters, for Python users."""

from lm_eval.addresses.finder import attributes_of
from lm_eval.harness.filters import Filter, FilterEnsemble

__all__ = ["Filter", "FilterEnsemble"]

__getattr__ = attributes_of(__name__)
