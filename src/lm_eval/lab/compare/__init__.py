"""``lm-eval compare``: the same items under several formats or of several models.

Read in this order: values, statistics, verdicts, words, findings, details, tables, regression.
"""
