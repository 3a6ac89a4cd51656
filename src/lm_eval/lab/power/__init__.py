"""``lm-eval power``: how many items or repeats a difference needs.

Read in this order: rows, words.
"""
