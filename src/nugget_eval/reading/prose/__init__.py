"""Answers in sentences: what they say about which nugget, in the languages that judges are asked in.

Read in this order: vocabulary, claims, statements.
"""
