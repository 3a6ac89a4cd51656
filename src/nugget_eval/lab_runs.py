"""The address behind the entry point ``lm_eval.runs``; the home is ``nugget_eval.lab.runs``."""

from nugget_eval.lab.runs import READER

__all__ = ["READER"]
