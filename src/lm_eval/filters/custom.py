"""The filter that calls a task's own function, for Python users."""

from lm_eval.harness.filters import CustomFilter, Filter

__all__ = ["CustomFilter", "Filter"]
