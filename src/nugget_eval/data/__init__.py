"""The files of a nugget evaluation: rows, records, items.

Read in this order: rows, records, files, items.
"""
