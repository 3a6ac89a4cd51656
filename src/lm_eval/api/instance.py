"""``Instance``, for Python users."""

from lm_eval.addresses.finder import attributes_of
from lm_eval.harness.instances import Instance, OutputType

__all__ = ["Instance", "OutputType"]

__getattr__ = attributes_of(__name__)
