"""Readings and gold answers become scores.

Read in this order: metrics, functions, overlap, mathematics, checks, results, score.
"""
