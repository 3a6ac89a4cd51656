"""The documented address of ``compare``; the home is ``lm_eval.lab.compare.statistics``."""

from lm_eval.lab.compare.statistics import Options, compare

__all__ = ["Options", "compare"]
