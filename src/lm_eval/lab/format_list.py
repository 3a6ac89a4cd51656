"""The documented address of ``FormatList``; the home is ``lm_eval.lab.grammar.format_list``."""

from lm_eval.lab.grammar.format_list import FormatList

__all__ = ["FormatList"]
