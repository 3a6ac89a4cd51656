"""

Read in this order: costs, items, results_file, samples, table, writer.
"""
