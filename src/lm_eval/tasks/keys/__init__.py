"""What single keys of a task file mean: rows, the order of choices, and what makes two tasks the same.

Read in this order: rows, sample_rows, order, fingerprint, facts.
"""
