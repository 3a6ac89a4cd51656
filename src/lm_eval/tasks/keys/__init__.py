"""The meaning of single keys of a task file: rows, invented rows, and facts about the benchmark.

Read in this order: rows, sample_rows, facts.
"""
