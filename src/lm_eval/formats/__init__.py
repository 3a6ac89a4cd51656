"""Formats: how a question is asked, and how its answer is read.

Read in this order: readers, assemble, gold, items, fingerprints, grammar, enforced, languages,
prompt_format, checks, compile, list_file, jinja, templates.
"""
