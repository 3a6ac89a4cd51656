"""The filter that calls a task's own function, for Python users."""

from lm_eval.scoring.filters.base import Filter
from lm_eval.scoring.filters.transformation import CustomFilter

__all__ = ["CustomFilter", "Filter"]
