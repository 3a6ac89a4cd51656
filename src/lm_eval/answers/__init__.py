"""Answers of a model: asked for once, kept on disk, and what they cost.

Read in this order: prices, keys, store, ask.
"""
