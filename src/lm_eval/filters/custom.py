"""The filter that calls a task's own function, for Python users."""

from lm_eval.harness.filters.builtin import CustomFilter
from lm_eval.harness.filters.pipeline import Filter

__all__ = ["CustomFilter", "Filter"]
