"""What single keys of a task file mean: which rows they choose, and what makes two tasks the same.

Read in this order: rows, sample_rows, fingerprint.
"""
