"""Readings and gold answers become scores.

Read in this order: programs, metrics, functions, overlap, mathematics, checks, results, score.
"""
