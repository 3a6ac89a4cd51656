"""HTTP for long, expensive runs; it knows nothing of language models.

Read in this order: pacing, failures, framing, connections, pool, servers, event_loop, transport.
"""
