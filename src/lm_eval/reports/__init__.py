"""What a run reports: its results file, samples and items, and the tables that people read.

Read in this order: items, samples, table, results_file, writer.
"""
