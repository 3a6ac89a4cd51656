"""``Instance``, for Python users."""

from lm_eval.instances import Instance, OutputType

__all__ = ["Instance", "OutputType"]
