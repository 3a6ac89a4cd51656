"""The documented address of ``FormatList``; the home is ``lm_eval.lab.grammar.sample``."""

from lm_eval.lab.grammar.sample import FormatList

__all__ = ["FormatList"]
