"""The filter that calls a task's own function, for Python users."""

from lm_eval.harness.filters.pipeline import Filter
from lm_eval.harness.filters.transformation import CustomFilter

__all__ = ["CustomFilter", "Filter"]
