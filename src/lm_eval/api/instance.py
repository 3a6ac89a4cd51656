"""``Instance``, for Python users."""

from lm_eval.harness.instances import Instance, OutputType

__all__ = ["Instance", "OutputType"]
