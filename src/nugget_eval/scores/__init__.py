"""Labels → scores of topics and runs, agreement, comparisons.

Read in this order: bootstrap, measures, agreement, scores, compare.
"""
