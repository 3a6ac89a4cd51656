"""Answers in sentences: which label they give to which nugget, in the languages of the prompts.

Read in this order: vocabulary, claims, statements.
"""
