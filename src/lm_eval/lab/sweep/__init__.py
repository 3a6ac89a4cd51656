"""``lm-eval sweep``: a task under many formats of a list.

Read in this order: cells, sweep, report.
"""
