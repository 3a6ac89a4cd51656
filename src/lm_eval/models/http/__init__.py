"""HTTP for long, expensive runs; knows no word of language models.

Read in this order: pacing, failures, pool, stepping, transport.
"""
