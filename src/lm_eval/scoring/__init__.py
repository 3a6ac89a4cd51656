"""Readings and gold answers become scores.

Read in this order: metrics, repeats, results, score.
"""
