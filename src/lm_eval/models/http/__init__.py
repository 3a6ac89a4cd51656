"""HTTP for long, expensive runs; it knows nothing of language models.

Read in this order: pacing, failures, client, servers, transport.
"""
