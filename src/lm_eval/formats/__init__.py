"""Formats: how a question is put, and how the answer to it is read.

Read in this order: readers, assemble, gold, items, identity, grammar, variants, prompt_format,
checks, compile, list_file, jinja, templates.
"""
