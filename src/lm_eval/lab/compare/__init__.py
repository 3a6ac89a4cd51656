"""``lm-eval compare``: the same items under several formats or of several models.

Read in this order: values, statistics, findings, details, tables, regression.
"""
