"""Formats: how a question is put, and how the answer to it is read.

Read in this order: readers, assemble, gold, items, identity, grammar, enforced, prompt_format,
checks, compile, languages, list_file, jinja, templates.
"""
