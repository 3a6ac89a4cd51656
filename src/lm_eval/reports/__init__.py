"""What a run reports: its results file, samples and items, and the tables that people read.

Read in this order: items, costs, environment, results_file, samples, writer.
"""
