"""Readings and gold answers become scores.

Read in this order: exact_match, metrics, functions, overlap, mathematics, checks, results, score.
"""
