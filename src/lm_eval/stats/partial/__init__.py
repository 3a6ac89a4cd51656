"""Scores of many formats from a fraction of the cells (``--budget``).

Read in this order: sampler, distribution.
"""
