"""Formats that ask the same question in a different form: axes, checks of equivalence, samples, lists.

Read in this order: layout, equivalence, axes, sample.
"""

from lm_eval.lab.grammar.sample import sample_formats

__all__ = ["sample_formats"]
