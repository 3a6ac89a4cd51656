"""What single keys of a task file mean: which rows, invented rows, and facts about the benchmark.

Read in this order: rows, sample_rows, facts.
"""
