"""Scores of stored runs as a table for a paper, a page or a spreadsheet.

In: stored runs. Out: Markdown, LaTeX, CSV, HTML or JSON, with intervals, and marks where a score differs
from a baseline on the same items.

Read in this order: values, layout, targets.
"""
