"""Readings and gold answers become scores.

Read in this order: exact_match, programs, metrics, functions, overlap, mathematics, checks, results,
score.
"""
