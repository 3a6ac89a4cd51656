"""Readings and gold answers become scores.

Read in this order: metrics, functions, overlap, mathematics, repeats, results, score.
"""
