"""The documented address of ``sentences``; the home is ``lm_eval.lab.compare.words``."""

from lm_eval.lab.compare.words import sentences

__all__ = ["sentences"]
