"""Scores of many formats from a fraction of the cells (``--budget``)."""
