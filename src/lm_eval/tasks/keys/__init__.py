"""The meaning of single keys of a task file: rows, and invented rows.

Read in this order: rows, sample_rows.
"""
