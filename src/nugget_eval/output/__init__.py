"""What an evaluation writes and prints.

Read in this order: files, tables.
"""
